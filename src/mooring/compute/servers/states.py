"""vm_state and task_state: when an action is allowed, how one changes (facts/compute.md 1)."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import CursorResult, delete, func, select, update

from mooring.compute.tables import (
    BlockDevice,
    ConsoleToken,
    Fault,
    InstanceAction,
    InstanceActionEvent,
    Server,
    ServerGroupMember,
    ServerMetadata,
    ServerTag,
)
from mooring.errors import Conflict
from mooring.store.prepared import Change

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.who import Who

NOSTATE, RUNNING, PAUSED, SHUTDOWN, CRASHED, SUSPENDED = 0, 1, 3, 4, 6, 7
IDLE: Collection[str | None] = (None,)
SHELVED = "shelved"
"""The vm_state of a server that was put away and is at its host still: its guest is off."""
OFFLOADED = "shelved_offloaded"
"""The vm_state of a server that was put away: it is at no host."""
ATTACHABLE = frozenset(
    {
        "active",
        "paused",
        "stopped",
        "resized",
        "soft-delete",
        SHELVED,
        OFFLOADED,
    }
)
"""vm_states in which volumes are attached and detached."""
_change_living = Change(Server, lambda columns: columns.deleted_at.is_(None))


def require(
    server: Server,
    who: Who,
    action: str,
    vm_states: Collection[str],
    task_states: Collection[str | None] = IDLE,
) -> None:
    """Raise Conflict unless this caller may do `action` now: lock, vm_state, task_state, launched.

    The order of the checks is that of facts/compute.md 1.3.
    """
    require_unlocked(server, who)
    if server.vm_state not in vm_states:
        raise refusal(server.id, action, "vm_state", server.vm_state)
    if server.task_state not in task_states:
        raise refusal(server.id, action, "task_state", server.task_state)
    if server.launched_at is None:
        raise Conflict(
            f"Instance {server.id} is in an invalid state for '{action}': it never ran. "
            "Nothing was changed."
        )


def require_unlocked(server: Server, who: Who) -> None:
    """Raise Conflict when the server is locked and the caller is no administrator."""
    if server.locked_by is not None and not who.is_admin:
        raise Conflict(f"Instance {server.id} is locked. Nothing was changed; unlock it first.")


def refusal(server_id: str, action: str, attribute: str, state: str | None) -> Conflict:
    """Return OpenStack's 409 for an action in the wrong state."""
    return Conflict(f"Cannot '{action}' instance {server_id} while it is in {attribute} {state}")


def begin(tx: Session, server: Server, action: str, task_state: str, now: datetime) -> None:
    """Mark the operation that starts. Raises Conflict when the state is not what was read."""
    same = update(Server).where(
        Server.id == server.id,
        Server.vm_state == server.vm_state,
        Server.task_state.is_not_distinct_from(server.task_state),
        Server.deleted_at.is_(None),
    )
    if not _change(tx, same.values(task_state=task_state, updated_at=now)):
        raise refusal(server.id, action, "task_state", "another task")
    tx.refresh(server)


def move(tx: Session, server_id: str, task_state: str | None, now: datetime) -> bool:
    """Set the task_state of a server that is not deleted; False when there is none."""
    return change(tx, server_id, now, task_state=task_state)


def settle(
    tx: Session, server_id: str, vm_state: str, power_state: int, now: datetime, **more: Any
) -> bool:
    """End an operation in a stable state, idle. False when the server is deleted."""
    return change(
        tx,
        server_id,
        now,
        vm_state=vm_state,
        task_state=None,
        power_state=power_state,
        state_before_error=None,
        **more,
    )


def break_down(tx: Session, server_id: str, now: datetime) -> bool:
    """Put a server into ERROR, idle. False when the server is deleted."""
    return change(tx, server_id, now, vm_state="error", task_state=None, state_before_error=None)


def break_until_released(tx: Session, server_id: str, now: datetime) -> bool:
    """Put a server into ERROR because it has a released block device; it remembers its state."""
    sick = update(Server).where(
        Server.id == server_id, Server.vm_state != "error", Server.deleted_at.is_(None)
    )
    values = {"vm_state": "error", "task_state": None, "updated_at": now}
    return _change(tx, sick.values(**values, state_before_error=Server.vm_state))


def give_back(tx: Session, server_id: str, now: datetime) -> bool:
    """Return a server to the state that `break_until_released` took; False when there is none."""
    cured = update(Server).where(
        Server.id == server_id, Server.vm_state == "error", Server.state_before_error.is_not(None)
    )
    values = {"vm_state": func.coalesce(Server.state_before_error, "error"), "updated_at": now}
    return _change(tx, cured.values(**values, state_before_error=None))


def change(tx: Session, server_id: str, now: datetime, **values: Any) -> bool:
    """Change columns of a server that is not deleted; False when there is none."""
    return _change_living(tx, server_id, {**values, "updated_at": now})


def host_of(tx: Session, server_id: str) -> str | None:
    """Return the host that a server was given; None before it had one, or when it is gone."""
    return tx.execute(select(Server.host).where(Server.id == server_id)).scalar()


def _change(tx: Session, statement: Any) -> bool:
    tx.flush()
    result = cast("CursorResult[Any]", tx.execute(statement))
    return result.rowcount > 0


def erase(tx: Session, server_id: str) -> None:
    """Remove every row of a server whose request was refused after all: it never was."""
    tx.flush()
    mine = select(InstanceAction.id).where(InstanceAction.server_id == server_id)
    tx.execute(delete(InstanceActionEvent).where(InstanceActionEvent.action_id.in_(mine)))
    of_server = (InstanceAction, Fault, BlockDevice, ServerMetadata, ServerTag, ServerGroupMember)
    for table in (*of_server, ConsoleToken):
        tx.execute(delete(table).where(table.server_id == server_id))
    tx.execute(delete(Server).where(Server.id == server_id))
