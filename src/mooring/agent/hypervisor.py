"""What runs guests: the protocol that libvirt and the simulated hypervisor implement.

Every method may be repeated, also after the agent died in the middle of it. Source for what each
must do: facts/compute.md 14.1.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from mooring.agent.guest_mirrors import GuestMirrors
from mooring.agent.guest_power import GuestPower
from mooring.agent.guest_roots import GuestRoots
from mooring.agent.guest_serial import GuestSerial
from mooring.agent.rescues import GuestRescue
from mooring.agent.sources import FileSource, Source
from mooring.agent.swap_disks import SwapPlan
from mooring.agent_api.config_drives import DriveBus
from mooring.agent_api.disks import DiskBus, DiskSize, GuestDisk
from mooring.agent_api.guest_shares import GuestShare
from mooring.agent_api.images import CachedImage
from mooring.agent_api.moves import Arrival, LocalRoot, Portrait, Progress
from mooring.agent_api.overlays import MergeRequest
from mooring.agent_api.servers import Guest
from mooring.errors import Conflict, Invalid, NotFound
from mooring.probe import Probe

SECTOR_BYTES = 512
TRAITS = frozenset(
    {
        "COMPUTE_CONFIG_DRIVE_REGENERATION",
        "COMPUTE_IMAGE_TYPE_QCOW2",
        "COMPUTE_IMAGE_TYPE_RAW",
        "COMPUTE_REBUILD_BFV",
        "COMPUTE_RESCUE_BFV",
        *(f"COMPUTE_STORAGE_BUS_{bus}" for bus in ("SATA", "SCSI", "USB", "VIRTIO")),
        "COMPUTE_VOLUME_MULTI_ATTACH",
        "CUSTOM_COMPUTE_DISK_BUSES",
    }
)
"""What this agent can do today, in placement's words (facts/compute.md 14.3)."""
SHARE_TRAITS = frozenset({"COMPUTE_MEM_BACKING_FILE", "COMPUTE_STORAGE_VIRTIO_FS"})
"""What it can do besides where shares can be given to guests (facts/compute.md 7.1)."""


class Facts(Struct, frozen=True, kw_only=True):
    """What a hypervisor offers: totals, its version as QEMU counts, its traits."""

    kind: str
    version: int
    accelerator: str
    vcpus: int
    memory_mib: int
    disk_gib: int
    traits: frozenset[str]
    agent_version: int
    problem: str = ""
    """Why no guest can be started now, and what to do about it."""


class RootPlan(Struct, frozen=True, kw_only=True):
    """A root disk on the host itself."""

    path: Path
    format: str
    image_id: str
    size_bytes: int
    bus: DiskBus = "virtio"

    @property
    def source(self) -> Source:
        """The same as a source of a disk."""
        return FileSource(str(self.path), self.format)


class DiskPlan(Struct, frozen=True, kw_only=True):
    """A connected volume as a disk of a guest. `device` ("/dev/vdb") is a wish, "" is none."""

    volume_id: str
    attachment_id: str
    source: Source
    device: str = ""
    boot_index: int | None = None
    read_only: bool = False
    shareable: bool = False
    size_bytes: int = 0
    """As the connection tells it; 0 when it does not."""
    bus: DiskBus = "virtio"


class GuestPlan(Struct, frozen=True, kw_only=True):
    """All that a guest's definition is made from."""

    server_id: str
    name: str
    vcpus: int
    memory_mib: int
    root: RootPlan | None
    disks: tuple[DiskPlan, ...]
    network: Literal["auto", "none"]
    metadata: dict[str, str]
    shares: tuple[GuestShare, ...] = ()
    mem_page_size: str = ""
    """As the flavor has it; heeded where memory is shared."""
    has_drive: bool = False
    """Whether the guest has a config drive, which `give_drive` lays down."""
    drive_bus: DriveBus = "scsi"
    swap: SwapPlan | None = None
    bus: DiskBus = "virtio"
    """Of the swap disk, and what disks that come later are on: the guest is ready for them."""


GONE = "hypervisor_gone"
"""News for the agent alone: what runs the guests answers no more, and the guests go on."""


class News(Struct, frozen=True, kw_only=True):
    """Something that a hypervisor noticed; the kinds are those of `agent_api.hosts.Event`."""

    kind: str
    server_id: str
    volume_id: str = ""
    reason: str = ""


class Landing(Struct, frozen=True, kw_only=True):
    """Where a guest is to be sent, and the file that logs its console there."""

    address: str
    console: str = ""
    root: str = ""
    """The file of the root disk that was made for it, if any."""
    drive: str = ""
    """The file of its config drive, likewise."""
    swap: str = ""


Tell = Callable[[News], None]


class Hypervisor(GuestPower, GuestRoots, GuestMirrors, GuestRescue, GuestSerial, Protocol):
    """Runs the guests of one host.

    A guest whose emulator hangs holds up nobody: what asks it is Unavailable in bounded time, and
    what was begun in it may come true later, but never behind what is done to the guest after it.

    probe   passes moments in the middle of what is done to a guest
    """

    probe: Probe

    async def admit(self, source: Source) -> None:
        """See that guests' emulators may open a volume that is connected. Raises Unavailable."""
        ...

    async def start(self, tell: Tell) -> None:
        """Find the guests again and begin to watch them. Raises Unavailable with what to do."""
        ...

    async def close(self) -> None:
        """Stop watching; the guests go on."""
        ...

    async def facts(self) -> Facts:
        """Return what the host offers now."""
        ...

    async def guests(self) -> list[Guest]:
        """Return all our guests."""
        ...

    async def guest(self, server_id: str) -> Guest | None:
        """Return one guest, or None."""
        ...

    async def leftovers(self) -> list[str]:
        """Return directories of guests that are not there."""
        ...

    async def capture_root(self, server_id: str, written: Path, operation_key: str) -> None:
        """Write a guest's root disk, as it is at one moment, to a qcow2 file that stands alone.

        The guest goes on writing to its own. Raises NotFound, NoCapacity, Conflict, Unavailable.
        """
        ...

    async def stop_capture(self, server_id: str) -> None:
        """End what a guest's emulator copies for `capture_root`; nothing when it copies nothing."""
        ...

    async def define(self, plan: GuestPlan) -> None:
        """Define the guest so; a running one takes it up at its next start."""
        ...

    async def redefine_disks(self, server_id: str, disks: tuple[DiskPlan, ...]) -> None:
        """Give the definition exactly these volumes; it boots as before. Raises NotFound."""
        ...

    async def redefine_shares(self, server_id: str, shares: tuple[GuestShare, ...]) -> None:
        """Give the definition exactly these shares, and shared memory if any. Raises NotFound."""
        ...

    async def drop_share(self, server_id: str, share_id: str) -> None:
        """Take a share out of the definition; nothing when there is none of guest or share.

        Raises Conflict when the running guest has it.
        """
        ...

    async def give_drive(self, server_id: str, image: bytes, operation_key: str) -> None:
        """Give a guest that is off this config drive; one that runs keeps its own. NotFound."""
        ...

    async def remove(self, server_id: str, *, keeps_disks: bool = False) -> None:
        """End the guest, forget it, remove its files, or all but its disks, for `find_root`.

        Raises Unavailable when a file stays: what is asked for next would be made of it.
        """
        ...

    async def plug(self, server_id: str, disk: DiskPlan) -> GuestDisk:
        """Give the guest a disk, now and at each start.

        Raises NotFound, NoCapacity, Invalid for a source that cannot be opened here, and Conflict
        when it has the volume by another attachment.
        """
        ...

    async def unplug(self, server_id: str, volume_id: str, attachment_id: str = "") -> None:
        """Take a disk away, now and for ever; nothing when there is none of guest or disk.

        A disk of another attachment than the one that is named stays as it is. Raises Conflict
        when the guest keeps it, or is paused: then the definition still has it. One that lets it
        go after that is news, of the kind `LET_GO`.
        """
        ...

    async def plug_back(self, server_id: str, volume_id: str) -> bool:
        """Give a running guest a disk that it has let go of, and its definition has.

        Returns whether it lacked the disk. Nothing while `unplug` is at work on it.
        """
        ...

    async def resize_disk(self, server_id: str, volume_id: str, size_bytes: int) -> DiskSize:
        """Grow a volume's image and tell the guest, running or paused; or only grow, if it is off.

        Returns what guest and image have then. An image of that size, or a larger one, is left so,
        and the guest told of what it has: an order that comes late makes nothing smaller. Raises
        NotFound without guest or disk, NoCapacity, Invalid for an image on the network, Conflict
        for a disk that is copied to another volume.
        """
        ...

    async def snapshot_disk(self, server_id: str, volume_id: str, new_file: str) -> GuestDisk:
        """Let the guest write to an overlay beside its file, now and at each start.

        Raises NotFound, Invalid for a file that is no overlay of the disk's own, Conflict.
        """
        ...

    async def take_back_snapshot(
        self, server_id: str, volume_id: str, new_file: str, operation_key: str
    ) -> GuestDisk | None:
        """Undo `snapshot_disk`, what was written since included; None without guest or disk."""
        ...

    async def merge_disk(
        self, server_id: str, volume_id: str, merge: MergeRequest, operation_key: str
    ) -> GuestDisk:
        """Merge files of a disk; takes as long as it takes. Raises NotFound, Invalid, Unavailable.

        Whenever it ends early, the disk reads as before.
        """
        ...

    async def stop_merge(self, server_id: str, volume_id: str) -> None:
        """End a merge that runs inside the guest's QEMU; nothing when there is none."""
        ...

    async def disk_size(self, server_id: str, volume_id: str) -> DiskSize:
        """Return how big a volume is for its guest, and its image. Raises NotFound."""
        ...

    async def console(self, server_id: str, lines: int | None) -> str:
        """Return the end of the serial console, whole or so many lines. Raises NotFound."""
        ...

    async def portrait(self, server_id: str) -> Portrait:
        """Return what a guest needs of another host. Raises NotFound, Conflict: it is off."""
        ...

    async def expect(self, server_id: str, portrait: Portrait) -> None:
        """Make room for a guest of another host, or find it made.

        Raises Conflict when it could not run here, or nothing can be sent here.
        """
        ...

    async def expect_root(
        self,
        server_id: str,
        image: CachedImage | None,
        source: Path | None,
        root: LocalRoot,
        operation_key: str,
    ) -> None:
        """Make an empty root disk for a guest that is expected, over a cached image's file if any.

        As large as the guest's own; one made before is made anew. Raises NoCapacity, Conflict: an
        emulator here may have one open.
        """
        ...

    async def expect_drive(self, server_id: str, image: bytes, operation_key: str) -> None:
        """Lay down the config drive that a guest which is expected reads. Raises as the above."""
        ...

    async def find_landing(self, server_id: str) -> Landing:
        """Return where a guest that is expected is to be sent. Raises Conflict: none can be."""
        ...

    async def send(self, server_id: str, arrival: Arrival) -> None:
        """Send a guest there, running all the time, and return when it is there: `migrated` here.

        Its emulator's copies are ended first. One that is `migrated` is left so. Cancelled, it
        sends no more. Raises NotFound, Conflict, Unavailable; where the guest is then, only both
        hosts tell.
        """
        ...

    async def progress(self, server_id: str) -> Progress:
        """Return how far a guest is on its way. Raises NotFound."""
        ...

    async def hasten(self, server_id: str) -> None:
        """Hold a guest still until it has arrived. Raises NotFound, Conflict: it is not sent."""
        ...

    async def stop_sending(self, server_id: str) -> None:
        """See that a guest goes nowhere any more; nothing when none is there, or none is sent."""
        ...

    async def turn_away(self, server_id: str) -> None:
        """Forget a guest that was expected; nothing when none was. Raises Conflict: it is here."""
        ...


def grown_size(size_bytes: int, image_bytes: int) -> int:
    """Return the size that an image is to get: never less than it has. Raises Invalid.

    Whoever ordered less has not heard of a later growth (facts/distributed_storage.md 1.9).
    """
    if size_bytes % SECTOR_BYTES:
        raise Invalid(f"A disk has whole sectors of {SECTOR_BYTES} bytes; {size_bytes} is none.")
    return max(size_bytes, image_bytes)


def share_in_use(server_id: str, share_id: str) -> Conflict:
    """Return the refusal to take a share from a guest that runs with it."""
    return Conflict(
        f"The guest of server {server_id} runs with share {share_id}, which stays mounted. Stop "
        "the server first."
    )


def no_disk(server_id: str, volume_id: str) -> NotFound:
    """Return the refusal for a volume that a guest does not have."""
    return NotFound(f"Server {server_id} has no volume {volume_id} on this host.")


def tail(text: str, lines: int | None) -> str:
    """Return the last lines of a text, all for None (facts/compute.md: os-getConsoleOutput)."""
    if lines is None:
        return text
    if lines <= 0:
        return ""
    return "".join(text.splitlines(keepends=True)[-lines:])
