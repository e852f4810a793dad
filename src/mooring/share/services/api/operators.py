"""What operators and clients ask about the service itself: services, pools, zones."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring import patterns
from mooring.errors import Invalid, NotFound
from mooring.share.service import Share
from mooring.share.services import matching, pools
from mooring.share.tables import PoolRow
from mooring.share.types import types
from mooring.share.wire import views
from mooring.share.wire.api.values import renamed
from mooring.web.api import Api, Call, Reply

api = Api[Share]()

_BINARY = "manila-share"
_STATS = "/scheduler-stats/pools"
_PLACES = ("host", "backend", "pool")
_TYPE_SINCE = (2, 23)


class ServiceBody(Struct, frozen=True):
    """A service to enable or disable: `host@driver`."""

    host: str
    binary: str = _BINARY


@renamed(api.get, "/services", policy="service:index")
async def list_services(call: Call[Share]) -> Reply:
    """List the share services: one for each driver of each host."""
    rows = await call.service.store.read(_pools)
    shown: dict[str, dict[str, Any]] = {}
    for row in rows:
        found = _show_service(call, row, len(shown) + 1)
        shown.setdefault(_service_of(row), found)
    wanted = {name: call.query[name] for name in _FILTERS if name in call.query}
    services = [each for each in shown.values() if _fits(each, wanted)]
    return Reply(200, {"services": services})


@renamed(api.put, "/services/enable", ServiceBody, policy="service:update")
async def enable_service(call: Call[Share], body: ServiceBody) -> Reply:
    """Let a service get new shares again."""
    return await _switch(call, body, disabled=False)


@renamed(api.put, "/services/disable", ServiceBody, policy="service:update")
async def disable_service(call: Call[Share], body: ServiceBody) -> Reply:
    """Let a service get no new shares."""
    return await _switch(call, body, disabled=True)


@api.get(_STATS, policy="scheduler_stats:pools:index")
async def list_pools(call: Call[Share]) -> Reply:
    """List the pools."""
    return await _list_pools(call, detail=False)


@api.get(f"{_STATS}/detail", policy="scheduler_stats:pools:detail")
async def list_pools_in_detail(call: Call[Share]) -> Reply:
    """List the pools, what they can do and how full they are."""
    return await _list_pools(call, detail=True)


@api.get("/os-availability-zone", policy="availability_zone:index", until=(2, 6))
@api.get("/availability-zones", policy="availability_zone:index", since=(2, 7))
async def list_zones(call: Call[Share]) -> Reply:
    """List the availability zones."""
    rows = await call.service.store.read(_pools)
    since = {row.zone: row.created_at for row in rows}
    since.setdefault(call.service.settings.default_zone, call.service.clock.now())
    zones = [
        {"id": name, "name": name, "created_at": views.time(moment), "updated_at": None}
        for name, moment in sorted(since.items())
    ]
    return Reply(200, {"availability_zones": zones})


@api.get("/extensions", policy=None)
async def list_extensions(call: Call[Share]) -> Reply:
    """List what goes beyond the API's own microversions: nothing."""
    return Reply(200, {"extensions": []})


_FILTERS = ("host", "binary", "zone", "status", "state")


def _fits(shown: dict[str, Any], wanted: dict[str, str]) -> bool:
    names = {"host": {shown["host"], shown["host"].partition("@")[0]}}
    return all(text in names.get(name, {shown[name]}) for name, text in wanted.items())


def _pools(tx: Session) -> list[PoolRow]:
    return list(tx.execute(select(PoolRow).order_by(PoolRow.name)).scalars())


def _service_of(row: PoolRow) -> str:
    return f"{row.host}@{row.driver}"


def _show_service(call: Call[Share], row: PoolRow, number: int) -> dict[str, Any]:
    is_up = pools.is_up(row, call.service.settings, call.service.clock.now())
    return {
        "id": number,
        "binary": _BINARY,
        "host": _service_of(row),
        "zone": row.zone,
        "status": "disabled" if row.disabled else "enabled",
        "state": "up" if is_up else "down",
        "updated_at": views.time(row.seen_at),
    }


async def _switch(call: Call[Share], body: ServiceBody, *, disabled: bool) -> Reply:
    def change(tx: Session) -> None:
        mine = [row for row in _pools(tx) if _service_of(row) == body.host]
        if not mine or body.binary != _BINARY:
            raise NotFound(f"Service {body.binary} could not be found on host {body.host}.")
        for row in mine:
            row.disabled = disabled

    await call.service.store.write(change)
    return Reply(200, {"host": body.host, "binary": body.binary, "disabled": disabled})


async def _list_pools(call: Call[Share], *, detail: bool) -> Reply:
    settings, now = call.service.settings, call.service.clock.now()
    wanted = {
        name: patterns.check(call.query[name], name) for name in _PLACES if name in call.query
    }

    def look(tx: Session) -> tuple[list[pools.Room], dict[str, str]]:
        return pools.find_rooms(tx), _find_specs(tx, call)

    rooms, specs = await call.service.store.read(look)
    shown: list[dict[str, Any]] = []
    for room in rooms:
        place: dict[str, str] = dict(zip(_PLACES, pools.split(room.row.name), strict=True))
        found = all(patterns.begins(text, place[name]) for name, text in wanted.items())
        has = pools.capabilities(room, settings, now)
        if found and matching.suits(has, specs):
            more = {"capabilities": has} if detail else {}
            shown.append({"name": room.row.name, **place, **more})
    return Reply(200, {"pools": shown})


def _find_specs(tx: Session, call: Call[Share]) -> dict[str, str]:
    """Return what the share type of the query asks of a pool; nothing when it names none."""
    named = call.query.get("share_type")
    if not named or call.version < _TYPE_SINCE:
        return {}
    try:
        return types.named(tx, call.who, named).extra_specs
    except NotFound as error:
        raise Invalid(f"Invalid input received: {error.public}") from error
