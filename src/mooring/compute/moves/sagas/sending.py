"""How a guest is sent from one host to the other, looked after, and given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace

from mooring.agent_api.moves import Progress
from mooring.compute.hosts import guests
from mooring.compute.moves import migrations
from mooring.compute.moves.sagas.move_notes import LiveMigrate
from mooring.errors import Conflict, MooringError, Unavailable
from mooring.fence.rules import is_fenced
from mooring.limits import AGENT_PATIENCE_S, COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import Park, Run
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.client import AgentClient
    from mooring.agent_api.moves import Arrival
    from mooring.compute.service import Compute, ComputeSettings
    from mooring.compute.tables import Migration

log = structlog.get_logger()
_LOOK_S = AGENT_PATIENCE_S + 3.0
"""How often a guest on its way is looked at: its host answers that it goes on before."""
_HELD_S = 60.0
"""How long, at least, a guest that is held still may take to arrive."""


def begin_sending(tx: Session, notes: LiveMigrate, run: Run[Compute]) -> None:
    """Say that the guest is on its way. Raises Conflict when nobody wants that any more."""
    row = _find(tx, notes)
    if row.asked == migrations.ABORT:
        raise _aborted(notes)
    migrations.change(tx, notes.migration_id, run.now(), status="running")


async def send_guest(notes: LiveMigrate, run: Run[Compute]) -> LiveMigrate:
    """Send the guest, and rest while it is on its way. Where it is in the end is seen afterwards.

    A refusal, an abort, or a silent destination, is why it stayed, if it did.
    """
    row = await run.service.store.read(lambda tx: _find(tx, notes))
    if row.asked == migrations.ABORT or run.pre_empted:
        return replace(notes, reason=_aborted(notes).public, aborted=True)
    if run.worked_s >= _patience_s(run.service.settings):
        return replace(
            notes,
            reason=f"The guest of server {notes.server_id} changed its memory faster than it could "
            "be sent, and stays where it is. Move it when it does less, or force the move.",
        )
    try:
        await _send(notes, run, row)
    except MooringError as error:
        gives_up = run.attempt >= COMPUTE_UNDO_ATTEMPTS
        if is_unavailable(error) and not gives_up and not await _is_hopeless(notes, run):
            raise
        return replace(notes, reason=error.public)
    return notes


async def _send(notes: LiveMigrate, run: Run[Compute], row: Migration) -> None:
    """Ask the source to send. Raises Park while it does."""
    arrival = await guests.ask(
        run, notes.destination, lambda agent: agent.show_arrival(notes.server_id)
    )
    try:
        await _depart(notes, run, arrival)
    except Unavailable as error:
        if "goes_on" not in error.detail:
            raise
        await _look_after(notes, run, row)
        raise Park(
            signal=migrations.signal_of(notes.migration_id),
            seconds=_LOOK_S,
            timeout_s=2 * _patience_s(run.service.settings) + _LOOK_S,
        ) from error


async def _depart(notes: LiveMigrate, run: Run[Compute], arrival: Arrival) -> None:
    async def verb(agent: AgentClient) -> None:
        await agent.put_departure(
            notes.server_id, arrival, operation=run.operation, timeout_s=_LOOK_S
        )

    await guests.ask(run, notes.source, verb)


async def _look_after(notes: LiveMigrate, run: Run[Compute], row: Migration) -> None:
    """Write down how far the guest is, and hold it still when its user, or time, asks for that."""
    progress = await guests.ask(
        run, notes.source, lambda agent: agent.show_departure(notes.server_id)
    )
    if progress != Progress():
        await _note(notes, run, progress)
    settings = run.service.settings
    is_late = _hastens(settings) and run.worked_s >= settings.move_timeout_s
    if is_late or row.asked == migrations.FORCE_COMPLETE:
        await _hold_still(notes, run)


async def _note(notes: LiveMigrate, run: Run[Compute], progress: Progress) -> None:
    now = run.now()
    await run.service.store.write(
        lambda tx: migrations.note_progress(tx, notes.migration_id, progress, now)
    )
    await run.progress(progress.percent)


async def _hold_still(notes: LiveMigrate, run: Run[Compute]) -> None:
    """Ask the source to; what it does not send just now is looked at again."""
    operation = guests.other(run.operation, "hasten")

    async def verb(agent: AgentClient) -> None:
        await agent.hasten_departure(notes.server_id, operation=operation)

    try:
        await guests.ask(run, notes.source, verb)
    except Conflict as error:
        if is_fenced(error):
            raise
        log.info("a guest was not held still", server=notes.server_id, reason=error.public)


def _hastens(settings: ComputeSettings) -> bool:
    return settings.move_timeout_action == "force_complete"


def _patience_s(settings: ComputeSettings) -> float:
    """Return for how long a guest may be on its way, held still or not."""
    timeout_s = settings.move_timeout_s
    return timeout_s + (max(timeout_s, _HELD_S) if _hastens(settings) else 0.0)


async def _is_hopeless(notes: LiveMigrate, run: Run[Compute]) -> bool:
    """Whether one of the two hosts is known to be gone."""
    hosts = (notes.source, notes.destination)
    return any([await guests.is_lost(run, host) for host in hosts])


def _find(tx: Session, notes: LiveMigrate) -> Migration:
    row = migrations.find(tx, notes.migration_id)
    if row is None:
        message = f"The record of migration {notes.migration_id} is gone."
        raise Conflict(message)
    return row


def _aborted(notes: LiveMigrate) -> Conflict:
    return Conflict(
        f"The move of server {notes.server_id} was aborted; the server is where it was."
    )
