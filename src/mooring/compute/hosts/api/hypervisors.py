"""/os-hypervisors: hosts, each shown as its hypervisor (facts/compute.md 10.2, 11.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy.orm import Session

from mooring.compute.hosts import host_usage, hosts
from mooring.compute.hosts.host_usage import HostUsage
from mooring.compute.service import Compute
from mooring.compute.tables import Host
from mooring.compute.wire.api import queries
from mooring.compute.wire.api.values import canonical_uuid, read_truth
from mooring.errors import Invalid, NotFound, Unavailable
from mooring.web import paging
from mooring.web.api import Api, Call, Reply, Version

api = Api[Compute]()

_RULE = "os_compute_api:os-hypervisors:"
_PAGED_SINCE: Version = (2, 33)
_UUID_SINCE: Version = (2, 53)
_PLAIN_SINCE: Version = (2, 88)
_SUMMED = (
    "current_workload",
    "free_disk_gb",
    "free_ram_mb",
    "local_gb",
    "local_gb_used",
    "memory_mb",
    "memory_mb_used",
    "running_vms",
    "vcpus",
    "vcpus_used",
)
_TYPES = {"simulated": "fake"}


class _Found(Struct, frozen=True):
    """The hosts of one answer, with their servers when those are asked for."""

    rows: Sequence[Host]
    usage: Mapping[str, HostUsage]
    servers: Mapping[str, list[tuple[str, str]]] | None = None


@api.get("/os-hypervisors", policy=f"{_RULE}list")
async def list_hypervisors(call: Call[Compute]) -> Reply:
    """Names and states of one page."""
    return await _list(call, "/os-hypervisors", detail=False)


@api.get("/os-hypervisors/detail", policy=f"{_RULE}list-detail")
async def list_hypervisors_detail(call: Call[Compute]) -> Reply:
    """One page, whole."""
    return await _list(call, "/os-hypervisors/detail", detail=True)


@api.get("/os-hypervisors/statistics", policy=f"{_RULE}statistics", until=(2, 87))
async def show_statistics(call: Call[Compute]) -> Reply:
    """Add up all hosts that are not disabled."""

    def read(tx: Session) -> _Found:
        return _surround(tx, hosts.find_all(tx), with_servers=False)

    found = await call.service.store.read(read)
    shown = [_resources(row, found) for row in found.rows if not row.disabled]
    totals: dict[str, int] = {name: sum(one[name] for one in shown) for name in _SUMMED}
    more = {"count": len(shown), "disk_available_least": totals["free_disk_gb"]}
    return Reply(200, {"hypervisor_statistics": totals | more})


@api.get("/os-hypervisors/{hypervisor_id}", policy=f"{_RULE}show")
async def show_hypervisor(call: Call[Compute]) -> Reply:
    """One hypervisor, from 2.53 on with its servers when they are asked for."""
    queries.check_keys(call, ("with_servers",) if call.version >= _UUID_SINCE else ())
    with_servers = call.version >= _UUID_SINCE and _with_servers(call)
    found = await _find(call, with_servers=with_servers)
    row = found.rows[0]
    shown = _whole(row, call, found)
    if call.version >= _PLAIN_SINCE and shown["state"] == "up":
        shown["uptime"] = await _ask_uptime(call, row) or None
    return Reply(200, {"hypervisor": shown})


async def _ask_uptime(call: Call[Compute], row: Host) -> str:
    """Return what a host says of its uptime; "" when it does not."""
    try:
        return (await call.service.agents[row.name].host()).uptime
    except Unavailable:
        return ""


@api.get("/os-hypervisors/{hypervisor_id}/uptime", policy=f"{_RULE}uptime", until=(2, 87))
async def show_uptime(call: Call[Compute]) -> Reply:
    """How long the host's machine runs, as it tells when it is asked."""
    row = (await _find(call, with_servers=False)).rows[0]
    now, down_after_s = call.service.clock.now(), call.service.settings.host_down_s
    told = await _ask_uptime(call, row) if hosts.is_up(row, now, down_after_s) else ""
    if not told:
        raise Invalid(f"Host {row.name} does not tell its uptime now. Ask again when it is up.")
    return Reply(200, {"hypervisor": _brief(row, call) | {"uptime": told}})


@api.get("/os-hypervisors/{pattern}/search", policy=f"{_RULE}search", until=(2, 52))
async def search_hypervisors(call: Call[Compute]) -> Reply:
    """Hypervisors whose name has a part; 404 when there is none."""
    found = await _search(call)
    return Reply(200, {"hypervisors": [_brief(row, call) for row in found.rows]})


@api.get("/os-hypervisors/{pattern}/servers", policy=f"{_RULE}servers", until=(2, 52))
async def search_servers(call: Call[Compute]) -> Reply:
    """Hypervisors whose name has a part, with their servers; 404 when there is none."""
    found = await _search(call)
    return Reply(
        200, {"hypervisors": [_brief(row, call) | _servers(row, found) for row in found.rows]}
    )


async def _list(call: Call[Compute], path: str, *, detail: bool) -> Reply:
    paged, by_uuid = call.version >= _PAGED_SINCE, call.version >= _UUID_SINCE
    known = queries.PAGING if paged else ()
    more = ("hypervisor_hostname_pattern", "with_servers") if by_uuid else ()
    queries.check_keys(call, (*known, *more), strict_since=_UUID_SINCE)
    page = paging.read(call.query) if paged else None
    pattern = call.query.get("hypervisor_hostname_pattern", "") if by_uuid else ""
    if pattern and page is not None and {"limit", "marker"} & set(call.query):
        raise Invalid("Paging over hypervisors with hypervisor_hostname_pattern is not supported.")
    with_servers = by_uuid and _with_servers(call)

    def read(tx: Session) -> _Found:
        rows = [row for row in hosts.find_all(tx) if pattern in row.name]
        return _surround(tx, _cut(rows, page, by_uuid=by_uuid), with_servers=with_servers)

    found = await call.service.store.read(read)
    if pattern and not found.rows:
        raise NotFound(f"No hypervisor matching '{pattern}' could be found.")
    view = _whole if detail else _with_maybe_servers
    body: dict[str, Any] = {"hypervisors": [view(row, call, found) for row in found.rows]}
    if page is not None:
        ids = [str(_id(row, by_uuid=by_uuid)) for row in found.rows]
        body |= paging.links(call, path, page, ids, name="hypervisors_links")
    return Reply(200, body)


async def _find(call: Call[Compute], *, with_servers: bool) -> _Found:
    text, by_uuid = call.path["hypervisor_id"], call.version >= _UUID_SINCE
    if by_uuid and canonical_uuid(text) is None:
        raise Invalid(f"Invalid uuid {text}")

    def read(tx: Session) -> _Found:
        rows = [row for row in hosts.find_all(tx) if str(_id(row, by_uuid=by_uuid)) == text]
        if not rows:
            raise NotFound(f"Compute host {text} could not be found.")
        return _surround(tx, rows, with_servers=with_servers)

    return await call.service.store.read(read)


async def _search(call: Call[Compute]) -> _Found:
    pattern = call.path["pattern"]

    def read(tx: Session) -> _Found:
        rows = [row for row in hosts.find_all(tx) if pattern in row.name]
        if not rows:
            raise NotFound(f"No hypervisor matching '{pattern}' could be found.")
        return _surround(tx, rows, with_servers=True)

    return await call.service.store.read(read)


def _surround(tx: Session, rows: Sequence[Host], *, with_servers: bool) -> _Found:
    names = [row.name for row in rows]
    servers = host_usage.servers_by_host(tx, names) if with_servers else None
    return _Found(rows, host_usage.by_host(tx), servers)


def _cut(rows: Sequence[Host], page: paging.Page | None, *, by_uuid: bool) -> Sequence[Host]:
    """Return the rows of one page: behind the marker, at most `limit`. Raises Invalid."""
    if page is None:
        return rows
    if page.marker:
        ids = [str(_id(row, by_uuid=by_uuid)) for row in rows]
        if page.marker not in ids:
            raise Invalid(f"marker [{page.marker}] not found")
        rows = rows[ids.index(page.marker) + 1 :]
    return rows[: page.limit]


def _with_servers(call: Call[Compute]) -> bool:
    return read_truth(call.query.get("with_servers", "false"), "with_servers")


def _id(row: Host, *, by_uuid: bool) -> str | int:
    return row.provider_id if by_uuid else row.id


def _brief(row: Host, call: Call[Compute]) -> dict[str, Any]:
    now, down_after_s = call.service.clock.now(), call.service.settings.host_shown_down_s
    return {
        "id": _id(row, by_uuid=call.version >= _UUID_SINCE),
        "hypervisor_hostname": row.name,
        "state": "up" if hosts.is_up(row, now, down_after_s) else "down",
        "status": "disabled" if row.disabled else "enabled",
    }


def _with_maybe_servers(row: Host, call: Call[Compute], found: _Found) -> dict[str, Any]:
    body = _brief(row, call)
    if found.servers is not None and (found.servers.get(row.name) or call.version >= (2, 75)):
        body |= _servers(row, found)
    return body


def _servers(row: Host, found: _Found) -> dict[str, Any]:
    servers = (found.servers or {}).get(row.name, [])
    return {"servers": [{"uuid": server_id, "name": name} for server_id, name in servers]}


def _whole(row: Host, call: Call[Compute], found: _Found) -> dict[str, Any]:
    by_uuid = call.version >= _UUID_SINCE
    body = _with_maybe_servers(row, call, found)
    body |= {
        "hypervisor_type": _TYPES.get(row.hypervisor, "QEMU"),
        "hypervisor_version": row.hypervisor_version,
        "host_ip": row.ip,
        "service": {
            "id": row.service_uuid if by_uuid else row.id,
            "host": row.name,
            "disabled_reason": row.disabled_reason,
        },
    }
    if call.version >= _PLAIN_SINCE:
        body["uptime"] = None
        return body
    body["cpu_info"] = {} if call.version >= (2, 28) else ""
    return body | _resources(row, found)


def _resources(row: Host, found: _Found) -> dict[str, Any]:
    used = found.usage.get(row.name, HostUsage())
    return {
        "vcpus": row.vcpus,
        "memory_mb": row.memory_mib,
        "local_gb": row.disk_gib,
        "vcpus_used": used.vcpus,
        "memory_mb_used": used.memory_mib,
        "local_gb_used": used.disk_gib,
        "free_ram_mb": row.memory_mib - used.memory_mib,
        "free_disk_gb": row.disk_gib - used.disk_gib,
        "current_workload": used.busy,
        "running_vms": used.servers,
        "disk_available_least": None,
    }
