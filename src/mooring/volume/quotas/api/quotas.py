"""Quotas and limits: /os-quota-sets, /os-quota-class-sets, /limits.

Source: facts/block_storage.md 6.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from mooring import limits
from mooring.errors import Invalid
from mooring.volume.quotas import quota, usage
from mooring.volume.service import Volume
from mooring.volume.wire.api import values
from mooring.web.api import Api, Call, Reply

api = Api[Volume]()

_SHOW = "volume_extension:quotas:show"
_NAMES = ("id", "tenant_id", "class_name")

_ABSOLUTE = {
    "volumes": ("maxTotalVolumes", "totalVolumesUsed"),
    "snapshots": ("maxTotalSnapshots", "totalSnapshotsUsed"),
    "gigabytes": ("maxTotalVolumeGigabytes", "totalGigabytesUsed"),
    "backups": ("maxTotalBackups", "totalBackupsUsed"),
    "backup_gigabytes": ("maxTotalBackupGigabytes", "totalBackupGigabytesUsed"),
}


@api.get("/os-quota-sets/{project_id}", policy=None)
async def show_quota(call: Call[Volume]) -> Reply:
    """Show a project's limits; with `usage` also what it uses."""
    project_id = _project(call, _SHOW)
    with_usage = values.is_set(call.query.get("usage"))

    def look(tx: Session) -> dict[str, Any]:
        found = quota.find_limits(tx, project_id)
        if not with_usage:
            return dict(found)
        used, reserved = usage.find_used(tx, project_id), usage.find_reserved(tx, project_id)
        return {
            name: {"limit": limit, "in_use": used[name], "reserved": reserved[name]}
            for name, limit in found.items()
        }

    return Reply(200, {"quota_set": {"id": project_id, **await call.service.store.read(look)}})


@api.get("/os-quota-sets/{project_id}/defaults", policy=None)
async def show_defaults(call: Call[Volume]) -> Reply:
    """Show the limits of a project without its own."""
    project_id = _project(call, _SHOW)
    found = await call.service.store.read(quota.find_defaults)
    return Reply(200, {"quota_set": {"id": project_id, **found}})


@api.put(
    "/os-quota-sets/{project_id}",
    dict[str, Any],
    key="quota_set",
    policy="volume_extension:quotas:update",
)
async def set_quota(call: Call[Volume], body: dict[str, Any]) -> Reply:
    """Set a project's limits; -1 is no limit."""
    _refuse_a_user(call)
    project_id, wanted = call.path["project_id"], _numbers(body)
    found = await call.service.store.write(lambda tx: quota.set_limits(tx, project_id, wanted))
    return Reply(200, {"quota_set": found})


@api.delete("/os-quota-sets/{project_id}", policy="volume_extension:quotas:delete")
async def delete_quota(call: Call[Volume]) -> Reply:
    """Let the defaults hold for a project again."""
    _refuse_a_user(call)
    project_id = call.path["project_id"]
    await call.service.store.write(lambda tx: quota.forget_limits(tx, project_id))
    return Reply(200)


@api.get("/os-quota-class-sets/{class_name}", policy="volume_extension:quota_classes:get")
async def show_class(call: Call[Volume]) -> Reply:
    """Show the limits of a quota class."""
    name = call.path["class_name"]
    found = await call.service.store.read(lambda tx: quota.find_defaults(tx, name))
    return Reply(200, {"quota_class_set": {"id": name, **found}})


@api.put(
    "/os-quota-class-sets/{class_name}",
    dict[str, Any],
    key="quota_class_set",
    policy="volume_extension:quota_classes:update",
)
async def set_class(call: Call[Volume], body: dict[str, Any]) -> Reply:
    """Set the limits of a quota class."""
    name, wanted = call.path["class_name"], _numbers(body)
    found = await call.service.store.write(lambda tx: quota.set_class_limits(tx, name, wanted))
    return Reply(200, {"quota_class_set": found})


@api.get("/limits", policy="limits_extension:used_limits")
async def show_limits(call: Call[Volume]) -> Reply:
    """Show what the caller's project may use and does; an administrator may name another."""
    project_id = call.who.project_id
    if call.version >= (3, 39) and call.who.is_admin:
        project_id = call.query.get("project_id", project_id)

    def look(tx: Session) -> dict[str, int]:
        most, used = quota.find_limits(tx, project_id), usage.find_used(tx, project_id)
        return {
            word: number
            for name, words in _ABSOLUTE.items()
            for word, number in zip(words, (most[name], used[name]), strict=True)
        }

    absolute = await call.service.store.read(look)
    return Reply(200, {"limits": {"rate": [], "absolute": absolute}})


def _refuse_a_user(call: Call[Volume]) -> None:
    """Raise Invalid where the quota of one user is to be written: the project's would be."""
    if "user_id" in call.query:
        raise Invalid(
            "Invalid input received: Quotas of single users are not built. Nothing was changed; "
            "leave user_id out to change those of the whole project."
        )


def _project(call: Call[Volume], rule: str) -> str:
    project_id = call.path["project_id"]
    call.require(rule, {"project_id": project_id})
    return project_id


def _numbers(given: Mapping[str, Any]) -> dict[str, int]:
    most = limits.VOLUME_SIZE_GIB
    return {
        name: values.whole_number(number, name, least=quota.UNLIMITED, most=most)
        for name, number in given.items()
        if name not in _NAMES
    }
