"""Servers: what a user may ask of one, and when (facts/compute.md 1.3, 1.4).

Each verb takes the service, who asks, and the server's id; policy is checked by the route. It
answers once the request is accepted; the rest is the saga's. Errors:

- NotFound    the server is not there, or not for this caller
- Conflict    locked, wrong vm_state or task_state, or another operation holds it; the message is
              OpenStack's "Cannot '<action>' instance <id> while it is in <attr> <state>"
- Invalid     the request makes no sense
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from mooring.compute.actions import actions, notices
from mooring.compute.create.block_devices import NewBlockDevice
from mooring.compute.create.building import create
from mooring.compute.create.requests import Created, NewServer
from mooring.compute.delete.sagas.delete_notes import DeleteServer
from mooring.compute.delete.sagas.delete_server import DELETE_SERVER
from mooring.compute.hosts import hosts
from mooring.compute.power.sagas.power import (
    INSIST_ON_REBOOT,
    INSIST_ON_STOP,
    PAUSE_SERVER,
    REBOOT_SERVER,
    RESUME_SERVER,
    START_SERVER,
    STOP_SERVER,
    SUSPEND_SERVER,
    UNPAUSE_SERVER,
)
from mooring.compute.power.sagas.power_notes import ChangePower, Mode, State
from mooring.compute.power.sagas.reset_state import RESET_STATE, ResetState
from mooring.compute.servers import states
from mooring.compute.shares import blocked
from mooring.compute.tables import Server
from mooring.compute.volumes import devices
from mooring.errors import Conflict, NotFound, Unavailable
from mooring.saga.held import HeldError, is_carried_out
from mooring.store.loaded import ById

if TYPE_CHECKING:
    from typing import TypeVar

    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.who import Who

    T = TypeVar("T")

__all__ = ["Created", "NewBlockDevice", "NewServer", "create", "delete", "lock", "reboot"]
__all__ += ["pause", "reset_state", "resume", "start", "stop", "submit", "suspend"]
__all__ += ["unlock", "unpause", "visible"]

_HARD_FROM = frozenset({"active", "stopped", "paused", "suspended", "error"})
_REPLACED_BY_HARD = frozenset(
    {
        "rebooting",
        "reboot_pending",
        "reboot_started",
        "rebooting_hard",
        "resuming",
        "unpausing",
        "pausing",
        "suspending",
    }
)


class _PowerRule(Struct, frozen=True):
    """One verb on a guest's power, as facts/compute.md 1.4 describes it."""

    action: str
    state: State
    mode: Mode
    task_state: str
    vm_states: Collection[str]
    task_states: Collection[str | None] = states.IDLE


_STOP = _PowerRule("stop", "off", "soft", "powering-off", frozenset({"active", "error"}))
_START = _PowerRule("start", "on", "hard", "powering-on", frozenset({"stopped"}))
_SOFT = _PowerRule("reboot", "reboot", "soft", "rebooting", frozenset({"active"}))
_HARD = _PowerRule(
    "reboot", "reboot", "hard", "rebooting_hard", _HARD_FROM, _REPLACED_BY_HARD | {None}
)
_PAUSE = _PowerRule("pause", "pause", "hard", "pausing", frozenset({"active"}))
_UNPAUSE = _PowerRule("unpause", "unpause", "hard", "unpausing", frozenset({"paused"}))
_SUSPEND = _PowerRule("suspend", "suspend", "hard", "suspending", frozenset({"active"}))
_RESUME = _PowerRule("resume", "resume", "hard", "resuming", frozenset({"suspended"}))

_INSISTING = {_STOP: INSIST_ON_STOP, _HARD: INSIST_ON_REBOOT}
_SAGAS = {
    "stop": STOP_SERVER,
    "start": START_SERVER,
    "reboot": REBOOT_SERVER,
    "pause": PAUSE_SERVER,
    "unpause": UNPAUSE_SERVER,
    "suspend": SUSPEND_SERVER,
    "resume": RESUME_SERVER,
}


_by_id = ById(Server)


def visible(tx: Session, who: Who, server_id: str, *, deleted: bool = False) -> Server:
    """Return the server that this caller may see, a deleted one when asked for. Raises NotFound."""
    server = _by_id.find(tx, server_id)
    sees = who.is_admin or who.is_service
    if (
        server is None
        or (server.deleted_at is not None and not deleted)
        or not (sees or server.project_id == who.project_id)
    ):
        raise NotFound(f"Instance {server_id} could not be found.")
    return server


async def submit(
    compute: Compute,
    action: str,
    server_id: str,
    fn: Callable[[Session], T],
    insist: Callable[[Session], T] | None = None,
) -> T:
    """Run a transaction that starts a saga on a server; the 409 names who holds it.

    `insist`: as `Engine.submit` takes it.
    """
    try:
        return await compute.sagas.submit(fn, insist)
    except HeldError as error:
        raise Conflict(
            f"Cannot '{action}' instance {server_id} while another operation holds it: "
            f"{error.public}",
            holder=error.holder,
        ) from error


async def delete(compute: Compute, who: Who, server_id: str) -> None:
    """Delete it, whatever it is doing; a second call meanwhile is accepted. Conflict: locked.

    One behind a reset, which ends the first deletion, begins another one.
    """

    def begin(tx: Session) -> None:
        server = visible(tx, who, server_id)
        states.require_unlocked(server, who)
        is_deleting = server.task_state == "deleting"
        if is_deleting and is_carried_out(tx, f"server:{server_id}", DELETE_SERVER):
            return
        now, saga_id = compute.clock.now(), str(uuid.uuid4())
        states.move(tx, server_id, "deleting", now)
        action_id = actions.begin(tx, server_id, "delete", who, now, saga_id=saga_id)
        releases = [row.id for row in devices.of_server(tx, server_id, state="released")]
        notes = DeleteServer(server_id=server_id, action_id=action_id, releases=releases)
        compute.sagas.start(tx, DELETE_SERVER, notes, who=who, saga_id=saga_id)

    await compute.store.write(begin)


async def stop(compute: Compute, who: Who, server_id: str) -> None:
    """Shut the guest down; switch it off when it takes too long."""
    await _change_power(compute, who, server_id, _STOP)


async def start(compute: Compute, who: Who, server_id: str) -> None:
    """Start a stopped guest, with fresh connections to its volumes."""
    await _change_power(compute, who, server_id, _START)


async def reboot(compute: Compute, who: Who, server_id: str, kind: Literal["SOFT", "HARD"]) -> None:
    """Reboot the guest. HARD asks nobody, connects its volumes anew and ends in active."""
    await _change_power(compute, who, server_id, _SOFT if kind == "SOFT" else _HARD)


async def pause(compute: Compute, who: Who, server_id: str) -> None:
    """Let the guest stand still, with all that it has."""
    await _change_power(compute, who, server_id, _PAUSE)


async def unpause(compute: Compute, who: Who, server_id: str) -> None:
    """Let a guest that stands still run on."""
    await _change_power(compute, who, server_id, _UNPAUSE)


async def suspend(compute: Compute, who: Who, server_id: str) -> None:
    """Switch the guest off and keep its memory on its host. Conflict: it has a share, too."""
    await _change_power(compute, who, server_id, _SUSPEND)


async def resume(compute: Compute, who: Who, server_id: str) -> None:
    """Let a guest run on from its memory, with fresh connections to its volumes."""
    await _change_power(compute, who, server_id, _RESUME)


async def _change_power(compute: Compute, who: Who, server_id: str, rule: _PowerRule) -> None:
    def begin(tx: Session, *, insists: bool = False) -> None:
        server = visible(tx, who, server_id)
        if rule is _SUSPEND:
            blocked.refuse_suspension(tx, server_id)
        now, down_after_s = compute.clock.now(), compute.settings.host_down_s
        states.require(server, who, rule.action, rule.vm_states, rule.task_states)
        host = hosts.require_up(tx, server.host, now, down_after_s)
        replaces = insists or server.task_state is not None
        saga = _INSISTING[rule] if replaces else _SAGAS[rule.action]
        states.begin(tx, server, rule.action, rule.task_state, now)
        saga_id = str(uuid.uuid4())
        notes = ChangePower(
            server_id=server_id,
            host=host.name,
            action_id=actions.begin(tx, server_id, rule.action, who, now, saga_id=saga_id),
            state=rule.state,
            mode=rule.mode,
            task_state=rule.task_state,
        )
        compute.sagas.start(tx, saga, notes, who=who, saga_id=saga_id)

    insist = partial(begin, insists=True) if rule in _INSISTING else None
    await submit(compute, rule.action, server_id, begin, insist)


async def reset_state(
    compute: Compute, who: Who, server_id: str, state: Literal["active", "error"]
) -> None:
    """Set vm_state by hand, ending whatever holds the server; waits for it, for a while."""

    def begin(tx: Session) -> str:
        visible(tx, who, server_id)
        saga_id = str(uuid.uuid4())
        now = compute.clock.now()
        action_id = actions.begin(tx, server_id, "resetState", who, now, saga_id=saga_id)
        notes = ResetState(server_id=server_id, action_id=action_id, vm_state=state)
        return compute.sagas.start(tx, RESET_STATE, notes, who=who, saga_id=saga_id)

    await until_answered(compute, await compute.store.write(begin))


async def until_answered(compute: Compute, saga_id: str) -> bool:
    """Wait for a saga's answer; False when it goes on for longer than a request may last.

    Raises the saga's error when it failed before its answer.
    """
    try:
        await compute.sagas.answered(saga_id)
    except Unavailable as error:
        if error.detail.get("operation") == saga_id:
            return False
        raise
    return True


async def lock(compute: Compute, who: Who, server_id: str, reason: str | None = None) -> None:
    """Keep all but administrators from changing it; the reason has at most 255 characters.

    An administrator's lock stays as it is when its owner locks it: no owner ends it that way.
    """

    def change(tx: Session) -> None:
        server = visible(tx, who, server_id)
        now = compute.clock.now()
        by = "owner" if server.project_id == who.project_id and not who.is_admin else "admin"
        if by == "owner" and server.locked_by == "admin":
            return
        states.change(tx, server_id, now, locked_by=by, locked_reason=reason)
        actions.record_done(tx, server_id, "lock", who, now, event="api_lock")
        notices.send(tx, compute, server_id, "lock")

    await compute.store.write(change)


async def unlock(
    compute: Compute, who: Who, server_id: str, require_override: Callable[[], None]
) -> None:
    """End a lock. `require_override` raises Forbidden for who may not end an administrator's."""

    def change(tx: Session) -> None:
        if visible(tx, who, server_id).locked_by == "admin":
            require_override()
        now = compute.clock.now()
        states.change(tx, server_id, now, locked_by=None, locked_reason=None)
        actions.record_done(tx, server_id, "unlock", who, now, event="api_unlock")
        notices.send(tx, compute, server_id, "unlock")

    await compute.store.write(change)
