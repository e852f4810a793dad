"""Reading instance actions: pages of them, one of them, its events (facts/compute.md 11.4)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring import limits
from mooring.compute.actions.actions import ERROR
from mooring.compute.tables import InstanceAction, InstanceActionEvent
from mooring.errors import Invalid, NotFound


class ActionQuery(Struct, frozen=True, kw_only=True):
    """Which actions to list; `marker` is a request id."""

    marker: str = ""
    limit: int = limits.WEB_PAGE_ROWS
    changed_since: datetime | None = None
    changed_before: datetime | None = None


def page(tx: Session, server_id: str, query: ActionQuery) -> Sequence[InstanceAction]:
    """Return a server's actions, the newest first. Raises Invalid for an unknown marker."""
    wanted = select(InstanceAction).where(InstanceAction.server_id == server_id)
    if query.changed_since is not None:
        wanted = wanted.where(InstanceAction.updated_at >= query.changed_since)
    if query.changed_before is not None:
        wanted = wanted.where(InstanceAction.updated_at <= query.changed_before)
    if query.marker:
        marker = _find(tx, server_id, query.marker)
        if marker is None:
            raise Invalid(f"marker [{query.marker}] not found")
        wanted = wanted.where(InstanceAction.id < marker.id)
    ordered = wanted.order_by(InstanceAction.id.desc()).limit(query.limit)
    return tx.execute(ordered).scalars().all()


def find(tx: Session, server_id: str, request_id: str) -> InstanceAction:
    """Return what one request did to a server that was just found visible. Raises NotFound."""
    found = _find(tx, server_id, request_id)
    if found is None:
        raise NotFound(f"Action for request_id {request_id} on instance {server_id} not found")
    return found


def events(tx: Session, action_id: int) -> Sequence[InstanceActionEvent]:
    """Return the parts of an action, the newest first."""
    wanted = select(InstanceActionEvent).where(InstanceActionEvent.action_id == action_id)
    return tx.execute(wanted.order_by(InstanceActionEvent.id.desc())).scalars().all()


def find_failures(tx: Session, rows: Sequence[InstanceAction]) -> dict[int, str]:
    """Return why actions failed, by their id: the public error of the last part that did."""
    failed = [row.id for row in rows if row.message == ERROR]
    if not failed:
        return {}
    wanted = select(InstanceActionEvent.action_id, InstanceActionEvent.details).where(
        InstanceActionEvent.action_id.in_(failed),
        InstanceActionEvent.result == ERROR,
        InstanceActionEvent.details.is_not(None),
    )
    found = tx.execute(wanted.order_by(InstanceActionEvent.id)).all()
    return {action_id: details for action_id, details in found if details}


def _find(tx: Session, server_id: str, request_id: str) -> InstanceAction | None:
    wanted = select(InstanceAction).where(
        InstanceAction.server_id == server_id, InstanceAction.request_id == request_id
    )
    return tx.execute(wanted.order_by(InstanceAction.id.desc()).limit(1)).scalar()
