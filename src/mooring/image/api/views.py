"""What the image API shows. Its links are paths without the place where the service is mounted.

Source: facts/identity_image_placement.md 8.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from mooring.image.members import Member
    from mooring.image.records import Record


def image(shown: Record) -> dict[str, Any]:
    """Show one image; its own properties stand beside its attributes."""
    path = f"/v2/images/{shown.id}"
    return {
        **shown.properties,
        "id": shown.id,
        "name": shown.name,
        "status": shown.status,
        "visibility": shown.visibility,
        "owner": shown.owner,
        "disk_format": shown.disk_format,
        "container_format": shown.container_format,
        "size": shown.size_bytes,
        "virtual_size": shown.virtual_size_bytes,
        "checksum": shown.checksum,
        "os_hash_algo": shown.os_hash_algo,
        "os_hash_value": shown.os_hash_value,
        "min_disk": shown.min_disk_gib,
        "min_ram": shown.min_ram_mib,
        "protected": shown.protected,
        "os_hidden": shown.os_hidden,
        "tags": shown.tags,
        "created_at": time(shown.created_at),
        "updated_at": time(shown.updated_at),
        "self": path,
        "file": f"{path}/file",
        "schema": "/v2/schemas/image",
    }


def member(shown: Member) -> dict[str, Any]:
    """Show one project that an image is shared with."""
    return {
        "member_id": shown.member_id,
        "image_id": shown.image_id,
        "status": shown.status,
        "created_at": time(shown.created_at),
        "updated_at": time(shown.updated_at),
        "schema": "/v2/schemas/member",
    }


def time(moment: datetime) -> str:
    """Write a time as Glance does: whole seconds and a Z."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
