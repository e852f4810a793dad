"""Guests: what a server is made of, and what became of it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from mooring.agent_api.config_drives import ConfigDrive
from mooring.agent_api.disks import DiskBus, DiskSpec, GuestDisk
from mooring.agent_api.guest_shares import GuestShare

GuestState = Literal[
    "running", "stopped", "paused", "suspended", "crashed", "prelaunched", "migrated"
]
"""paused: it stands still, with all it has; suspended: it is off, and its memory lies in a file.

prelaunched: it is on its way to this host; migrated: it went to another one and runs there.
"""


RescueDevice = Literal["disk", "cdrom"]


class RootDisk(Struct, frozen=True, kw_only=True):
    """A root disk on the host itself, made from a cached image.

    `size_gib` 0 keeps the image's own virtual size; less than that size is Invalid. One that was
    `copied` here is used as it came, made larger where `size_gib` says so, and the image need not
    be here; NotFound when none was, Invalid when it is larger. One that `stands_alone` has all that
    the image has, and is no layer over it: the image may be deleted everywhere.
    """

    image_id: str
    size_gib: int = 0
    copied: bool = False
    stands_alone: bool = False


class RescueDisk(Struct, frozen=True, kw_only=True):
    """A disk made anew from a cached image, which a guest boots from in place of its own disks.

    `device` and `bus` follow the image's `hw_rescue_device` and `hw_rescue_bus`. A CD-ROM is read
    only, and there is none on virtio. With `is_stable` the guest's own disks keep their names; else
    this one is the first of its letters (/dev/vda), and the root disk comes second where it has the
    same ones (/dev/vdb).
    """

    image_id: str
    device: RescueDevice = "disk"
    bus: DiskBus = "virtio"
    is_stable: bool = False


class ServerSpec(Struct, frozen=True, kw_only=True):
    """Body of `PUT /servers/{server_id}`: connected, defined and running from now on.

    Repeating it keeps an existing root disk. Without `root` the guest boots from the volume whose
    `boot_index` is 0.
    """

    name: str
    vcpus: int
    memory_mib: int
    root: RootDisk | None = None
    disks: list[DiskSpec] = []
    shares: list[GuestShare] = []
    """Mounted before: without its mount a guest is not started."""
    mem_page_size: str = ""
    """What the flavor says of `hw:mem_page_size`. Heeded where memory is shared: with shares."""
    network: Literal["auto", "none"] = "auto"
    power: Literal["on", "off"] = "on"
    metadata: dict[str, str] = {}
    """Owner facts kept in the definition for doctor: project_id, user_id, flavor and the like."""
    drive: ConfigDrive | None = None
    """What the guest is told on a drive of its own; None for a guest without one."""
    swap_mib: int = 0
    """How large its swap disk on the host is; 0 for none. One of that size is kept."""
    root_bus: DiskBus = "virtio"
    """What its root disk on the host is on."""
    bus: DiskBus = "virtio"
    """What its swap disk is on, and what it is ready for: disks that are plugged in later."""


class PowerRequest(Struct, frozen=True, kw_only=True):
    """Body of `PUT /servers/{server_id}/power`.

    state       whoever starts, stops or reboots a suspended guest drops its memory; `pause`,
                `unpause`, `suspend` and `resume` keep it, and are Conflict for a guest that is off
    mode soft   asks the guest (ACPI) and, after `timeout_s`, does it the hard way
    mode hard   asks nobody
    disks       the definition's volumes from now on, with fresh connections (start, hard reboot,
                resume); None leaves them as they are
    shares      the definition's shares from now on, mounted before; None leaves them as they are
    drive       what the guest is told on its config drive from this start on; None leaves that, too
    rescue      what the guest boots from instead from this start on. It is heeded where `disks` are
                given, but for resume: there None ends a rescue, and its disk is removed. NotFound
                when the image is not here
    """

    state: Literal["on", "off", "reboot", "pause", "unpause", "suspend", "resume"]
    mode: Literal["soft", "hard"] = "hard"
    timeout_s: float = 60.0
    disks: list[DiskSpec] | None = None
    shares: list[GuestShare] | None = None
    drive: ConfigDrive | None = None
    rescue: RescueDisk | None = None


class Guest(Struct, frozen=True, kw_only=True):
    """A guest as the hypervisor knows it."""

    server_id: str
    name: str
    state: GuestState
    vcpus: int
    memory_mib: int
    image_id: str = ""
    """The image of its root disk; empty when it boots from a volume."""
    root_stands_alone: bool = False
    """Whether the root disk was made to stand alone, in the answer of `PUT /servers/{server_id}`
    alone: an agent of a release that makes none so does not say it."""
    root_device: str = "/dev/vda"
    disks: list[GuestDisk] = []
    shares: list[GuestShare] = []
    """Those that it runs with; of a guest that is off, those of its definition."""
    metadata: dict[str, str] = {}
    has_drive: bool = False
    """Whether it has a config drive; as the shares are."""
    rescue_image_id: str = ""
    """The image that it was rescued with and boots from; empty when it boots from its own."""
    swap_mib: int = 0
    """How large the swap disk of its definition is. An agent of before makes none, and says so."""


class Console(Struct, frozen=True):
    """What the guest wrote to its serial console."""

    output: str
