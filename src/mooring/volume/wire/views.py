"""What the API shows: functions of rows, the caller's rights and the microversion.

Schemas of clients are closed, so no key is shown that upstream does not show in that version.
Source: facts/block_storage.md 9.2, 9.3 and 2.3.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from mooring.volume.attachments import connections
from mooring.volume.backends import targets
from mooring.web.identity import is_service

if TYPE_CHECKING:
    from sqlalchemy import Row

    from mooring.volume.attachments.sharing import Sharing
    from mooring.volume.service import Volume
    from mooring.volume.tables import AttachmentRow, MessageRow, TypeRow, VolumeRow
    from mooring.volume.volumes.listing import Surroundings
    from mooring.web.api import Call

_INTERNAL = {
    "managing": "creating",
    "error_managing": "error",
    "error_managing_deleting": "deleting",
}

_OPEN_SPECS = ("RESKEY:availability_zones", "multiattach", "replication_enabled")


def time(moment: datetime | None) -> str | None:
    """Return a time as the API writes it: ISO 8601 without a zone, in UTC."""
    return (
        None if moment is None else moment.replace(tzinfo=None).isoformat(timespec="microseconds")
    )


def volume_summary(call: Call[Volume], row: Row[Any]) -> dict[str, Any]:
    """Show a volume as in GET /volumes."""
    return {"id": row.id, "name": row.name, "links": _links(call, row.id)}


def volume(call: Call[Volume], row: Row[Any], around: Surroundings) -> dict[str, Any]:
    """Show a volume as the answers to POST and PUT do."""
    shown = {
        "id": row.id,
        "status": _INTERNAL.get(row.status, row.status),
        "size": row.size_gib,
        "availability_zone": row.zone,
        "created_at": time(row.created_at),
        "updated_at": time(row.updated_at),
        "name": row.name,
        "description": row.description,
        "volume_type": row.type_name,
        "snapshot_id": row.snapshot_id,
        "source_volid": row.source_volume_id,
        "metadata": _metadata(row),
        "links": _links(call, row.id),
        "user_id": row.user_id,
        "bootable": str(row.bootable).lower(),
        "encrypted": False,
        "replication_status": None,
        "consistencygroup_id": None,
        "multiattach": row.multiattach,
        "attachments": [_attached(call, each) for each in around.attached.get(row.id, ())],
    }
    if call.who.is_admin:
        shown["migration_status"] = row.migration_status
    return shown | _by_version(call, row, around)


def volume_detail(call: Call[Volume], row: Row[Any], around: Surroundings) -> dict[str, Any]:
    """Show a volume as GET does: with what extensions add for those who may see it."""
    shown, target = volume(call, row, around), {"project_id": row.project_id}
    if call.allowed("volume_extension:volume_host_attribute", target):
        shown["os-vol-host-attr:host"] = row.backend
    if call.allowed("volume_extension:volume_tenant_attribute", target):
        shown["os-vol-tenant-attr:tenant_id"] = row.project_id
    if call.allowed("volume_extension:volume_mig_status_attribute", target):
        shown["os-vol-mig-status-attr:migstat"] = row.migration_status
        shown["os-vol-mig-status-attr:name_id"] = None
    if row.image_metadata:
        shown["volume_image_metadata"] = row.image_metadata
    return shown


def snapshot(call: Call[Volume], row: Row[Any]) -> dict[str, Any]:
    """Show a snapshot as the answers to POST and PUT, and plain lists, do."""
    shown = {
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "volume_id": row.volume_id,
        "status": row.status,
        "size": row.size_gib,
        "created_at": time(row.created_at),
        "updated_at": time(row.updated_at),
        "metadata": row.metadata,
    }
    if call.version >= (3, 14):
        shown["group_snapshot_id"] = None
    if call.version >= (3, 41):
        shown["user_id"] = row.user_id
    if call.version >= (3, 65):
        shown["consumes_quota"] = True
    return shown


def snapshot_detail(call: Call[Volume], row: Row[Any]) -> dict[str, Any]:
    """Show a snapshot as GET does: with its progress and project."""
    return {
        **snapshot(call, row),
        "os-extended-snapshot-attributes:progress": f"{row.progress}%",
        "os-extended-snapshot-attributes:project_id": row.project_id,
    }


def attachment_summary(row: AttachmentRow) -> dict[str, Any]:
    """Show an attachment as lists do."""
    return {
        "id": row.id,
        "status": row.attach_status,
        "instance": row.server_id,
        "volume_id": row.volume_id,
    }


def attachment(call: Call[Volume], row: AttachmentRow) -> dict[str, Any]:
    """Show an attachment, with its connection to services, administrators and who reserved it.

    The connection names hosts and how storage is reached, which nobody else needs: others see none.
    """
    sees_all = call.who.is_admin or is_service(call.who) or call.who.user_id == row.user_id
    return {
        **attachment_summary(row),
        "attached_at": time(row.attached_at) or "",
        "detached_at": time(row.detached_at) or "",
        "attach_mode": row.attach_mode or "rw",
        "connection_info": connections.open_flat(call.service.sealer, row) if sees_all else {},
    }


def sharing(found: Sharing) -> dict[str, Any]:
    """Show of an attachment who else its host's connection serves; upstream has no such keys."""
    return {
        "connection_shared": found.shared,
        "service_uuid": found.service_id,
        "shared_with": [
            {"id": one.attachment_id, "volume_id": one.volume_id, "instance": one.server_id}
            for one in found.others
        ],
    }


def may_read_spec(call: Call[Volume], key: str) -> bool:
    """Tell whether a caller reads this extra spec of types; everybody reads what users need."""
    return key in _OPEN_SPECS or call.allowed("volume_extension:types_extra_specs:read_sensitive")


def volume_type(call: Call[Volume], row: TypeRow | Row[Any]) -> dict[str, Any]:
    """Show a volume type, with those of its extra specs that the caller may read."""
    specs = {key: value for key, value in row.extra_specs.items() if may_read_spec(call, key)}
    shown = {
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "is_public": row.is_public,
        "os-volume-type-access:is_public": row.is_public,
        "extra_specs": specs,
    }
    if call.allowed("volume_extension:access_types_qos_specs_id"):
        shown["qos_specs_id"] = None
    return shown


def message(call: Call[Volume], row: MessageRow | Row[Any]) -> dict[str, Any]:
    """Show a user message."""
    path = f"/messages/{row.id}"
    links = [
        {"rel": "self", "href": call.url(path)},
        {"rel": "bookmark", "href": call.bookmark(path)},
    ]
    return {
        "id": row.id,
        "event_id": row.event_id,
        "user_message": row.text,
        "message_level": row.level,
        "created_at": time(row.created_at),
        "guaranteed_until": time(row.expires_at),
        "request_id": row.request_id,
        "resource_type": row.resource_type,
        "resource_uuid": row.resource_id,
        "links": links,
    }


def _by_version(call: Call[Volume], row: Row[Any], around: Surroundings) -> dict[str, Any]:
    version, admin, backend = call.version, call.who.is_admin, row.backend or ""
    shared = targets.are_shared(around.protocols.get(backend, ""))
    if shared is None and version < (3, 69):
        # It could not be told as unknown: so a client takes care rather than not.
        shared = True
    later = {
        (3, 13): {"group_id": None},
        (3, 21): {"provider_id": None} if admin else {},
        (3, 48): {"shared_targets": shared, "service_uuid": around.services.get(backend)},
        (3, 61): {"cluster_name": None} if admin else {},
        (3, 63): {"volume_type_id": row.volume_type_id},
        (3, 65): {"consumes_quota": True},
    }
    return {
        key: value
        for since, keys in later.items()
        if version >= since
        for key, value in keys.items()
    }


def _metadata(row: Row[Any]) -> dict[str, str]:
    shown: dict[str, str] = dict(row.metadata)
    if row.readonly is not None:
        shown["readonly"] = str(row.readonly)
    if row.attached_mode is not None:
        shown["attached_mode"] = row.attached_mode
    return shown | size_to_reach(row)


def size_to_reach(row: Row[Any] | VolumeRow) -> dict[str, str]:
    """Return what shadows the user's metadata while compute lets the volume grow."""
    size_gib = row.extend_new_size
    return {} if size_gib is None else {"extend_new_size": str(size_gib)}


def _attached(call: Call[Volume], row: Row[Any]) -> dict[str, Any]:
    sees_host = call.who.is_admin or is_service(call.who)
    return {
        "id": row.volume_id,
        "attachment_id": row.id,
        "volume_id": row.volume_id,
        "server_id": row.server_id,
        "host_name": row.attached_host if sees_host else None,
        "device": row.mountpoint,
        "attached_at": time(row.attached_at),
    }


def _links(call: Call[Volume], volume_id: str) -> list[dict[str, str]]:
    path = f"/volumes/{volume_id}"
    return [
        {"rel": "self", "href": call.url(path)},
        {"rel": "bookmark", "href": call.bookmark(path)},
    ]
