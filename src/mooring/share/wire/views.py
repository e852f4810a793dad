"""What the API shows: functions of rows, the caller's rights and the microversion.

Source: facts/shared_file_systems.md 13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mooring.share.services import matching
from mooring.share.types.types import REQUIRED

if TYPE_CHECKING:
    from mooring.saga.seal import Sealer
    from mooring.share.service import Share
    from mooring.share.tables import (
        ExportRow,
        MessageRow,
        RuleRow,
        SnapshotRow,
        TypeRow,
    )
    from mooring.web.api import Call, Version

HIDDEN = "******"
"""In the place of what a restriction hides."""
_NOT_HERE = ("revert_to_snapshot_support", "mount_snapshot_support")
"""What no share here can. Of snapshots a type that says nothing leaves it to the pool."""
_VISIBLE = (
    REQUIRED,
    *("snapshot_support", "create_share_from_snapshot_support", *_NOT_HERE),
    *("mount_point_name_support", "replication_type", "availability_zones", "encryption_support"),
    *("provisioning:min_share_size", "provisioning:max_share_size"),
    *("provisioning:max_share_extend_size", "provisioning:mount_point_prefix", "default_qos_type"),
)
"""Extra specs that every user sees."""


class Around(Struct, frozen=True):
    """What belongs to the shares of one page, by their ids."""

    access: Mapping[str, str]
    """What their rules come to."""
    exports: Mapping[str, Sequence[str]] = {}
    """Paths; for clients before 2.9."""


def time(moment: datetime | None) -> str | None:
    """Return a time as the API writes it: ISO 8601 without a zone, in UTC."""
    return (
        None if moment is None else moment.replace(tzinfo=None).isoformat(timespec="microseconds")
    )


def share_summary(call: Call[Share], row: Any) -> dict[str, Any]:
    """Show a share as in GET /shares."""
    return {"id": row.id, "name": row.name, "links": _links(call, f"/shares/{row.id}")}


def share(call: Call[Share], row: Any, around: Around) -> dict[str, Any]:
    """Show a share as GET, POST and PUT do."""
    shown = {
        **share_summary(call, row),
        "size": row.size_gib,
        "availability_zone": row.zone,
        "created_at": time(row.created_at),
        "status": row.status,
        "description": row.description,
        "project_id": row.project_id,
        "snapshot_id": row.snapshot_id,
        "share_network_id": None,
        "share_proto": row.protocol,
        "metadata": row.labels,
        "share_type": row.share_type_id if call.version >= (2, 6) else row.type_name,
        "volume_type": row.type_name,
        "is_public": row.is_public,
    }
    if call.who.is_admin:
        shown |= {"host": row.pool or "", "share_server_id": None}
    return (
        shown | _old_exports(call, row, around) | _since(call.version, _of_share(call, row, around))
    )


def _of_share(call: Call[Share], row: Any, around: Around) -> Mapping[Version, dict[str, Any]]:
    return {
        (2, 2): {"snapshot_support": row.snapshot_support},
        (2, 5): {"task_state": None},
        (2, 6): {"share_type_name": row.type_name},
        (2, 10): {"access_rules_status": _access_status(call, around.access.get(row.id, "active"))},
        (2, 11): {"replication_type": None, "has_replicas": False},
        (2, 16): {"user_id": row.user_id},
        (2, 24): {"create_share_from_snapshot_support": row.from_snapshot_support},
        (2, 27): {"revert_to_snapshot_support": False},
        (2, 31): {"share_group_id": None, "source_share_group_snapshot_member_id": None},
        (2, 32): {"mount_snapshot_support": False},
        (2, 54): {"progress": _progress(row)},
        (2, 69): {"is_soft_deleted": False, "scheduled_to_be_deleted_at": None},
        (2, 80): {"source_backup_id": None},
    }


def instance(call: Call[Share], row: Any, around: Around) -> dict[str, Any]:
    """Show where a share lies: its one instance, whose id is its own."""
    shown: dict[str, Any] = {
        "id": row.id,
        "share_id": row.id,
        "availability_zone": row.zone,
        "created_at": time(row.created_at),
        "host": row.pool or "",
        "status": row.status,
        "share_network_id": None,
        "share_server_id": None,
    }
    later: Mapping[Version, dict[str, Any]] = {
        (2, 10): {"access_rules_status": _access_status(call, around.access.get(row.id, "active"))},
        (2, 11): {"replica_state": None},
        (2, 22): {"share_type_id": row.share_type_id},
        (2, 30): {"cast_rules_to_readonly": False},
        (2, 54): {"progress": _progress(row)},
        (2, 71): {"updated_at": time(row.updated_at)},
    }
    return shown | _old_exports(call, row, around) | _since(call.version, later)


def _old_exports(call: Call[Share], row: Any, around: Around) -> dict[str, Any]:
    """Return the paths of a share as it has them in itself up to 2.8."""
    if call.version >= (2, 9):
        return {}
    paths = list(around.exports.get(row.id, ()))
    return {"export_location": paths[0] if paths else None, "export_locations": paths}


def _progress(row: Any) -> str:
    return "100%" if row.launched_at else "0%"


def _access_status(call: Call[Share], status: str) -> str:
    is_old = call.version < (2, 28)
    return "out_of_sync" if is_old and status == "error" else status


def rule(
    call: Call[Share], row: RuleRow, *, status: str, is_hidden: bool = False, whole: bool = False
) -> dict[str, Any]:
    """Show an access rule; `status` is what all rules of its share come to.

    `whole` is for one rule alone, which says whose it is. The key of a client is a secret.
    """
    shown: dict[str, Any] = {
        "id": row.id,
        "access_type": row.access_type,
        "access_to": HIDDEN if is_hidden else row.access_to,
        "access_level": row.access_level,
        "state": row.state if call.version >= (2, 28) else _old_state(row.state, status),
    }
    if call.version >= (2, 21):
        shown["access_key"] = HIDDEN if is_hidden else _key(call.service.sealer, row)
    if call.version >= (2, 33):
        shown |= {"created_at": time(row.created_at), "updated_at": time(row.updated_at)}
    if call.version >= (2, 45):
        shown["metadata"] = row.labels
    if whole:
        shown["share_id"] = row.share_id
    return shown


def _old_state(state: str, status: str) -> str:
    """Return the state as it was shown when all rules of a share had one."""
    if state not in {"active", "error"}:
        return "new"
    return "error" if status == "error" else "active"


def _key(sealer: Sealer, row: RuleRow) -> str | None:
    return None if row.access_key is None else sealer.open(row.access_key).decode()


def export(call: Call[Share], row: ExportRow, *, whole: bool = False) -> dict[str, Any]:
    """Show an export location; `whole` is for one alone. Who sees the share sees all of them."""
    shown: dict[str, Any] = {"id": row.id, "path": row.path}
    if call.version >= (2, 14):
        shown["preferred"] = row.preferred
    if call.who.is_admin:
        shown |= {"share_instance_id": row.share_id, "is_admin_only": False}
    if whole:
        changed = row.updated_at or row.created_at
        shown |= {"created_at": time(row.created_at), "updated_at": time(changed)}
    return shown


def snapshot_summary(call: Call[Share], row: Any) -> dict[str, Any]:
    """Show a snapshot as in GET /snapshots."""
    return {"id": row.id, "name": row.name, "links": _links(call, f"/snapshots/{row.id}")}


def snapshot(call: Call[Share], row: SnapshotRow | Any) -> dict[str, Any]:
    """Show a snapshot in detail."""
    shown = {
        **snapshot_summary(call, row),
        "share_id": row.share_id,
        "share_size": row.size_gib,
        "size": row.size_gib,
        "share_proto": row.protocol,
        "description": row.description,
        "status": row.status,
        "created_at": time(row.created_at),
    }
    if call.version >= (2, 17):
        shown |= {"user_id": row.user_id, "project_id": row.project_id}
    if call.version >= (2, 73):
        shown["metadata"] = row.labels
    return shown


def share_type(call: Call[Share], row: TypeRow, default: str) -> dict[str, Any]:
    """Show a share type; users see what they need of its extra specs."""
    specs: dict[str, Any] = dict(row.extra_specs)
    if not call.allowed("share_types_extra_spec:index"):
        specs = {name: specs[name] for name in _VISIBLE if name in specs}
        specs |= {name: False for name in _NOT_HERE if name not in specs}
    public = "share_type_access:is_public" if call.version >= (2, 7) else _OLD_PUBLIC
    required = {REQUIRED: str(matching.is_true(row.extra_specs[REQUIRED]))}
    shown: dict[str, Any] = {
        "id": row.id,
        "name": row.name,
        public: row.is_public,
        "extra_specs": specs,
        "required_extra_specs": required,
    }
    if call.version >= (2, 41):
        shown["description"] = row.description
    if call.version >= (2, 46):
        shown["is_default"] = row.name == default
    return shown


_OLD_PUBLIC = "os-share-type-access:is_public"


def lock(call: Call[Share], row: Any) -> dict[str, Any]:
    """Show a resource lock."""
    return {
        "id": row.id,
        "user_id": row.user_id,
        "project_id": row.project_id,
        "lock_context": row.lock_context,
        "resource_type": row.resource_type,
        "resource_id": row.resource_id,
        "resource_action": row.resource_action,
        "lock_reason": row.lock_reason,
        "created_at": time(row.created_at),
        "updated_at": time(row.updated_at),
        "links": _links(call, f"/resource-locks/{row.id}"),
    }


def message(call: Call[Share], row: MessageRow | Any) -> dict[str, Any]:
    """Show a user message."""
    return {
        "id": row.id,
        "project_id": row.project_id,
        "action_id": row.action_id,
        "detail_id": row.detail_id,
        "user_message": row.text,
        "message_level": row.level,
        "created_at": time(row.created_at),
        "expires_at": time(row.expires_at),
        "request_id": row.request_id,
        "resource_type": row.resource_type,
        "resource_id": row.resource_id,
        "links": _links(call, f"/messages/{row.id}"),
    }


def _since(version: Version, later: Mapping[Version, dict[str, Any]]) -> dict[str, Any]:
    return {
        key: value
        for since, keys in later.items()
        if version >= since
        for key, value in keys.items()
    }


def _links(call: Call[Share], path: str) -> list[dict[str, str]]:
    return [
        {"rel": "self", "href": call.url(path)},
        {"rel": "bookmark", "href": call.bookmark(path)},
    ]
