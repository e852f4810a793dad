"""A cloud of two real hosts on one machine: each in namespaces, with a libvirt daemon of its own.

Both reach the same shares, by stand-ins for mount and umount; QEMU's locks on its files are
real, as both run on one kernel. Source: facts/real_hosts.md 4.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from mooring.lab.real_hosts import RealHost, RealHosts
from tests.agent.daemons import open_daemon
from tests.agent.shares import Shares
from tests.contract.clients import Shell
from tests.hosts import power
from tests.hosts.pooled_cloud import PooledCloud
from tests.hosts.real_cloud import RealCloud
from tests.kill.processes import CommandProcess

HOSTS = ("moor-c", "moor-d")
POOL = "shared"
POOLS: Mapping[str, str] = {POOL: "qcow2"}
"""The pools that a cloud has unless told, with the format of their volumes."""
SERVER = "192.0.2.7"
WRITES = 101
"""The byte of an image that QEMU locks while its guest may write to it."""
_STORAGE = """
[mounts]
program_path = "{here}/bin"
table = "{here}/table"
"""
_POOL = """
[[pools]]
name = "{name}"
driver = "nfs"
[pools.nfs]
nas_host = "{server}"
nas_share_path = "/{name}"
nfs_qcow2_volumes = {is_qcow2}
nfs_snapshot_support = true
nas_secure_file_operations = "false"
"""


class MovingCloud(PooledCloud):
    """`mooring serve` beside two agents, the first of which has the pools."""

    def __init__(
        self, directory: Path, lab: RealHosts, stack: ExitStack, pools: Mapping[str, str]
    ) -> None:
        self._directory, self._stack, self._pools = directory, stack, pools
        self._hosts = {host.name: host for host in lab.hosts}
        for host in lab.hosts:
            self._set_up(host)
        self._agents = {name: self._begin(host) for name, host in self._hosts.items()}
        RealCloud.__init__(self, directory)

    def _set_up(self, host: RealHost) -> None:
        is_first = host.name == HOSTS[0]
        root = self._directory / host.name
        root.mkdir()
        shares = Shares(root / "outside")
        if is_first:
            for pool in self._pools:
                shares.export(f"{SERVER}:/{pool}")
        else:
            (shares.directory / "shares").rmdir()
            first = self._directory / HOSTS[0] / "outside" / "shares"
            (shares.directory / "shares").symlink_to(first)
        storage = _STORAGE.format(here=shares.directory) + (self._told() if is_first else "")
        (root / "storage.toml").write_text(storage)
        address = host.namespace.address
        settings = (
            f'storage = "{root}/storage.toml"\nmove_address = "{address}"\n'
            f'copy_listen = "{address}:0"\n'
        )
        (root / "agent.toml").write_text(settings)
        (root / power.NAMESPACE).write_text(str(host.namespace.file))

    def _told(self) -> str:
        """What the agent that has the pools is told of them."""
        pools = ((name, str(kind == "qcow2").lower()) for name, kind in self._pools.items())
        return "".join(
            _POOL.format(name=name, server=SERVER, is_qcow2=is_so) for name, is_so in pools
        )

    def _begin(self, host: RealHost) -> CommandProcess:
        root = self._directory / host.name
        agent = CommandProcess(
            "agent",
            *("--config", str(root / "agent.toml")),
            *("--name", host.name, "--hypervisor", "libvirt"),
            *("--state-dir", str(host.directory)),
            *("--socket", str(root / "agent.sock")),
            log=root / "agent.log",
            before=host.before(),
        )
        self._stack.callback(agent.wait)
        self._stack.callback(agent.popen.terminate)
        (root / power.AGENT).write_text(str(agent.pid))
        return agent

    def cut_power(self, name: str, *, spares_guests: bool = False) -> None:
        """Let every process of a host die at once, or all but its guests."""
        power.cut_power(self._directory / name, spares_guests=spares_guests)
        self._agents[name].wait()

    def power_on(self, name: str) -> None:
        """Let a host come back, with the guests that it may still have."""
        self._agents[name] = self._begin(self._hosts[name])

    def start(self, kill_at: str = "") -> None:
        agents = [("--agent", f"{name}={self._directory / name}/agent.sock") for name in HOSTS]
        fence = [sys.executable, power.__file__, f"{self._directory}/{{host}}"]
        (self._directory / "control.toml").write_text(f"fence_command = {json.dumps(fence)}\n")
        self.process = CommandProcess(
            "serve",
            *("--config", str(self._directory / "control.toml")),
            *("--state-dir", str(self.state_dir), "--listen", self._listen),
            *(word for one in agents for word in one),
            log=self._log,
            kill_at=kill_at,
        )
        self._listen = self.process.ready.removeprefix("http://")
        self.demo, self.admin = self._connect("demo"), self._connect("admin")

    @cached_property
    def kind(self) -> str:
        """The volume type of the shared pool."""
        return self.make_type(POOL)

    def clean_up(self) -> None:
        RealCloud.clean_up(self)

    def file_of(self, volume_id: str) -> Path:
        """The image of a volume, on the share."""
        [found] = (self._directory / HOSTS[0] / "outside").rglob(f"volume-{volume_id}")
        return found

    def operator(self) -> Shell:
        """The stock command, as an operator of the cloud."""
        return Shell(self.state_dir / "clouds.yaml", "mooring")

    def pace(self, host: str, server_id: str, mib_s: int) -> None:
        """Let a guest leave its host only so fast."""
        with self.domain(host, server_id) as domain:
            domain.migrateSetMaxSpeed(mib_s)

    @contextmanager
    def domain(self, host: str, server_id: str) -> Generator[Any]:
        """A guest as a host's daemon has it, by libvirt itself."""
        with self.daemon(host) as connection:
            yield connection.lookupByName(f"mooring-{server_id}")

    @contextmanager
    def daemon(self, host: str) -> Generator[Any]:
        """A connection to a host's daemon."""
        with open_daemon(self.state_dir / "hosts" / host) as connection:
            yield connection

    def emulators(self, server_id: str) -> list[int]:
        """Return the QEMU processes that have, or are to have, a guest."""
        found: list[int] = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = entry.read_text(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if f"guest=mooring-{server_id}" in line and "qemu-system" in line.split("\0")[0]:
                found.append(int(entry.parent.name))
        return found


class Ledger(threading.Thread):
    """Samples, until told to end, which emulators may write to an image, by QEMU's own locks."""

    def __init__(self, cloud: MovingCloud, server_id: str, image: Path) -> None:
        super().__init__(daemon=True)
        self._cloud, self._server_id = cloud, server_id
        self._inode = image.stat().st_ino
        self._is_over = threading.Event()
        self.writers: list[int] = []
        """Each emulator that was seen to hold the image, in the order of their first holding."""
        self.doubles: list[list[int]] = []
        """Emulators that held it at one time."""
        self.samples = 0

    def run(self) -> None:
        while not self._is_over.wait(0.02):
            self._sample()

    def end(self) -> None:
        """Sample no more."""
        self._is_over.set()
        self.join()

    def _sample(self) -> None:
        pids = self._cloud.emulators(self._server_id)
        holding = [pid for pid in pids if holds(pid, self._inode)]
        self.samples += 1
        self.writers += [pid for pid in holding if pid not in self.writers]
        # The looks are not at one time: only who held it before and after held it meanwhile.
        if len(holding) > 1 and all(holds(pid, self._inode) for pid in holding):
            self.doubles.append(holding)


def holds(process_id: int, inode: int) -> bool:
    """Whether an emulator may write to an image, by QEMU's own locks."""
    try:
        names = [one.name for one in Path(f"/proc/{process_id}/fd").iterdir()]
    except OSError:
        return False
    return any(_locks(Path(f"/proc/{process_id}"), name, inode) for name in names)


def _locks(process: Path, name: str, inode: int) -> bool:
    try:
        if (process / "fd" / name).stat().st_ino != inode:
            return False
        told = (process / "fdinfo" / name).read_text()
    except OSError:
        return False
    ranges = re.findall(r"^lock:.*OFDLCK.* (\d+) (\d+)$", told, re.MULTILINE)
    return any(int(first) <= WRITES <= int(last) for first, last in ranges)


@contextmanager
def two_real_hosts(directory: Path, pools: Mapping[str, str] = POOLS) -> Generator[MovingCloud]:
    """A cloud of two real hosts; ended, with its guests, whatever the test has left."""
    lab = RealHosts(directory / "state", HOSTS)
    with ExitStack() as stack:
        stack.callback(lambda: asyncio.run(lab.close(guests=True)))
        asyncio.run(lab.open())
        cloud = MovingCloud(directory, lab, stack, pools)
        stack.callback(cloud.clean_up)
        yield cloud
