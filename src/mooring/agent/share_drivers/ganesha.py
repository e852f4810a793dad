"""NFS-Ganesha: what it gives away to whom, as files for its next start and calls for now.

Exports that were made by D-Bus are lost when Ganesha ends, so a file says first what an export is,
an index that Ganesha's own file includes names it, and then one call takes it in: `UpdateExport`,
which also makes one that is not there (facts/shared_file_systems.md 12.4,
facts/distributed_storage.md 3).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

import structlog
from msgspec import Struct

from mooring.agent import files
from mooring.agent.pool_threads import PoolThreads
from mooring.agent.run import Output, Programs
from mooring.agent.share_drivers.records import KeptRule
from mooring.errors import NoCapacity, Unavailable

log = structlog.get_logger()
_INDEX, _PREFIX = "index.conf", "share-"
_MANAGER = "/org/ganesha/nfsd/ExportMgr"
_TAKEN = "exports updated"
_NUMBER = re.compile(r"Export_Id = (\d+);")
_LEVELS = {"rw": "RW", "ro": "RO"}


class Export(Struct, frozen=True):
    """One export: its number of 16 bits, what clients call it, and the directory behind it."""

    number: int
    pseudo: str
    path: Path
    rules: Mapping[str, KeptRule]


class Ganesha:
    """One Ganesha, by the address of the D-Bus that it is on. `directory` has the files."""

    def __init__(self, bus: str, directory: Path, programs: Programs, threads: PoolThreads) -> None:
        self._bus, self._directory, self._programs = bus, directory, programs
        self._run = threads.run
        self._files = threading.Lock()
        """The index is one for all shares, whose calls come at once."""

    def prepare(self) -> None:
        """Make the directory and an index, which Ganesha does not start without. Blocking.

        An index that cannot be written keeps no agent from starting: `check` tells of it.
        """
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in files.partials(self._directory / "*"):
            left.unlink(missing_ok=True)
        try:
            self._write_index()
        except (NoCapacity, OSError) as error:
            log.warning("the NFS server's index is not written", reason=str(error))

    async def put(self, share_id: str, export: Export) -> None:
        """Have a share given away as it says: granted, changed and revoked by one call.

        Raises Unavailable when Ganesha does not take it in; its next start does.
        """

        def write() -> None:
            with self._files:
                _write(self._file(share_id), tell(export))
                self._write_index()

        await self._run(write)
        output = await self._call(
            "UpdateExport",
            f"string:{self._file(share_id)}",
            f"string:EXPORT(Export_Id={export.number})",
        )
        # It says so of some mistakes and counts the export all the same.
        if output.code or _TAKEN not in output.out or "Errors found" in output.out:
            raise _silent(output)

    async def remove(self, share_id: str, number: int) -> None:
        """Give a share away no more; 0: it never was. Raises Unavailable: Ganesha is silent."""

        def strike() -> None:
            with self._files:
                self._file(share_id).unlink(missing_ok=True)
                self._write_index()

        await self._run(strike)
        if not number:
            return
        output = await self._call("RemoveExport", f"uint16:{number}")
        if output.code and "Export id not found" not in output.err:
            raise _silent(output)

    def number_of(self, share_id: str) -> int:
        """Return the number under which a share's file has it given away, 0 without. Blocking."""
        file = self._file(share_id)
        found = _NUMBER.search(file.read_text("utf-8")) if file.exists() else None
        return int(found[1]) if found else 0

    def shares(self) -> list[str]:
        """Return the shares that have a file. Blocking."""
        found = self._directory.glob(f"{_PREFIX}*.conf")
        return sorted(path.stem.removeprefix(_PREFIX) for path in found)

    async def check(self) -> None:
        """Raise Unavailable unless Ganesha answers, and its index is as it should be."""

        def write() -> None:
            with self._files:
                self._write_index()

        try:
            await self._run(write)
        except NoCapacity as error:
            raise Unavailable(error.public, private=error.private) from error
        output = await self._send("org.freedesktop.DBus.Peer.Ping")
        if output.code:
            raise _silent(output)

    def leftovers(self, known: Iterable[str]) -> list[str]:
        """Return files of no share among `known`. Blocking."""
        owned = {_INDEX, *(self._file(share_id).name for share_id in known)}
        # One that is being written is there under another name for a moment.
        with self._files:
            found = list(self._directory.iterdir())
        return sorted(str(path) for path in found if path.name not in owned)

    async def _call(self, method: str, *words: str) -> Output:
        return await self._send(f"org.ganesha.nfsd.exportmgr.{method}", *words)

    async def _send(self, *words: str) -> Output:
        argv = ["dbus-send", f"--bus={self._bus}", "--print-reply", "--reply-timeout=20000"]
        return await self._programs.run([*argv, "--dest=org.ganesha.nfsd", _MANAGER, *words])

    def _file(self, share_id: str) -> Path:
        return self._directory / f"{_PREFIX}{share_id}.conf"

    def _write_index(self) -> None:
        """Write the index, if it is another one: a full disk is no matter to one that is right."""
        found = sorted(self._directory.glob(f"{_PREFIX}*.conf"))
        index, text = self._directory / _INDEX, "".join(f'%include "{path}"\n' for path in found)
        if not index.exists() or index.read_bytes() != text.encode():
            _write(index, text)


def tell(export: Export) -> str:
    """Return an export as Ganesha reads it: nobody gets in but by a rule."""
    lines = [
        "EXPORT {",
        f"    Export_Id = {export.number};",
        f'    Path = "{export.path}";',
        f'    Pseudo = "{export.pseudo}";',
        "    Access_Type = None;",
        "    Squash = None;",
        "    SecType = sys;",
        "    Protocols = 4;",
        "    Transports = TCP;",
        *_clients(export.rules.values()),
        "    FSAL { Name = VFS; }",
        "}",
        "",
    ]
    return "\n".join(lines)


def _clients(rules: Iterable[KeptRule]) -> list[str]:
    """Return the blocks of clients. The first that fits decides, so the narrowest comes first."""
    named = [(ip_network(rule.to), rule.level) for rule in rules]
    named.sort(key=lambda one: (-one[0].prefixlen, one[0].version, int(one[0].network_address)))
    return [
        f"    CLIENT {{ Clients = {_name(network)}; Access_Type = {_LEVELS[level]}; }}"
        for network, level in named
    ]


def _name(network: IPv4Network | IPv6Network) -> str:
    """Return a network in words that Ganesha reads.

    It takes no prefix of 0, no 128 of IPv6, and no IPv6 address with a prefix that begins with a
    colon.
    """
    if network.prefixlen == network.max_prefixlen:
        return str(network.network_address)
    if network.prefixlen == 0:
        # Of IPv4 the address alone is everybody; of IPv6 there is no such word.
        return str(network.network_address) if network.version == 4 else "0::/1, 8000::/1"
    return network.exploded


def _write(path: Path, text: str) -> None:
    with files.full_disk_told(path):
        written = files.partial(path, "")
        try:
            written.write_text(text, "utf-8")
            files.finish(written, path)
        finally:
            # What was begun on a full disk would be called a leftover.
            written.unlink(missing_ok=True)


def _silent(output: Output) -> Unavailable:
    return Unavailable(
        "The NFS server of this host does not take in what it is to give away. It will when it "
        "starts anew; see that Ganesha runs and can be reached by its D-Bus, and ask again.",
        private=(output.err or output.out).strip(),
    )
