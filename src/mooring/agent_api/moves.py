"""A guest that runs on from one host to another (facts/compute.md 4.8, facts/real_hosts.md 4)."""

from __future__ import annotations

from msgspec import Struct

from mooring.agent_api.disks import Connected


class LocalRoot(Struct, frozen=True, kw_only=True):
    """A root disk that a running guest has on its host.

    image_id    the image that it lies over; "" for one that stands alone and is copied whole
    size_bytes  how large the guest sees it
    data_bytes  what it takes on its host beside the image
    """

    image_id: str
    size_bytes: int
    data_bytes: int


class LocalSwap(Struct, frozen=True, kw_only=True):
    """A swap disk that a running guest has on its host: how large it is, and what it takes."""

    size_bytes: int
    data_bytes: int


class Portrait(Struct, frozen=True, kw_only=True):
    """What a running guest needs of the host that is to take it, as its host says."""

    hypervisor: str
    accelerator: str
    version: int
    """Of QEMU, as QEMU counts: an older one takes no guest of a newer one."""
    cpu: str = ""
    """The guest's processor as libvirt writes it; empty where every host has the same one."""
    root: LocalRoot | None = None
    """What its host is to make a disk for; None where it boots from a volume."""
    swap: LocalSwap | None = None
    drive: bytes = b""
    """Its config drive, packed: it may hold secrets, and is kept nowhere on its way."""


class Arrival(Struct, frozen=True, kw_only=True):
    """Where a host takes a guest in, and what it has made ready for it.

    address  of what runs guests there, for the host that sends
    console  the file that logs the serial console there
    disks    the volumes that are connected there for the guest, by other attachments than before
    root     the file of the root disk that was made there for what the guest's has; "" for none
    drive    the file of the config drive that was laid down there, the guest's own; "" for none
    swap     the file of the swap disk that was made there for what the guest's has; "" for none
    tls      the name that has to be in the certificate shown there; "" where nothing is encrypted
    opens_serial  whether serial ports can be talked to there: an agent of before says nothing of it
    """

    address: str
    console: str = ""
    disks: list[Connected] = []
    root: str = ""
    drive: str = ""
    swap: str = ""
    tls: str = ""
    opens_serial: bool = False


class Progress(Struct, frozen=True, kw_only=True):
    """How far a guest is on its way, in bytes; all 0 while none is."""

    @property
    def percent(self) -> int:
        """How much of memory and disks is there, 0 to 100."""
        return percent_of(
            self.memory_total_bytes + self.disk_total_bytes,
            self.memory_remaining_bytes + self.disk_remaining_bytes,
        )

    memory_total_bytes: int = 0
    memory_processed_bytes: int = 0
    memory_remaining_bytes: int = 0
    disk_total_bytes: int = 0
    disk_processed_bytes: int = 0
    disk_remaining_bytes: int = 0


def percent_of(total_bytes: int, remaining_bytes: int) -> int:
    """Return how much of so many bytes is not left over, 0 to 100; 0 of nothing."""
    done = total_bytes - min(remaining_bytes, total_bytes)
    return 100 * done // total_bytes if total_bytes else 0
