"""/os-simple-tenant-usage (facts/compute.md 10.2, 11.5)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from mooring.compute.service import Compute
from mooring.compute.usage import usages
from mooring.compute.usage.usages import Period, ServerUsage, Usage, Wish
from mooring.compute.wire.api import queries
from mooring.compute.wire.api.values import microsecond, moment
from mooring.errors import Invalid
from mooring.web import paging
from mooring.web.api import Api, Call, Reply, Version

api = Api[Compute]()

_PATH = "/os-simple-tenant-usage"
_RULE = "os_compute_api:os-simple-tenant-usage:"
_PAGES_SINCE: Version = (2, 40)
_TRUE = ("1", "true")
"""Nova's own word, and the one that the stock client sends for it, as `True`."""
_USUAL = timedelta(weeks=4)
_FIRST = datetime.min.replace(tzinfo=UTC)
"""The calendar's first moment: no period begins before it."""


@api.get(_PATH, policy=f"{_RULE}list")
async def list_usages(call: Call[Compute]) -> Reply:
    """List what all projects used that had servers; with `detailed=1` what each server did."""
    wish, page = _read(call, ("detailed",))
    found = await call.service.store.read(lambda tx: usages.report(tx, wish))
    detailed = call.query.get("detailed", "").lower() in _TRUE
    shown = [_show(project, found[project], wish, detailed=detailed) for project in found]
    return _paged(call, _PATH, page, {"tenant_usages": shown}, list(found.values()))


@api.get(f"{_PATH}/{{project_id}}", policy=None)
async def show_usage(call: Call[Compute]) -> Reply:
    """Return what one project used, server by server; nothing for one that had none."""
    project_id = call.path["project_id"]
    call.require(f"{_RULE}show", {"project_id": project_id, "user_id": call.who.user_id})
    wish, page = _read(call, (), project_id)
    found = await call.service.store.read(lambda tx: usages.report(tx, wish))
    shown = {
        "tenant_usage": _show(project_id, found[project_id], wish, detailed=True) if found else {}
    }
    return _paged(call, f"{_PATH}/{project_id}", page, shown, list(found.values()))


def _read(
    call: Call[Compute], more: Sequence[str], project_id: str | None = None
) -> tuple[Wish, paging.Page | None]:
    """Return what is asked for. Raises Invalid."""
    has_pages = call.version >= _PAGES_SINCE
    queries.check_keys(call, ("start", "end", *more, *(queries.PAGING if has_pages else ())))
    now, page = call.service.clock.now(), paging.read(call.query) if has_pages else None
    stop = _moment(call, "end") or now
    start = _moment(call, "start") or stop - min(_USUAL, stop - _FIRST)
    if start >= stop:
        raise Invalid("Invalid start time. The start time cannot occur after the end time.")
    wish = Wish(
        period=Period(start, stop),
        now=now,
        project_id=project_id,
        marker=(page.marker or "") if page else "",
        limit=page.limit if page else None,
    )
    return wish, page


def _moment(call: Call[Compute], name: str) -> datetime | None:
    text = call.query.get(name)
    return moment(text, name) if text else None


def _paged(
    call: Call[Compute],
    path: str,
    page: paging.Page | None,
    body: dict[str, Any],
    found: Sequence[Usage],
) -> Reply:
    if page is not None:
        ids = sorted(one.server_id for usage in found for one in usage.servers)
        (name,) = body
        body |= paging.links(call, path, page, ids, name=f"{name}_links")
    return Reply(200, body)


def _show(project_id: str, used: Usage, wish: Wish, *, detailed: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "tenant_id": project_id,
        "start": microsecond(wish.period.start),
        "stop": microsecond(wish.period.stop),
        "total_hours": used.hours,
        "total_vcpus_usage": used.vcpu_hours,
        "total_memory_mb_usage": used.memory_mib_hours,
        "total_local_gb_usage": used.disk_gib_hours,
    }
    if detailed:
        shown["server_usages"] = [_show_server(one) for one in used.servers]
    return shown


def _show_server(one: ServerUsage) -> dict[str, Any]:
    return {
        "instance_id": one.server_id,
        "name": one.name,
        "tenant_id": one.project_id,
        "flavor": one.flavor,
        "vcpus": one.vcpus,
        "memory_mb": one.memory_mib,
        "local_gb": one.disk_gib,
        "started_at": microsecond(one.started_at),
        "ended_at": microsecond(one.ended_at),
        "hours": one.hours,
        "uptime": one.uptime_s,
        "state": "active" if one.ended_at is None else "terminated",
    }
