"""/servers/{server_id}/os-instance-actions: what was done to a server (facts/compute.md 11.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from sqlalchemy.orm import Session

from mooring import limits
from mooring.compute.actions import action_list
from mooring.compute.actions.action_list import ActionQuery
from mooring.compute.servers import servers
from mooring.compute.servers.api.server_views import host_id
from mooring.compute.service import Compute
from mooring.compute.tables import InstanceAction, InstanceActionEvent, Server
from mooring.compute.wire.api import queries
from mooring.compute.wire.api.values import microsecond, moment
from mooring.errors import Invalid
from mooring.saga.waiting import Wait, find_waits
from mooring.web import paging
from mooring.web.api import Api, Call, Reply

api = Api[Compute]()

_RULE = "os_compute_api:os-instance-actions:"
_PATH = "/servers/{server_id}/os-instance-actions"
_DELETED_SINCE = (2, 21)
_PAGED_SINCE = (2, 58)
Waits: TypeAlias = dict[str, str]
"""What keeps an operation waiting, and what can be done about it, by the operation's id."""


class Told(Struct, frozen=True):
    """What is said of some actions beside their rows."""

    waits: Waits
    failures: Mapping[int, str]
    """Why actions failed, by their id."""

    def message(self, action: InstanceAction) -> str | None:
        """Return an action's message; upstream's own for a failure stands in front.

        Members see no details of events, and no fault of a server that goes on.
        """
        if action.message is None:
            return self.waits.get(action.saga_id or "")
        why = self.failures.get(action.id)
        return f"{action.message}: {why}" if why else action.message


@api.get(_PATH, policy=f"{_RULE}list")
async def list_actions(call: Call[Compute]) -> Reply:
    """List a server's actions, the newest first."""
    paged = call.version >= _PAGED_SINCE
    page = paging.read(call.query) if paged else paging.Page(limits.WEB_PAGE_ROWS)
    query = _read_query(call, page) if paged else ActionQuery()

    def read(tx: Session) -> tuple[Sequence[InstanceAction], Told]:
        rows = action_list.page(tx, _visible(tx, call).id, query)
        return rows, _find_told(tx, call, rows)

    rows, told = await call.service.store.read(read)
    links: dict[str, Any] = {}
    if paged:
        path = f"/servers/{call.path['server_id']}/os-instance-actions"
        links = paging.links(call, path, page, [row.request_id for row in rows], name="links")
    return Reply(200, {"instanceActions": [_show(row, call, told) for row in rows], **links})


@api.get(_PATH + "/{request_id}", policy=f"{_RULE}show")
async def show_action(call: Call[Compute]) -> Reply:
    """One action, with its events for those who may see them."""

    def read(tx: Session) -> tuple[InstanceAction, Sequence[InstanceActionEvent], Told]:
        server = _visible(tx, call)
        found = action_list.find(tx, server.id, call.path["request_id"])
        return found, action_list.events(tx, found.id), _find_told(tx, call, [found])

    action, events, told = await call.service.store.read(read)
    shown = _show(action, call, told) | _show_events(call, action, events, told.waits)
    return Reply(200, {"instanceAction": shown})


def _show_events(
    call: Call[Compute], action: InstanceAction, events: Sequence[InstanceActionEvent], waits: Waits
) -> dict[str, Any]:
    """Show the events of an action to those who may see them."""
    target = {"project_id": action.project_id, "user_id": action.user_id}
    knows_all = call.allowed(f"{_RULE}events", target)
    if not knows_all and call.version < (2, 51):
        return {}
    wait = waits.get(action.saga_id or "")
    shown = [
        _show_event(call, event, action.project_id, wait, knows_all=knows_all) for event in events
    ]
    return {"events": shown}


def _read_query(call: Call[Compute], page: paging.Page) -> ActionQuery:
    known = ["limit", "marker", "changes-since"]
    if call.version >= (2, 66):
        known.append("changes-before")
    # This list refuses unknown keys from its first paged version on.
    queries.check_keys(call, known, strict_since=_PAGED_SINCE)
    since, before = call.query.get("changes-since"), call.query.get("changes-before")
    query = ActionQuery(
        marker=page.marker or "",
        limit=page.limit,
        changed_since=None if since is None else moment(since, "changes-since"),
        changed_before=None if before is None else moment(before, "changes-before"),
    )
    if (
        query.changed_since is not None
        and query.changed_before is not None
        and query.changed_before < query.changed_since
    ):
        raise Invalid("The value of changes-since must be less than or equal to changes-before.")
    return query


def _visible(tx: Session, call: Call[Compute]) -> Server:
    deleted = call.version >= _DELETED_SINCE
    return servers.visible(tx, call.who, call.path["server_id"], deleted=deleted)


def _find_told(tx: Session, call: Call[Compute], actions: Sequence[InstanceAction]) -> Told:
    return Told(_find_waits(tx, call, actions), action_list.find_failures(tx, actions))


def _find_waits(tx: Session, call: Call[Compute], actions: Sequence[InstanceAction]) -> Waits:
    """Return what keeps actions waiting. Only who may see events learns a silent host's name."""
    engine, now = call.service.sagas, call.service.clock.now()
    ids = [action.saga_id for action in actions if action.saga_id]
    name = "" if call.allowed(f"{_RULE}events") else "The host"
    return {
        saga_id: said + _advise(saga_id, wait, is_told=not name)
        for saga_id, wait in find_waits(tx, engine, ids).items()
        if (said := wait.describe(now, name))
    }


def _advise(saga_id: str, wait: Wait, *, is_told: bool) -> str:
    """Say what ends the wait for a silent host: to whom is told its name, how."""
    if wait.hindrance is None or wait.hindrance.since is None:
        return ""
    if not is_told:
        abort = f" or to abort operation {saga_id}" if wait.may_abort else ""
        return (
            " The operation goes on when it answers. If that takes too long, ask an administrator "
            f"to force the host down{abort}."
        )
    host = wait.hindrance.host
    abort = f", or abort the operation (mooring operations abort {saga_id})"
    return (
        " The operation goes on when it answers. If the host is gone, switch it off and force it "
        f"down (openstack compute service set --down {host} nova-compute)"
        f"{abort if wait.may_abort else ''}."
    )


def _show(action: InstanceAction, call: Call[Compute], told: Told) -> dict[str, Any]:
    body: dict[str, Any] = {
        "action": action.action,
        "instance_uuid": action.server_id,
        "request_id": action.request_id,
        "user_id": action.user_id,
        "project_id": action.project_id,
        "start_time": microsecond(action.started_at),
        "message": told.message(action),
    }
    if call.version >= _PAGED_SINCE:
        body["updated_at"] = microsecond(action.updated_at)
    return body


def _show_event(
    call: Call[Compute],
    event: InstanceActionEvent,
    project_id: str,
    wait: str | None,
    *,
    knows_all: bool,
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "event": event.event,
        "start_time": microsecond(event.started_at),
        "finish_time": microsecond(event.finished_at),
        "result": event.result,
    }
    if knows_all:
        body["traceback"] = event.traceback
    if call.version >= (2, 62):
        body["hostId"] = host_id(project_id, event.host)
        if knows_all:
            body["host"] = event.host
    if call.version >= (2, 84) and call.allowed(f"{_RULE}events:details"):
        body["details"] = event.details if event.finished_at else wait
    return body
