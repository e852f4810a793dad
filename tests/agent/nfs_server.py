"""An NFS server to test with: a real Ganesha, and clients, in network namespaces of their own."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from mooring.agent.waiting import until

ADDRESS = "10.9.0.254"
CLIENTS = (1, 2)
"""Client n has the address 10.9.0.n."""
_PROGRAMS = ("ganesha.nfsd", "dbus-daemon", "dbus-send", "nfs-ls", "mkfs.btrfs", "losetup", "ip")
_count = itertools.count()
_BUS = """<busconfig>
  <type>system</type><listen>unix:path={bus}</listen><auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="root"/><allow own="*"/>
    <allow send_destination="*"/><allow receive_sender="*"/>
  </policy>
</busconfig>
"""
_CONFIG = """
NFS_CORE_PARAM {{
    Protocols = 4; NFS_Port = 2049; Enable_NLM = false; Enable_RQUOTA = false;
    Bind_addr = {address};
}}
NFSv4 {{
    Graceless = true; RecoveryBackend = fs; RecoveryRoot = {recovery};
    Minor_Versions = 0,1,2; Lease_Lifetime = 10;
}}
%include "{index}"
"""


def why_no_nfs_server() -> str:
    """Return what keeps this machine from serving NFS, "" when nothing does."""
    if os.geteuid() != 0:
        return "an NFS server takes root"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} are missing: run scripts/setup"
    if "btrfs" not in Path("/proc/filesystems").read_text("ascii"):
        return "this kernel has no btrfs"
    return "" if Path("/dev/loop-control").exists() else "this machine has no loop devices"


class NfsServer:
    """A server that includes the index of one pool.

    It is in the network namespace `net`, by which the names of its clients' begin, at an address.
    """

    def __init__(self, directory: Path, index: Path, net: str = "", address: str = ADDRESS) -> None:
        self.directory, self._index, self.address = directory, index, address
        self.net = net or f"mo{os.getpid() % 100000}n{next(_count)}"
        self.bus = f"unix:path={directory / 'bus'}"
        self._running: list[subprocess.Popen[bytes]] = []

    def client(self, number: int) -> str:
        """Return the namespace of a client."""
        return f"{self.net}c{number}"

    async def start(self) -> None:
        """Start the bus and Ganesha, and wait until it answers."""
        environment = {"DBUS_SYSTEM_BUS_ADDRESS": self.bus, "PATH": os.environ["PATH"]}
        config, log = self.directory / "bus.conf", self.directory / "ganesha.log"
        bus = self.directory / "bus"
        if not self._running:
            config.write_text(_BUS.format(bus=bus))
            words = ["dbus-daemon", f"--config-file={config}", "--nofork", "--nopidfile"]
            self._running.append(await _start(words, environment))
            assert await until(bus.exists, 20)
        main, recovery = self.directory / "ganesha.conf", self.directory / "recovery"
        recovery.mkdir(exist_ok=True)
        main.write_text(_CONFIG.format(address=self.address, recovery=recovery, index=self._index))
        log.unlink(missing_ok=True)
        # It does not start without what it includes.
        self._index.parent.mkdir(parents=True, exist_ok=True)
        self._index.touch()
        words = ["nsenter", f"--net=/run/netns/{self.net}", "ganesha.nfsd", "-F"]
        files = ["-f", str(main), "-L", str(log), "-p", str(self.directory / "ganesha.pid")]
        self._running.append(await _start([*words, *files], environment))
        began = await until(lambda: _says(log, "NFS SERVER INITIALIZED"), 30)
        assert began, log.read_text("utf-8", "replace")[-2000:]

    async def stop(self) -> None:
        """End Ganesha; the bus stays."""
        await asyncio.to_thread(_end, self._running.pop())

    async def close(self) -> None:
        """End both."""
        while self._running:
            await self.stop()

    def lay_cables(self) -> None:
        """Make the namespaces: of the server, and of each client with a cable to it."""
        _ip("netns", "add", self.net)
        _inside(self.net, "link", "add", "bridge", "type", "bridge")
        _inside(self.net, "address", "add", f"{ADDRESS}/24", "dev", "bridge")
        _inside(self.net, "link", "set", "bridge", "up")
        _inside(self.net, "link", "set", "lo", "up")
        for number in CLIENTS:
            name = self.client(number)
            _ip("netns", "add", name)
            cable = ("type", "veth", "peer", "name", "eth0", "netns", name)
            _inside(self.net, "link", "add", f"c{number}", *cable)
            _inside(self.net, "link", "set", f"c{number}", "master", "bridge", "up")
            _inside(name, "address", "add", f"10.9.0.{number}/24", "dev", "eth0")
            _inside(name, "link", "set", "eth0", "up")

    def take_cables(self) -> None:
        """Remove the namespaces."""
        for name in (*(self.client(number) for number in CLIENTS), self.net):
            subprocess.run(["ip", "netns", "delete", name], check=False)


@asynccontextmanager
async def nfs_server(index: Path) -> AsyncGenerator[NfsServer]:
    """Start a server, which includes a file that may be written later.

    Its directory has a short name, since a socket's is bounded.
    """
    directory = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="mooring-nfs"))
    server = NfsServer(directory, index)
    try:
        await asyncio.to_thread(server.lay_cables)
        await server.start()
        yield server
    finally:
        await server.close()
        await asyncio.to_thread(server.take_cables)
        await asyncio.to_thread(lambda: shutil.rmtree(directory))


async def _start(words: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return await asyncio.to_thread(lambda: subprocess.Popen(words, env=environment))


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _inside(namespace: str, *words: str) -> None:
    _ip("-netns", namespace, *words)


def _says(log: Path, words: str) -> bool:
    return log.exists() and words in log.read_text("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(20)
