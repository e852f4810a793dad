"""/os-availability-zone (facts/compute.md 11.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mooring.compute.hosts import hosts
from mooring.compute.hosts.api.services import BINARY, CONTROL, INTERNAL
from mooring.compute.service import Compute
from mooring.compute.tables import Host
from mooring.compute.wire.api.values import microsecond
from mooring.saga import engines
from mooring.web.api import Api, Call, Reply

api = Api[Compute]()

_RULE = "os_compute_api:os-availability-zone:"


@api.get("/os-availability-zone", policy=f"{_RULE}list")
async def list_zones(call: Call[Compute]) -> Reply:
    """Zones, and whether a host in them takes servers."""
    return await _list(call, detail=False)


@api.get("/os-availability-zone/detail", policy=f"{_RULE}detail")
async def list_zones_detail(call: Call[Compute]) -> Reply:
    """Zones with their hosts."""
    return await _list(call, detail=True)


async def _list(call: Call[Compute], *, detail: bool) -> Reply:
    rows, processes = await call.service.store.read(
        lambda tx: (hosts.find_all(tx), engines.find(tx, call.service.sagas))
    )
    names = sorted({row.zone for row in rows} | {call.service.settings.default_zone})
    zones: list[dict[str, Any]] = [
        {
            "zoneName": name,
            "zoneState": {"available": any(row.zone == name and not row.disabled for row in rows)},
            "hosts": _hosts(call, name, rows) if detail else None,
        }
        for name in names
    ]
    if detail:
        state = {"available": any(one.is_up for one in processes)}
        control = {"zoneName": INTERNAL, "zoneState": state, "hosts": _control(processes)}
        zones.append(control)
    return Reply(200, {"availabilityZoneInfo": zones})


def _control(processes: Sequence[engines.Process]) -> dict[str, Any]:
    """Show the machines of the control plane."""
    return {
        one.host: {
            word: {
                "available": one.is_up,
                "active": True,
                "updated_at": microsecond(one.seen_at),
            }
            for word in CONTROL
        }
        for one in processes
    }


def _hosts(call: Call[Compute], zone: str, rows: Sequence[Host]) -> dict[str, Any]:
    now, down_after_s = call.service.clock.now(), call.service.settings.host_shown_down_s
    return {
        row.name: {
            BINARY: {
                "available": hosts.is_up(row, now, down_after_s),
                "active": not row.disabled,
                "updated_at": microsecond(row.last_seen_at),
            }
        }
        for row in rows
        if row.zone == zone
    }
