"""A cloud of two real hosts whose shares are in a storage of its own, as operators configure it.

`mooring serve` beside three agents: two hosts in namespaces, each with a libvirt daemon, and one
that has the role share alone and a pool of the storage (docs/shares.md).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from mooring.lab.namespaces import Namespace
from mooring.lab.real_hosts import RealHost, RealHosts
from mooring.lab.residents import SHARES
from tests.contract.clients import Http, Shell
from tests.hosts.real_cloud import RealCloud
from tests.kill.processes import CommandProcess

HOSTS = ("moor-e", "moor-f")
KEEPER = "moor-s"
"""The host that gives away the shares."""
_STORAGE = f"""
[mounts]
program_path = "{{programs}}"
[mounts.shares]
share_address = "{{address}}"
nfs_mount_point_base = "/{SHARES}/nfs"
cephfs_mount_point_base = "/{SHARES}/cephfs"
"""
_VOLUMES = f"""
[[pools]]
name = "shared"
path = "volumes"
hosts = ["{HOSTS[0]}", "{HOSTS[1]}"]
"""
_POOL = """
[[share_pools]]
name = "{driver}"
driver = "{driver}"
"""


class Store(Protocol):
    """What a cloud is told of its storage."""

    share_type: str
    """The driver of its pool, and the name of pool and share type."""
    options: str
    """The end of the pool's table in the storage file."""
    programs: str
    """Where hosts look for mount first."""


class StoredCloud(RealCloud):
    """`mooring serve`, which is killed and started again, beside agents that stay."""

    def __init__(self, directory: Path, sockets: Mapping[str, Path]) -> None:
        self._sockets = sockets
        super().__init__(directory)

    def start(self, kill_at: str = "") -> None:
        agents = [("--agent", f"{name}={path}") for name, path in self._sockets.items()]
        self.process = CommandProcess(
            "serve",
            *("--state-dir", str(self.state_dir), "--listen", self._listen),
            *(word for one in agents for word in one),
            log=self._log,
            kill_at=kill_at,
        )
        self._listen = self.process.ready.removeprefix("http://")
        self.demo, self.admin = self._connect("demo"), self._connect("admin")

    def shell(self, user: str) -> Shell:
        """The stock command, as one of the users."""
        return Shell(self.state_dir / "clouds.yaml", user)

    def http(self, user: str) -> Http:
        """Requests as `demo` or `admin`, to the process that runs now."""
        return {"demo": self.demo, "admin": self.admin}[user]

    def acts(self, server: str, word: str) -> None:
        """Have an administrator ask for something to be done to a server, named by its path."""
        answer = self.admin.ask("POST", f"{server}/action", {word: None}, version="2.106")
        assert answer.status in {202, 204}, answer


class Agents:
    """Starts agents below a directory, and ends them with a stack."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory, self._stack = directory, stack
        self.sockets: dict[str, Path] = {}

    def host(self, host: RealHost, programs: str) -> None:
        """Start that of a real host, the first of which keeps the volumes.

        `programs` is where mount is looked for first.
        """
        address, keeps = host.namespace.address, host.name == HOSTS[0]
        storage = _STORAGE.format(address=address, programs=programs) + _VOLUMES * keeps
        settings = f'move_address = "{address}"\ncopy_listen = "{address}:0"\n'
        role = "both" if keeps else "compute"
        options = ("--hypervisor", "libvirt", "--state-dir", str(host.directory))
        self._begin(host.name, storage, settings, [*options, "--role", role], host.before())

    def keeper(self, place: Namespace, pool: str) -> None:
        """Start the one that has the pool of shares: in a network, and in no mount namespace."""
        state = self._directory / "keeper"
        options = ["--state-dir", str(state), "--role", "share"]
        self._begin(KEEPER, pool, "", options, ("nsenter", f"--net={place.file}"))

    def _begin(
        self, name: str, storage: str, settings: str, options: Sequence[str], before: Sequence[str]
    ) -> None:
        root = self._directory / name
        root.mkdir()
        (root / "storage.toml").write_text(storage)
        (root / "agent.toml").write_text(f'storage = "{root}/storage.toml"\n{settings}')
        self.sockets[name] = root / "agent.sock"
        agent = CommandProcess(
            "agent",
            *("--config", str(root / "agent.toml"), "--name", name),
            *("--socket", str(self.sockets[name]), *options),
            log=root / "agent.log",
            before=before,
        )
        self._stack.callback(agent.wait)
        self._stack.callback(agent.popen.terminate)


@contextmanager
def stored_cloud(
    directory: Path, lab: RealHosts, store: Store, image: bytes
) -> Generator[StoredCloud]:
    """A cloud on a lab that is open, with a guest's image, and with a pool and a type of shares.

    Ended, with its agents, whatever the test has left; its guests are ended with the lab.
    """
    driver = store.share_type
    with ExitStack() as stack:
        agents = Agents(directory, stack)
        *hosts, keeper = lab.hosts
        agents.keeper(keeper.namespace, _POOL.format(driver=driver) + store.options)
        for host in hosts:
            agents.host(host, store.programs)
        cloud = StoredCloud(directory, agents.sockets)
        stack.callback(cloud.clean_up)
        cloud.demo.image("guest", image, "qcow2")
        spec = ("--extra-specs", f"share_backend_name={driver}")
        cloud.shell("mooring").run("share", "type", "create", driver, "False", *spec)
        yield cloud
