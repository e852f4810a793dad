"""/os-quota-sets and /os-quota-class-sets (facts/compute.md 10.2, 11.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from mooring.compute.groups import groups
from mooring.compute.quotas import quota, quota_changes
from mooring.compute.service import Compute
from mooring.compute.wire.api import queries
from mooring.compute.wire.api.values import Whole, read_truth, whole
from mooring.compute.wire.fields import LARGEST
from mooring.errors import Invalid
from mooring.web.api import Api, Call, Reply, Version

api = Api[Compute]()

_RULE = "os_compute_api:os-quota-sets:"
_CLASS_RULE = "os_compute_api:os-quota-class-sets:"
_STRICT_SINCE: Version = (2, 75)
_INJECTED = ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
_NETWORK = ("fixed_ips", "floating_ips", "security_group_rules", "security_groups")
"""Limits of the network service. That of networks may be set as well, and is not shown."""
_ALWAYS = (
    "cores",
    "instances",
    "key_pairs",
    "metadata_items",
    "ram",
    "server_group_members",
    "server_groups",
)


@api.get("/os-quota-sets/{project_id}", policy=None)
async def show_quota(call: Call[Compute]) -> Reply:
    """Return what a project may use."""
    project_id = await _known_project(call, "show")
    found = await call.service.store.read(lambda tx: quota.find_limits(tx, project_id))
    return Reply(200, {"quota_set": {"id": project_id, **_shown(found, call.version)}})


@api.get("/os-quota-sets/{project_id}/detail", policy=None)
async def show_quota_detail(call: Call[Compute]) -> Reply:
    """Return what a project may use, and what it uses."""
    project_id = await _known_project(call, "detail")
    found, in_use = await call.service.store.read(
        lambda tx: (quota.find_limits(tx, project_id), _in_use(tx, project_id))
    )
    body: dict[str, Any] = {"id": project_id}
    for name, most in _shown(found, call.version).items():
        body[name] = {"limit": most, "in_use": in_use.get(name, 0), "reserved": 0}
    return Reply(200, {"quota_set": body})


@api.get("/os-quota-sets/{project_id}/defaults", policy=f"{_RULE}defaults")
async def show_default_quota(call: Call[Compute]) -> Reply:
    """Limits of a project that has none of its own."""
    project_id = call.path["project_id"]
    await call.service.projects.require(project_id, call.who)
    found = await call.service.store.read(quota.find_defaults)
    body = {"id": project_id, **_shown(found, call.version)}
    return Reply(200, {"quota_set": body})


@api.put(
    "/os-quota-sets/{project_id}",
    dict[str, bool | int | str | None],
    key="quota_set",
    only_key=True,
    policy=None,
)
async def change_quota(call: Call[Compute], body: dict[str, bool | int | str | None]) -> Reply:
    """Set a project's own limits; below what it uses only with `force`."""
    project_id = await _known_project(call, "update")
    _refuse_a_user(call)
    asked = dict(body)
    force = asked.pop("force", False)
    forced = read_truth(str(force), "force")
    asked.pop("tenant_id", None)
    wanted = _read_limits(asked, call.version)
    found = await call.service.store.write(
        lambda tx: quota_changes.set_limits(tx, project_id, wanted, force=forced)
    )
    return Reply(200, {"quota_set": _shown(found, call.version)})


@api.delete("/os-quota-sets/{project_id}", policy=None)
async def delete_quota(call: Call[Compute]) -> Reply:
    """Let the defaults hold for a project again."""
    project_id = _project(call, "delete")
    _refuse_a_user(call)
    await call.service.store.write(lambda tx: quota_changes.forget_limits(tx, project_id))
    return Reply(202)


@api.get("/os-quota-class-sets/{name}", policy=f"{_CLASS_RULE}show")
async def show_quota_class(call: Call[Compute]) -> Reply:
    """Limits of a class; every class but `default` is empty, so all show the same."""
    found = await call.service.store.read(quota.find_defaults)
    body = {"id": call.path["name"], **_class(found, call.version)}
    return Reply(200, {"quota_class_set": body})


@api.put(
    "/os-quota-class-sets/{name}",
    dict[str, Whole | None],
    key="quota_class_set",
    only_key=True,
    policy=f"{_CLASS_RULE}update",
)
async def change_quota_class(call: Call[Compute], body: dict[str, Whole | None]) -> Reply:
    """Set what holds for every project without limits of its own."""
    if call.path["name"] != "default":
        raise Invalid("There is no other quota class than default. Nothing was changed.")
    wanted = _read_limits(body, call.version)
    found = await call.service.store.write(lambda tx: quota_changes.set_defaults(tx, wanted))
    return Reply(200, {"quota_class_set": _class(found, call.version)})


def _project(call: Call[Compute], verb: str) -> str:
    """Return the project of the path, when this caller may do `verb` to its quota."""
    queries.check_keys(call, ("user_id",), strict_since=_STRICT_SINCE)
    project_id = call.path["project_id"]
    call.require(f"{_RULE}{verb}", {"project_id": project_id, "user_id": call.who.user_id})
    return project_id


async def _known_project(call: Call[Compute], verb: str) -> str:
    """Return it as `_project`. Raises Invalid for one that identity does not know.

    What a project has of its own can be deleted when it is gone from identity.
    """
    project_id = _project(call, verb)
    await call.service.projects.require(project_id, call.who)
    return project_id


def _refuse_a_user(call: Call[Compute]) -> None:
    """Raise Invalid where the quota of one user is to be written: the project's would be."""
    if "user_id" in call.query:
        raise Invalid(
            "Quotas of single users are not built. Nothing was changed; leave user_id out to "
            "change those of the whole project."
        )


def _in_use(tx: Session, project_id: str) -> dict[str, int]:
    used, made = quota.sum_usage(tx, project_id), groups.count(tx, project_id)
    return {
        "instances": used.instances,
        "cores": used.cores,
        "ram": used.ram,
        "server_groups": made,
    }


def _shown(found: Mapping[str, int], version: Version) -> dict[str, int]:
    body = {name: found[name] for name in _ALWAYS}
    if version <= (2, 56):
        body |= {name: found[name] for name in _INJECTED}
    if version <= (2, 35):
        # There is no network service, so nothing of it is ever used up, whatever its limit.
        body |= {name: found.get(name, quota.UNLIMITED) for name in _NETWORK}
    return body


def _class(found: Mapping[str, int], version: Version) -> dict[str, int]:
    """Return a class's limits: server groups came with 2.50, when network limits went."""
    body = _shown(found, version)
    if version <= (2, 49):
        body |= {name: found.get(name, quota.UNLIMITED) for name in _NETWORK}
        del body["server_groups"], body["server_group_members"]
    return body


def _read_limits(asked: Mapping[str, Any], version: Version) -> dict[str, int]:
    known = {*_ALWAYS}
    if version <= (2, 56):
        known |= {*_INJECTED}
    if version <= (2, 35):
        known |= {*_NETWORK, "networks"}
    unknown = sorted(set(asked) - known)
    if unknown:
        raise Invalid(
            f"Invalid input for field/attribute {', '.join(unknown)}. "
            "Additional properties are not allowed in this API version."
        )
    return {
        name: whole(value, name, least=-1, most=LARGEST)
        for name, value in asked.items()
        if name in known and value is not None
    }
