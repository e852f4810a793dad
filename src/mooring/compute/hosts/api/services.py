"""/os-services: hosts, each shown as its nova-compute service (facts/compute.md 11.5, 12.2)."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy.orm import Session

from mooring.compute.hosts import host_changes, hosts
from mooring.compute.hosts.host_changes import HostChanges
from mooring.compute.service import Compute
from mooring.compute.tables import Host
from mooring.compute.wire.api import queries
from mooring.compute.wire.api.values import Truth, canonical_uuid, microsecond, truth
from mooring.errors import Invalid, NotFound
from mooring.saga import engines
from mooring.web.api import Api, Call, Reply, Version

api = Api[Compute]()

BINARY = "nova-compute"
CONTROL = ("nova-conductor", "nova-scheduler")
"""What upstream has processes of their own for: one of the control plane's does their work."""
INTERNAL = "internal"
"""The zone of what is no host, as upstream calls it."""
_RULE = "os_compute_api:os-services:"
_UUID_SINCE: Version = (2, 53)
_FORCED_SINCE: Version = (2, 11)
_Reason = Annotated[str, Meta(min_length=1, max_length=255)]
_Host = Annotated[str, Meta(min_length=1, max_length=255)]


class Change(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of PUT /os-services/{uuid} from 2.53 on."""

    status: Literal["enabled", "disabled"] | UnsetType = UNSET
    disabled_reason: _Reason | UnsetType = UNSET
    forced_down: Truth | UnsetType = UNSET


class OldChange(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of PUT /os-services/{action} up to 2.52."""

    host: _Host
    binary: _Host
    disabled_reason: _Reason | UnsetType = UNSET
    forced_down: Truth | UnsetType = UNSET


@api.get("/os-services", policy=f"{_RULE}list")
async def list_services(call: Call[Compute]) -> Reply:
    """List every host's service, then those of the control plane; by host and binary if given."""
    queries.check_keys(call, ("host", "binary"))
    name, binary = call.query.get("host", ""), call.query.get("binary", "")
    rows, processes = await call.service.store.read(
        lambda tx: (hosts.find_all(tx), engines.find(tx, call.service.sagas))
    )
    shown = [_show(row, call) for row in rows]
    shown += [show_process(one, word, call) for word in CONTROL for one in processes]
    found = [one for one in shown if name in {"", one["host"]} and binary in {"", one["binary"]}]
    return Reply(200, {"services": found})


def _read_changes(body: Change) -> HostChanges:
    """Return what is to change. Raises Invalid for nothing, and for a reason of nothing."""
    if body.status is UNSET and body.forced_down is UNSET:
        raise Invalid(
            "No updates were requested. Fields 'status' or 'forced_down' should be specified."
        )
    if body.disabled_reason is not UNSET and body.status != "disabled":
        raise Invalid("Specifying disabled_reason requires that status is disabled.")
    return HostChanges(
        disabled=UNSET if body.status is UNSET else body.status == "disabled",
        disabled_reason=body.disabled_reason or None,
        forced_down=UNSET if body.forced_down is UNSET else truth(body.forced_down),
    )


@api.put("/os-services/{service_id}", Change, policy=f"{_RULE}update", since=_UUID_SINCE)
async def change_service(call: Call[Compute], body: Change) -> Reply:
    """Enable, disable, or say that a host is down."""
    service_id = canonical_uuid(call.path["service_id"])
    if service_id is None:
        raise Invalid(f"Invalid uuid {call.path['service_id']}")
    changes = _read_changes(body)

    def change(tx: Session) -> Host:
        _refuse_control(tx, call, service_id)
        row = host_changes.by_service(tx, service_id)
        now, by = call.service.clock.now(), call.who.user_id
        return host_changes.change(tx, row, changes, now, by=by)

    return Reply(200, {"service": _show(await call.service.store.write(change), call)})


def _check_old(call: Call[Compute], body: OldChange) -> None:
    """Raise NotFound for an action that the version does not know, Invalid for other services."""
    known = {"enable", "disable", "disable-log-reason"}
    if call.version >= _FORCED_SINCE:
        known.add("force-down")
    if call.path["action"] not in known:
        raise NotFound("Unknown action")
    if body.binary != BINARY:
        raise Invalid(f"Updating a {body.binary} service is not supported: only {BINARY} is.")


@api.put("/os-services/{action}", OldChange, policy=f"{_RULE}update", until=(2, 52))
async def change_service_by_name(call: Call[Compute], body: OldChange) -> Reply:
    """Enable, disable, or say that a host is down, in the older way."""
    _check_old(call, body)
    changes, answer = _read_old(call.path["action"], body)

    def change(tx: Session) -> None:
        row = hosts.find(tx, body.host)
        if row is None:
            raise NotFound(f"Could not find binary {BINARY} on host {body.host}.")
        now, by = call.service.clock.now(), call.who.user_id
        host_changes.change(tx, row, changes, now, by=by)

    await call.service.store.write(change)
    return Reply(200, {"service": {"host": body.host, "binary": body.binary, **answer}})


@api.delete("/os-services/{service_id}", policy=f"{_RULE}delete")
async def delete_service(call: Call[Compute]) -> Reply:
    """Forget a host that is down and has no servers; 409 otherwise."""
    text = call.path["service_id"]
    by_uuid = call.version >= _UUID_SINCE
    service_id = canonical_uuid(text) if by_uuid else text if _is_number(text) else None
    if service_id is None:
        raise Invalid(f"Invalid service id {text}")
    if by_uuid:
        await call.service.store.read(lambda tx: _refuse_control(tx, call, service_id))
    await host_changes.remove(call.service, service_id, by_uuid=by_uuid)
    return Reply(204)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def _read_old(action: str, body: OldChange) -> tuple[HostChanges, dict[str, Any]]:
    if action == "force-down":
        if body.forced_down is UNSET:
            raise Invalid("Missing forced_down field")
        forced = truth(body.forced_down)
        return HostChanges(forced_down=forced), {"forced_down": forced}
    if action == "enable":
        return HostChanges(disabled=False), {"status": "enabled"}
    if action == "disable":
        return HostChanges(disabled=True), {"status": "disabled"}
    if body.disabled_reason is UNSET:
        raise Invalid("Missing disabled reason field")
    reason = body.disabled_reason
    changes = HostChanges(disabled=True, disabled_reason=reason)
    return changes, {"status": "disabled", "disabled_reason": reason}


def _refuse_control(tx: Session, call: Call[Compute], service_id: str) -> None:
    """Raise Invalid for a service of the control plane."""
    for one in engines.find(tx, call.service.sagas):
        for word in CONTROL:
            if one.id_of(word) == service_id:
                raise Invalid(
                    f"Service {service_id} is the {word} of {one.host}, and only {BINARY} is "
                    "changed or deleted here: one that is silent is forgotten after a day, or "
                    "once another lives on its machine. Nothing was changed."
                )


def show_process(one: engines.Process, word: str, call: Call[Compute]) -> dict[str, Any]:
    """Show a process of the control plane as one of the services that upstream has for it."""
    body: dict[str, Any] = {
        "id": one.id_of(word) if call.version >= _UUID_SINCE else _number_of(one, word),
        "binary": word,
        "host": one.host,
        "zone": INTERNAL,
        "status": "enabled",
        "state": "up" if one.is_up else "down",
        "updated_at": microsecond(one.seen_at),
        "disabled_reason": None,
    }
    if call.version >= _FORCED_SINCE:
        body["forced_down"] = False
    return body


def _number_of(one: engines.Process, word: str) -> int:
    """Return a number for old clients, far above those of hosts."""
    return 1 << 48 | uuid.UUID(one.id_of(word)).int >> 80


def _show(row: Host, call: Call[Compute]) -> dict[str, Any]:
    now, down_after_s = call.service.clock.now(), call.service.settings.host_shown_down_s
    body: dict[str, Any] = {
        "id": row.service_uuid if call.version >= _UUID_SINCE else row.id,
        "binary": BINARY,
        "host": row.name,
        "zone": row.zone,
        "status": "disabled" if row.disabled else "enabled",
        "state": "up" if hosts.is_up(row, now, down_after_s) else "down",
        "updated_at": microsecond(row.last_seen_at),
        "disabled_reason": row.disabled_reason,
    }
    if call.version >= _FORCED_SINCE:
        body["forced_down"] = row.forced_down
    return body
