"""What operators and clients ask about the service itself, and user messages."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.errors import Invalid, NotFound
from mooring.saga import engines
from mooring.volume.backends import backends
from mooring.volume.service import Volume
from mooring.volume.tables import BackendRow
from mooring.volume.volumes import message_list, messages
from mooring.volume.wire import views
from mooring.volume.wire.api import queries, values
from mooring.web import extensions, paging
from mooring.web.api import Api, Call, Reply

api = Api[Volume]()

_BINARY = "cinder-volume"
_SCHEDULER = "cinder-scheduler"
"""What upstream has a process of its own for; here each of the control plane's does its work."""
_LINKS = "messages_links"
_UPDATE = "volume_extension:services:update"


class ServiceBody(Struct, frozen=True):
    """A service to enable or disable: `host@driver`."""

    host: str
    binary: str = _BINARY
    disabled_reason: values.Name | None = None


@api.get("/os-services", policy="volume_extension:services:index")
async def list_services(call: Call[Volume]) -> Reply:
    """List the volume services, one for each driver of each host, and the schedulers."""
    rows, processes = await call.service.store.read(
        lambda tx: (_backends(tx), engines.find(tx, call.service.sagas))
    )
    shown: dict[str, dict[str, Any]] = {}
    for row in rows:
        shown.setdefault(_service_of(row), _show_service(call, row))
    every = [*shown.values(), *(_show_process(call, one) for one in processes)]
    return Reply(200, {"services": [one for one in every if _is_asked_for(call, one)]})


def _is_asked_for(call: Call[Volume], service: dict[str, Any]) -> bool:
    host, binary = call.query.get("host"), call.query.get("binary")
    name = service["host"]
    return host in (None, name, name.partition("@")[0]) and binary in (None, service["binary"])


@api.put("/os-services/enable", ServiceBody, policy=_UPDATE)
async def enable_service(call: Call[Volume], body: ServiceBody) -> Reply:
    """Let a service get new volumes again."""
    return await _switch(call, body, disabled=False)


@api.put("/os-services/disable", ServiceBody, policy=_UPDATE)
async def disable_service(call: Call[Volume], body: ServiceBody) -> Reply:
    """Let a service get no new volumes."""
    return await _switch(call, body, disabled=True)


@api.put("/os-services/disable-log-reason", ServiceBody, policy=_UPDATE)
async def disable_with_reason(call: Call[Volume], body: ServiceBody) -> Reply:
    """Let a service get no new volumes, and say why."""
    if not (body.disabled_reason or "").strip():
        raise Invalid("Invalid input received: The field disabled_reason is missing or empty.")
    return await _switch(call, body, disabled=True)


@api.get("/scheduler-stats/get_pools", policy="scheduler_extension:scheduler_stats:get_pools")
async def list_pools(call: Call[Volume]) -> Reply:
    """List the pools; with `detail` what they can do and how full they are."""
    settings, now = call.service.settings, call.service.clock.now()
    rooms = await call.service.store.read(lambda tx: backends.find_rooms(tx, settings))
    detail, name = values.read_flag(call.query, "detail"), call.query.get("name")
    pools: list[dict[str, Any]] = []
    for room in rooms:
        if name in (None, room.row.name):
            more = {"capabilities": backends.capabilities(room, settings, now)} if detail else {}
            pools.append({"name": room.row.name, **more})
    return Reply(200, {"pools": pools})


@api.get("/os-availability-zone", policy="volume_extension:availability_zone_list")
async def list_zones(call: Call[Volume]) -> Reply:
    """List the availability zones."""
    rows = await call.service.store.read(_backends)
    names = sorted({call.service.settings.default_zone, *(row.zone for row in rows)})
    zones = [{"zoneName": name, "zoneState": {"available": True}} for name in names]
    return Reply(200, {"availabilityZoneInfo": zones})


@api.get("/extensions", policy=None)
async def list_extensions(call: Call[Volume]) -> Reply:
    """List what upstream calls extensions; everything is part of the API."""
    return Reply(200, extensions.show_all(extensions.VOLUME))


@api.get("/extensions/{alias}", policy=None)
async def show_extension(call: Call[Volume]) -> Reply:
    """Show one."""
    return Reply(200, extensions.show(extensions.VOLUME, call.path["alias"]))


@api.get("/messages", policy="message:get_all", since=(3, 3))
async def list_messages(call: Call[Volume]) -> Reply:
    """List why operations of the project failed."""
    query = queries.messages(call)
    rows = await call.service.store.read(lambda tx: message_list.messages(tx, query))
    answer: dict[str, Any] = {"messages": [views.message(call, row) for row in rows]}
    ids = [row.id for row in rows]
    return Reply(200, answer | paging.links(call, "/messages", query.page, ids, name=_LINKS))


@api.get("/messages/{message_id}", policy="message:get", since=(3, 3))
async def show_message(call: Call[Volume]) -> Reply:
    """Show one message."""
    message_id, read = call.path["message_id"], call.service.store.read
    row = await read(lambda tx: messages.visible(tx, call.who, message_id))
    return Reply(200, {"message": views.message(call, row)})


@api.delete("/messages/{message_id}", policy="message:delete", since=(3, 3))
async def delete_message(call: Call[Volume]) -> Reply:
    """Delete one message."""
    message_id, write = call.path["message_id"], call.service.store.write
    await write(lambda tx: messages.forget(tx, call.who, message_id))
    return Reply(204)


def _backends(tx: Session) -> list[BackendRow]:
    return list(tx.execute(select(BackendRow).order_by(BackendRow.name)).scalars())


def _service_of(row: BackendRow) -> str:
    return f"{row.host}@{row.driver}"


def _show_process(call: Call[Volume], one: engines.Process) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "binary": _SCHEDULER,
        "host": one.host,
        "zone": call.service.settings.default_zone,
        "status": "enabled",
        "state": "up" if one.is_up else "down",
        "updated_at": views.time(one.seen_at),
        "disabled_reason": None,
    }
    if call.version >= (3, 7):
        shown["cluster"] = None
    return shown


def _show_service(call: Call[Volume], row: BackendRow) -> dict[str, Any]:
    up = backends.is_up(row, call.service.settings, call.service.clock.now())
    shown: dict[str, Any] = {
        "binary": _BINARY,
        "host": _service_of(row),
        "zone": row.zone,
        "status": "disabled" if row.disabled else "enabled",
        "state": "up" if up else "down",
        "updated_at": views.time(row.seen_at),
        "disabled_reason": row.disabled_reason,
        "replication_status": "not-capable",
        "active_backend_id": None,
        "frozen": False,
    }
    if call.version >= (3, 7):
        shown["cluster"] = None
    if call.version >= (3, 49):
        shown["backend_state"] = "up" if up else "down"
    return shown


async def _switch(call: Call[Volume], body: ServiceBody, *, disabled: bool) -> Reply:
    reason = body.disabled_reason if disabled else None

    def change(tx: Session) -> None:
        mine = [row for row in _backends(tx) if _service_of(row) == body.host]
        if not mine or body.binary != _BINARY:
            raise NotFound(f"Service {body.binary} could not be found on host {body.host}.")
        for row in mine:
            row.disabled, row.disabled_reason = disabled, reason

    await call.service.store.write(change)
    shown: dict[str, Any] = {
        "host": body.host,
        "service": body.binary,
        "binary": body.binary,
        "disabled": disabled,
        "status": "disabled" if disabled else "enabled",
    }
    if reason is not None:
        shown["disabled_reason"] = reason
    return Reply(200, shown)
