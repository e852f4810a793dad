"""What a request for new servers says, and what the other services say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from mooring.compute.create.block_devices import NewBlockDevice

if TYPE_CHECKING:
    from mooring.clients.image import Image
    from mooring.clients.snapshots import Snapshot
    from mooring.clients.volume import Volume


class NewServer(Struct, frozen=True, kw_only=True):
    """What POST /servers asks for, whatever the microversion; the route has checked the schema.

    `image_id` is "" for booting from a volume. `host` forces a host (az:host or `host`,
    administrators only: the route checks). `zero_disk_allowed`: whether policy lets this caller
    boot an image with a flavor without disk. `multiattach_allowed`: whether the caller knows that
    volumes may belong to several servers.
    """

    name: str
    flavor_id: str
    image_id: str = ""
    block_devices: list[NewBlockDevice] = []
    network: Literal["auto", "none"] = "auto"
    metadata: dict[str, str] = {}
    tags: list[str] = []
    description: str | None = None
    hostname: str | None = None
    key_name: str | None = None
    user_data: str | None = None
    config_drive: bool = False
    disk_config: str = "MANUAL"
    access_ip_v4: str = ""
    access_ip_v6: str = ""
    availability_zone: str | None = None
    host: str | None = None
    scheduler_hints: dict[str, Any] = {}
    group_id: str = ""
    trusted_certificates: list[str] | None = None
    zero_disk_allowed: bool = True
    min_count: int = 1
    max_count: int = 1
    multiattach_allowed: bool = False


class Created(Struct, frozen=True):
    """The servers that one POST made, in launch order, and their common reservation."""

    server_ids: list[str]
    reservation_id: str


class Material(Struct, frozen=True):
    """What the other services say about what a request names."""

    image: Image | None = None
    volumes: dict[str, Volume] = {}
    snapshots: dict[str, Snapshot] = {}
    known: dict[str, list[str]] = {}
    """Attachments that each volume has already."""
    images: dict[str, Image] = {}
    """Those that volumes are to be made of, but for the servers' own."""
    old_calls: bool = False
    """Whether the volume service offers no attachments."""
    properties: dict[str, str] = {}
    """Of the image that the servers boot from, also through their root volume."""
