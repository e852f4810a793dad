"""Quotas and limits: /quota-sets, /quota-class-sets, /limits. Up to 2.6 with `os-` before them.

Source: facts/shared_file_systems.md 13.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from mooring import limits
from mooring.errors import Invalid
from mooring.share.quotas import limits_of, usage
from mooring.share.quotas.usage import Scope
from mooring.share.service import Share
from mooring.share.types import types
from mooring.share.wire.api import values
from mooring.share.wire.api.values import renamed
from mooring.web.api import Api, Call, Reply, Version

api = Api[Share]()

_SET, _CLASS = "/quota-sets/{project_id}", "/quota-class-sets/{class_name}"
_NAMES = ("id", "tenant_id", "class_name", "force", "user_id", "share_type")
_SINCE: Mapping[str, Version] = {
    "share_groups": (2, 40),
    "share_group_snapshots": (2, 40),
    "share_replicas": (2, 53),
    "replica_gigabytes": (2, 53),
    "per_share_gigabytes": (2, 62),
    "backups": (2, 80),
    "backup_gigabytes": (2, 80),
}
"""From when on clients see these resources; the others always."""
_ABSOLUTE = {
    "shares": ("maxTotalShares", "totalSharesUsed"),
    "gigabytes": ("maxTotalShareGigabytes", "totalShareGigabytesUsed"),
    "snapshots": ("maxTotalShareSnapshots", "totalShareSnapshotsUsed"),
    "snapshot_gigabytes": ("maxTotalSnapshotGigabytes", "totalSnapshotGigabytesUsed"),
    "share_networks": ("maxTotalShareNetworks", "totalShareNetworksUsed"),
    "share_replicas": ("maxTotalShareReplicas", "totalShareReplicasUsed"),
    "replica_gigabytes": ("maxTotalReplicaGigabytes", "totalReplicaGigabytesUsed"),
}


@renamed(api.get, _SET, policy=None)
async def show_quota(call: Call[Share]) -> Reply:
    """Show the limits of a project, or within it of a user or a share type."""
    _require(call)
    found = await call.service.store.read(lambda tx: limits_of.find(tx, _scope(tx, call)))
    return Reply(200, {"quota_set": {"id": call.path["project_id"], **_shown(call, found)}})


@api.get(f"{_SET}/detail", policy=None, since=(2, 25))
async def show_usage(call: Call[Share]) -> Reply:
    """Show limits, what is in use and what operations may take besides."""
    _require(call)

    def look(tx: Session) -> dict[str, Any]:
        scope = _scope(tx, call)
        used, reserved = usage.find_used(tx, scope), usage.find_reserved(tx, scope)
        return {
            name: {"limit": limit, "in_use": used[name], "reserved": reserved[name]}
            for name, limit in limits_of.find(tx, scope).items()
        }

    found = await call.service.store.read(look)
    return Reply(200, {"quota_set": {"id": call.path["project_id"], **_shown(call, found)}})


@renamed(api.get, f"{_SET}/defaults", policy=None)
async def show_defaults(call: Call[Share]) -> Reply:
    """Show the limits of a project without its own."""
    _require(call)
    found = await call.service.store.read(limits_of.find_defaults)
    return Reply(200, {"quota_set": {"id": call.path["project_id"], **_shown(call, found)}})


@renamed(api.put, _SET, dict[str, Any], key="quota_set", policy="quota_set:update")
async def set_quota(call: Call[Share], body: dict[str, Any]) -> Reply:
    """Set the limits of a project, or within it of a user or a share type; -1 is no limit."""
    wanted, force = _numbers(body), values.flag(body.get("force", False), "force")

    def change(tx: Session) -> dict[str, int]:
        return limits_of.set_own(tx, _scope(tx, call), wanted, force=force)

    return Reply(200, {"quota_set": _shown(call, await call.service.store.write(change))})


@renamed(api.delete, _SET, policy="quota_set:delete")
async def delete_quota(call: Call[Share]) -> Reply:
    """Let the defaults hold again."""
    await call.service.store.write(lambda tx: limits_of.forget(tx, _scope(tx, call)))
    return Reply(202)


@renamed(api.get, _CLASS, policy="quota_class_set:show")
async def show_class(call: Call[Share]) -> Reply:
    """Show the limits of a quota class."""
    name = call.path["class_name"]
    found = await call.service.store.read(lambda tx: limits_of.find_defaults(tx, name))
    return Reply(200, {"quota_class_set": {"id": name, **_shown(call, found)}})


@renamed(api.put, _CLASS, dict[str, Any], key="quota_class_set", policy="quota_class_set:update")
async def set_class(call: Call[Share], body: dict[str, Any]) -> Reply:
    """Set the limits of a quota class."""
    name, wanted = call.path["class_name"], _numbers(body)
    found = await call.service.store.write(lambda tx: limits_of.set_class(tx, name, wanted))
    return Reply(200, {"quota_class_set": _shown(call, found)})


@api.get("/limits", policy="limits:index")
async def show_limits(call: Call[Share]) -> Reply:
    """Show what the caller's project may use and does."""
    scope = Scope(call.who.project_id)

    def look(tx: Session) -> dict[str, int]:
        most, used = limits_of.find(tx, scope), usage.find_used(tx, scope)
        return {
            word: number
            for name, words in _ABSOLUTE.items()
            if call.version >= _SINCE.get(name, (2, 0))
            for word, number in zip(words, (most[name], used[name]), strict=True)
        }

    absolute = await call.service.store.read(look)
    return Reply(200, {"limits": {"rate": [], "absolute": absolute}})


def _require(call: Call[Share]) -> None:
    call.require("quota_set:show", {"project_id": call.path["project_id"]})


def _scope(tx: Session, call: Call[Share]) -> Scope:
    """Return whose quota the request is about. Raises Invalid, NotFound for an unknown type."""
    user_id, named = call.query.get("user_id", ""), call.query.get("share_type", "")
    if not named:
        return Scope(call.path["project_id"], user_id=user_id)
    if user_id or call.version < (2, 39):
        raise Invalid(
            "Invalid input received: Quotas are a user's or, from 2.39 on, a share type's, not "
            "both. Nothing was changed.",
        )
    share_type = types.named(tx, call.who, named)
    return Scope(call.path["project_id"], share_type_id=share_type.id)


def _shown(call: Call[Share], found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in found.items() if call.version >= _SINCE.get(name, (2, 0))
    }


def _numbers(given: Mapping[str, Any]) -> dict[str, int]:
    most = limits.VOLUME_SIZE_GIB
    return {
        name: values.whole_number(number, name, least=limits_of.UNLIMITED, most=most)
        for name, number in given.items()
        if name not in _NAMES
    }
