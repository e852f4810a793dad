"""What a guest is told of itself without a network: on a small drive of its own.

Source: facts/network.md 7.1 and 7.2, facts/compute.md 7.5.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

DriveBus = Literal["scsi", "sata", "usb"]
"""Where the drive, a CD-ROM, is plugged in; virtio has none."""


class DriveKey(Struct, frozen=True, kw_only=True):
    """A public key that the guest's users log in with; `type` is ssh or x509."""

    name: str
    type: str
    data: str


class ConfigDrive(Struct, frozen=True, kw_only=True):
    """What a guest is told, as the newest version of the metadata has it.

    It may hold its user's secrets. So it stands in the file that the guest reads, which is its
    owner's alone, and nowhere else: in no notes, no journal and no log.

    devices    disks with a tag, and shares: what the guest finds by it, under which name
    user_data  as the guest is to have it; empty for none
    bus        of the drive itself, where the guest is made anew; one that is there stays
    """

    uuid: str
    name: str
    hostname: str
    project_id: str
    availability_zone: str
    launch_index: int = 0
    meta: dict[str, str] = {}
    keys: list[DriveKey] = []
    devices: list[dict[str, Any]] = []
    user_data: bytes = b""
    bus: DriveBus = "scsi"
