"""The query of GET /servers: filters, order and page (facts/compute.md 10.1)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mooring import limits, patterns
from mooring.compute.servers import server_list
from mooring.compute.servers.api.server_states import choices
from mooring.compute.servers.server_list import ServerQuery
from mooring.compute.service import Compute
from mooring.compute.wire.api import queries
from mooring.compute.wire.api.values import (
    FALSE,
    TRUE,
    last_moment,
    moment,
    read_truth,
    whole,
)
from mooring.errors import Forbidden, Invalid
from mooring.web import paging
from mooring.web.api import Call

_ALL_FILTERS = "os_compute_api:servers:allow_all_filters"
_TAGS = ("tags", "tags-any", "not-tags", "not-tags-any")
_COMMON = (
    "all_tenants",
    "changes-since",
    "flavor",
    "image",
    "ip",
    "name",
    "reservation_id",
    "status",
)
_FROM_283 = (
    "availability_zone",
    "config_drive",
    "created_at",
    "key_name",
    "launched_at",
    "power_state",
    "progress",
    "task_state",
    "terminated_at",
    "user_id",
    "vm_state",
)
_RENAMED = {"display_name": "name", "image_ref": "image", "node": "host"}
_NUMBERS = frozenset({"launch_index", "power_state"})
_TIMES = frozenset({"created_at", "launched_at", "terminated_at"})
_NOT_KEPT = frozenset({"kernel_id", "ramdisk_id", "progress", "auto_disk_config"})
"""Known columns that no server of ours has a value in, so that only their emptiness matches."""
_INTERNAL = frozenset(
    {
        "block_device_mapping",
        "extra",
        "fault",
        "flavor_id",
        "id",
        "info_cache",
        "instance_type_id",
        "metadata",
        "migration_context",
        "numa_topology",
        "pci_devices",
        "pci_requests",
        "security_groups",
        "services",
        "system_metadata",
        "vcpu_model",
    }
)
_KNOWN = frozenset(
    {
        *server_list.EQUAL_COLUMNS,
        *server_list.PATTERN_COLUMNS,
        *_COMMON,
        *_RENAMED,
        *_NOT_KEPT,
        *queries.PAGING,
        "deleted",
        "ip6",
        "sort_dir",
        "sort_key",
        "soft_deleted",
        "tenant_id",
    }
)
_HOST_SORTS = frozenset({"host", "node"})


def read(call: Call[Compute], page: paging.Page, rule: str) -> ServerQuery | None:
    """Return what to list; None when nothing can match. `rule` is the one of the plain list.

    Raises Invalid for bad values, Forbidden for what only administrators may ask.
    """
    _check_keys(call)
    asked = _permitted(call)
    states = _states(call, asked)
    since, before = _changes(asked)
    if since is not None and before is not None and before < since:
        raise Invalid("The value of changes-since must be less than or equal to changes-before.")
    project_id = _project(call, asked, rule)
    equal = _equal(asked)
    if states == [] or equal is None or "ip" in asked or "ip6" in asked:
        # No server has an address that others can reach.
        return None
    locked = asked.get("locked")
    return ServerQuery(
        project_id=project_id,
        deleted=_deleted(asked, changed=since is not None or before is not None),
        equal=equal,
        patterns={
            name: patterns.check(asked[name], name)
            for name in server_list.PATTERN_COLUMNS
            if name in asked
        },
        states=states,
        locked=None if locked is None else read_truth(locked, "locked"),
        changed_since=since,
        changed_before=before,
        tags=_tags(asked, "tags"),
        tags_any=_tags(asked, "tags-any"),
        not_tags=_tags(asked, "not-tags"),
        not_tags_any=_tags(asked, "not-tags-any"),
        sort=_sort(page),
        marker=page.marker or "",
        limit=page.limit,
    )


def _newer_keys(call: Call[Compute]) -> frozenset[str]:
    keys: set[str] = set()
    if call.version >= (2, 26):
        keys.update(_TAGS)
    if call.version >= (2, 66):
        keys.add("changes-before")
    if call.version >= (2, 73):
        keys.add("locked")
    return frozenset(keys)


def _check_keys(call: Call[Compute]) -> None:
    for name in call.query:
        if name in _INTERNAL or name.startswith("_"):
            raise Invalid(f"Invalid query parameter {name}: servers cannot be filtered by it.")
    queries.check_keys(call, _KNOWN | _newer_keys(call))


def _permitted(call: Call[Compute]) -> dict[str, str]:
    """Return the filters that this caller may use, by their own names; others are ignored."""
    newer = _newer_keys(call)
    allowed = _KNOWN | newer
    if not call.allowed(_ALL_FILTERS):
        allowed = frozenset(_COMMON) | newer
        if call.version >= (2, 5):
            allowed |= {"ip6"}
        if call.version >= (2, 83):
            allowed |= frozenset(_FROM_283)
    return {
        _RENAMED.get(name, name): value
        for name, value in call.query.items()
        if name in allowed and name not in queries.PAGING
    }


def _project(call: Call[Compute], asked: dict[str, str], rule: str) -> str | None:
    """Return the project to list, None for all of them. Raises Forbidden for other projects."""
    wanted = asked.pop("tenant_id", asked.pop("project_id", ""))
    text = asked.pop("all_tenants", None)
    if text is None or (text and not read_truth(text, "all_tenants")):
        # Without it a project that is named makes no difference, as in Nova.
        return call.who.project_id
    call.require(f"{rule}:get_all_tenants")
    return wanted or None


def _states(call: Call[Compute], asked: dict[str, str]) -> list[server_list.StateChoice] | None:
    asked.pop("status", None)
    statuses = call.query.getlist("status")
    if not statuses:
        return None
    found = choices(statuses)
    if not found and call.version >= (2, 38):
        raise Invalid(f"Invalid status value: {', '.join(statuses)}.")
    if any(choice.vm_state == "deleted" for choice in found):
        if not call.who.is_admin:
            raise Forbidden("Only administrators may list deleted instances")
        asked.setdefault("deleted", "true")
    return found


def _changes(asked: dict[str, str]) -> tuple[datetime | None, datetime | None]:
    since, before = asked.pop("changes-since", None), asked.pop("changes-before", None)
    return (
        None if since is None else moment(since, "changes-since"),
        None if before is None else last_moment(before, "changes-before"),
    )


def _deleted(asked: Mapping[str, str], *, changed: bool) -> bool | None:
    text = asked.get("deleted")
    if text is None:
        return None if changed else False
    word = text.strip().lower()
    return word in TRUE if word in TRUE | FALSE else False


def _equal(asked: Mapping[str, str]) -> dict[str, Any] | None:
    """Return what columns must hold; None when no server can have it."""
    found: dict[str, Any] = {}
    for name, text in asked.items():
        if name in _NOT_KEPT and text:
            return None
        if name not in server_list.EQUAL_COLUMNS:
            continue
        if name in _NUMBERS:
            found[name] = whole(text, name)
        elif name in _TIMES:
            found[name] = moment(text, name)
        elif name == "config_drive":
            found[name] = bool(text) and read_truth(text, name)
        else:
            found[name] = text
    if found.get("task_state") in {"", "None", "null"}:
        found["task_state"] = None
    return found


def _tags(asked: Mapping[str, str], name: str) -> frozenset[str]:
    found = frozenset(tag for tag in asked.get(name, "").split(",") if tag)
    if len(found) > limits.WEB_CONDITIONS:
        raise Invalid(
            f"The filter {name} names more than {limits.WEB_CONDITIONS} tags. Ask for fewer: a "
            f"server has at most {limits.COMPUTE_TAGS}.",
        )
    return found


def read_page(call: Call[Compute]) -> paging.Page:
    """Return limit, marker and order. Raises Invalid, Forbidden for what shows hosts."""
    keys = set(server_list.SORT_COLUMNS)
    if call.version >= (2, 73):
        keys.add("locked")
    page = paging.read(call.query, keys=keys, default=(("created_at", "desc"),))
    hosts = {name for name, _ in page.sort} & _HOST_SORTS
    if hosts and not call.who.is_admin:
        raise Forbidden(f"Only administrators can sort servers by {', '.join(sorted(hosts))}.")
    return page


def _sort(page: paging.Page) -> list[tuple[str, bool]]:
    return [
        ("locked_by" if name == "locked" else name, direction == "desc")
        for name, direction in page.sort
    ]
