"""What the volume service tells and is told: volumes and attachments, in their wire's form.

Source: facts/block_storage.md 2 and 8.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

REACHED_BY = "Mooring-Reached-By"
"""The header by which a service names the host that a new volume is for; a Cinder reads it not."""


class Attached(Struct, frozen=True):
    """One connected attachment, as it is listed inside a volume."""

    attachment_id: str = ""
    server_id: str | None = None
    device: str | None = None
    host_name: str | None = None


class Volume(Struct, frozen=True):
    """One volume. `size_gib` in GiB; `attachments` holds only attachments that are `attached`."""

    id: str
    status: str
    size_gib: int = field(name="size", default=0)
    name: str | None = None
    bootable: str = "false"
    multiattach: bool = False
    migration_status: str | None = None
    availability_zone: str | None = None
    volume_type: str | None = None
    pool: str | None = field(name="os-vol-host-attr:host", default=None)
    """`host@backend#pool`; None before it lies somewhere, and to whoever is no administrator."""
    project_id: str | None = field(name="os-vol-tenant-attr:tenant_id", default=None)
    metadata: dict[str, str] = {}
    volume_image_metadata: dict[str, str] = {}
    attachments: list[Attached] = []

    @property
    def is_bootable(self) -> bool:
        """Whether a server may boot from it."""
        return self.bootable.lower() == "true"


class Attachment(Struct, frozen=True):
    """One attachment of a volume to a server.

    `status` is reserved, attaching, attached, detached, error_attaching or error_detaching.
    `connection_info` is flat (`driver_volume_type` beside the driver's own keys), empty in lists
    and until a connector was given; it holds secrets, so it never goes into notes or logs.
    """

    id: str
    status: str
    volume_id: str = ""
    server_id: str | None = field(name="instance", default=None)
    connection_info: dict[str, Any] = {}


class NewVolume(Struct, frozen=True, omit_defaults=True):
    """What to make: `size_gib` in GiB, empty or filled from an image, or from a snapshot."""

    size_gib: int = field(name="size")
    name: str | None = None
    description: str | None = None
    image_id: str | None = field(name="imageRef", default=None)
    snapshot_id: str | None = None
    volume_type: str | None = None
    availability_zone: str | None = None
    metadata: dict[str, str] | None = None
