"""The simulated hypervisor's world: its guests and who wrote to which volume when, in a small file.

The file is not forced to disk: it survives the agent's death, as real guests do, and not the
machine's.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mooring import typed
from mooring.agent.device_letters import first_device
from mooring.agent.limits import AGENT_CONSOLE_BYTES
from mooring.agent.sources import FileSource, NetworkSource, Source
from mooring.agent_api.config_drives import DriveBus
from mooring.agent_api.disks import DiskBus, GuestDisk
from mooring.agent_api.guest_shares import GuestShare
from mooring.agent_api.servers import Guest, GuestState, RescueDevice
from mooring.write_ahead import set_write_ahead

FILE = "simulated.sqlite"
"""Where it is, in the host's state directory."""
_TABLES = """
CREATE TABLE IF NOT EXISTS guests (id TEXT PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS writes (
    volume_id TEXT, writer TEXT, shared INTEGER, since REAL, until REAL);
"""


RUNNING: frozenset[GuestState] = frozenset({"running", "paused"})
"""The states in which a guest has its devices."""


class SimulatedMirror(Struct, kw_only=True):
    """The volume that a disk is copied to."""

    volume_id: str
    attachment_id: str
    path: str
    format: str
    begun: bool = True
    """Whether it misses nothing of what the guest writes from now on."""


class SimulatedDisk(Struct, kw_only=True):
    """A volume of a simulated guest."""

    volume_id: str
    attachment_id: str
    device: str
    path: str
    """Of its file; empty for an image on the network, which `network` names then."""
    format: str
    size_bytes: int
    network: NetworkSource | None = None
    boot_index: int | None = None
    read_only: bool = False
    shareable: bool = False
    live: bool = False
    persistent: bool = True
    below: list[tuple[str, str]] = []
    """Path and format of the files below, as far as this hypervisor put overlays on them."""
    mirror: SimulatedMirror | None = None
    bus: DiskBus = "virtio"
    serial: str = ""
    """What the running guest calls it, where that is another volume than it is by now."""

    @property
    def source(self) -> Source:
        """Where its bytes are."""
        return self.network or FileSource(self.path, self.format)


class SimulatedRescue(Struct, frozen=True, kw_only=True):
    """What a simulated guest boots from instead of its own disks."""

    image_id: str
    device: str
    kind: RescueDevice = "disk"
    bus: DiskBus = "virtio"
    size_bytes: int
    is_stable: bool


class SimulatedGuest(Struct, kw_only=True):
    """A simulated guest, as it is kept."""

    server_id: str
    name: str
    vcpus: int
    memory_mib: int
    image_id: str = ""
    root_bytes: int = 0
    state: GuestState = "stopped"
    network: str = "auto"
    metadata: dict[str, str] = {}
    disks: list[SimulatedDisk] = []
    mem_page_size: str = ""
    shares: list[GuestShare] = []
    """Of the definition."""
    live_shares: list[GuestShare] = []
    """Those that it runs with; none when it is off."""
    has_drive: bool = False
    rescue: SimulatedRescue | None = None
    swap_bytes: int = 0
    swap_device: str = ""
    root_bus: DiskBus = "virtio"
    bus: DiskBus = "virtio"
    """What its swap disk is on."""
    drive_bus: DriveBus = "scsi"
    console: str = ""
    said: int = 0
    """How many characters it has written to its console here, with those that are not kept."""
    memory: list[str] | None = None
    """The volumes that it was suspended with; None where it is not, or an older release did it."""
    stands_for_copy: bool = False
    """Whether it is paused until the copy of a disk has begun, and runs on then."""
    stands_for_move: bool = False
    """Whether it is paused until it is at another host, and runs on there, or here if it stays."""


class Written(Struct, frozen=True):
    """A span of time in which a guest could write to a volume. Unix times; `until` None: still."""

    volume_id: str
    writer: str
    shared: bool
    since: float
    until: float | None


def is_written(file: Path, volume_id: str) -> bool:
    """Return whether a running guest of a world has a volume; of one that is gone none has."""
    if not file.exists():
        return False
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        query = "SELECT 1 FROM writes WHERE volume_id = ? AND until IS NULL"
        return connection.execute(query, (volume_id,)).fetchone() is not None
    finally:
        connection.close()


def writers(file: Path, volume_id: str) -> list[tuple[str, bool]]:
    """Return which running guests of a world have a volume, each with whether it shares that."""
    if not file.exists():
        return []
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        query = "SELECT writer, shared FROM writes WHERE volume_id = ? AND until IS NULL"
        rows = connection.execute(query, (volume_id,)).fetchall()
    finally:
        connection.close()
    return [(row[0], bool(row[1])) for row in rows]


def find_path(file: Path, volume_id: str) -> str:
    """Return the path by which a running guest of a world has a volume open, "" when none has."""
    if not file.exists():
        return ""
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        bodies = [row[0] for row in connection.execute("SELECT body FROM guests ORDER BY id")]
    finally:
        connection.close()
    guests = (typed.decode(body, SimulatedGuest) for body in bodies)
    disks = (disk for guest in guests for disk in guest.disks if disk.live)
    return next((disk.path for disk in disks if disk.volume_id == volume_id), "")


class World:
    """The file. Every method is one short transaction."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.heed: Callable[[str, SimulatedGuest | None], None] = _heed_nothing
        """Told of each guest that was saved here, or of its id, where one was removed."""
        self._connection = sqlite3.connect(path, isolation_level=None)
        set_write_ahead(self._connection)
        self._connection.execute("PRAGMA synchronous=OFF")
        self._connection.executescript(_TABLES)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def guests(self) -> list[SimulatedGuest]:
        """Return all guests, by id."""
        rows = self._connection.execute("SELECT body FROM guests ORDER BY id")
        return [typed.decode(row[0], SimulatedGuest) for row in rows]

    def find(self, server_id: str) -> SimulatedGuest | None:
        """Return one guest, or None."""
        query = "SELECT body FROM guests WHERE id = ?"
        row = self._connection.execute(query, (server_id,)).fetchone()
        return None if row is None else typed.decode(row[0], SimulatedGuest)

    def save(self, guest: SimulatedGuest) -> None:
        """Keep a guest, and note which volumes it can write to from now on."""
        live = [disk for disk in guest.disks if disk.live]
        writes = {disk.volume_id: disk.shareable for disk in live}
        writes |= {disk.mirror.volume_id: False for disk in live if disk.mirror}
        with self._connection:
            self._connection.execute("BEGIN")
            self._connection.execute(
                "INSERT OR REPLACE INTO guests VALUES (?, ?)",
                (guest.server_id, msgspec.json.encode(guest)),
            )
            self._note_writes(guest.server_id, writes)
        self.heed(guest.server_id, guest)

    def remove(self, server_id: str) -> None:
        """Forget a guest."""
        with self._connection:
            self._connection.execute("BEGIN")
            self._connection.execute("DELETE FROM guests WHERE id = ?", (server_id,))
            self._note_writes(server_id, {})
        self.heed(server_id, None)

    def ledger(self) -> list[Written]:
        """Return who could write to which volume, and when."""
        rows = self._connection.execute("SELECT * FROM writes ORDER BY since")
        return [Written(row[0], row[1], bool(row[2]), row[3], row[4]) for row in rows]

    def _note_writes(self, writer: str, writes: dict[str, bool]) -> None:
        query = "SELECT volume_id FROM writes WHERE writer = ? AND until IS NULL"
        open_now = {row[0] for row in self._connection.execute(query, (writer,))}
        now = time.time()
        for volume_id in open_now - writes.keys():
            self._connection.execute(
                "UPDATE writes SET until = ? WHERE writer = ? AND volume_id = ? AND until IS NULL",
                (now, writer, volume_id),
            )
        for volume_id in writes.keys() - open_now:
            self._connection.execute(
                "INSERT INTO writes VALUES (?, ?, ?, ?, NULL)",
                (volume_id, writer, writes[volume_id], now),
            )


def _heed_nothing(server_id: str, guest: SimulatedGuest | None) -> None:
    del server_id, guest


def say(guest: SimulatedGuest, words: str) -> None:
    """Let a guest print words on its console."""
    write(guest, f"mooring-guest: {words}\n")


def write(guest: SimulatedGuest, text: str) -> None:
    """Let a guest write to its console."""
    guest.console, guest.said = (
        (guest.console + text)[-AGENT_CONSOLE_BYTES:],
        guest.said + len(text),
    )


def say_disk(guest: SimulatedGuest, device: str, size_bytes: int, volume_id: str) -> None:
    """Let a guest print what it has found out of a disk."""
    name = device.removeprefix("/dev/")
    # A virtio disk shows its guest the first 20 characters of its serial number.
    say(guest, f"disk {name} {size_bytes} bytes serial={volume_id[:20]}")


def show(guest: SimulatedGuest) -> Guest:
    """Return a simulated guest as its agent tells of it."""
    boots = (disk.device for disk in guest.disks if disk.boot_index == 0)
    root = first_device(guest.root_bus)
    if not guest.image_id:
        root = next(boots, root)
    rescue = guest.rescue
    return Guest(
        server_id=guest.server_id,
        name=guest.name,
        state=guest.state,
        vcpus=guest.vcpus,
        memory_mib=guest.memory_mib,
        image_id=guest.image_id,
        root_device=rescue.device if rescue else root,
        disks=[_show_own(disk, guest) for disk in guest.disks],
        shares=guest.live_shares if guest.state in RUNNING else guest.shares,
        metadata=guest.metadata,
        has_drive=guest.has_drive,
        rescue_image_id=rescue.image_id if rescue else "",
        swap_mib=guest.swap_bytes >> 20,
    )


def _show_own(disk: SimulatedDisk, guest: SimulatedGuest) -> GuestDisk:
    """Return a disk of a guest, from which it does not boot in rescue."""
    shown = show_disk(disk)
    return replace(shown, boot_index=None) if guest.rescue else shown


def show_disk(disk: SimulatedDisk) -> GuestDisk:
    """Return a disk of one, likewise."""
    return GuestDisk(
        volume_id=disk.volume_id,
        attachment_id=disk.attachment_id,
        device=disk.device,
        path=disk.path,
        format=disk.format,
        boot_index=disk.boot_index,
        read_only=disk.read_only,
        live=disk.live,
        persistent=disk.persistent,
        bus=disk.bus,
    )
