"""The steps of the migration of a volume in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.agent_api.volumes import VolumeSpec
from mooring.errors import Conflict
from mooring.saga.define import Together
from mooring.volume.backends import backends
from mooring.volume.migration import arrival, copies, copy_rows, swaps
from mooring.volume.migration.sagas.in_use_notes import MigrateInUse
from mooring.volume.quotas import quota
from mooring.volume.tables import TypeRow, VolumeRow
from mooring.volume.volumes import statuses

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.saga.define import Run
    from mooring.volume.service import Volume

ASK = "ask_compute"
"""The step under whose operation compute is asked."""


def begin_moving(tx: Session, notes: MigrateInUse, run: Run[Volume]) -> None:
    """Show it, and write the copy down; from now on the volume counts in both pools.

    Raises Conflict when the type is gone, OverQuota when it has no room any more.
    """
    move, row = notes.move, tx.get_one(VolumeRow, notes.volume_id)
    # Who asked was seen to have the right to both; the saga acts for nobody.
    volume_type = tx.get(TypeRow, notes.type_id or row.volume_type_id)
    if volume_type is None:
        raise Conflict(f"Volume type {notes.type_id} is gone. The volume is as it was.")
    if volume_type.id != row.volume_type_id:
        # From here on the copy counts for the type. Who had to wait was seen to have room before.
        quota.claim_type(tx, row, volume_type)
    copy_rows.add(tx, row, move, volume_type, run.now())
    values = {"migration_status": "migrating", "copy_id": move.copy_id}
    values |= {"moves_from": move.moves_from, "moves_to": move.moves_to}
    if notes.shown:
        values["status"] = notes.shown
    statuses.change(tx, notes.volume_id, allowed=("in-use",), now=run.now(), **values)


def come_back(tx: Session, notes: MigrateInUse, run: Run[Volume]) -> None:
    """Say that the volume is where it was, and forget the copy."""
    now = run.now()
    copy_rows.come_back(tx, notes.volume_id, notes.move, now, migration_status="error")
    copy_rows.let_rest(tx, notes.volume_id, notes.shown, now)


async def make_copy(notes: MigrateInUse, run: Run[Volume]) -> None:
    """Make the copy, empty, in a file that has the volume's name.

    Raises Conflict where the host's agent does not know how to: one of an earlier release.
    """
    move = notes.move
    agent = await backends.agent_of(run, move.target)
    spec = VolumeSpec(
        pool=backends.split(move.moves_to)[2], size_gib=notes.size_gib, becomes=notes.volume_id
    )
    made = await agent.put_volume(move.copy_id, spec, operation=run.operation)
    if made.becomes != notes.volume_id:
        raise Conflict(
            f"The agent of host {move.target} makes no copies for volumes in use. The volume is "
            "where it was; upgrade that host first, or detach the volume."
        )


async def remove_copy(notes: MigrateInUse, run: Run[Volume]) -> None:
    """Remove it, and end what it is exported for."""
    await copies.remove(run, notes.move)


def offer_copy(tx: Session, notes: MigrateInUse, run: Run[Volume]) -> None:
    """Let compute have the copy, and remember by which operation."""
    copy_rows.offer(tx, notes.move, f"{run.saga_id}.{ASK}", run.now())


async def ask_compute(notes: MigrateInUse, run: Run[Volume]) -> None:
    """Ask compute to copy the volume under its guest, which then goes on with the copy."""
    await swaps.ask(run, notes.server_id, notes.volume_id, notes.move)


async def settle_swap(notes: MigrateInUse, run: Run[Volume]) -> Together | None:
    """In a bad end: see which of the two the guest has, and let nobody complete any more."""
    if notes.switched:
        return None
    move, volume_id, now = notes.move, notes.volume_id, run.now()
    await swaps.give_up(run, volume_id, move, f"{run.saga_id}.{ASK}")
    closing = run.service.store.write(lambda tx: copy_rows.close(tx, volume_id, move, now))
    return Together(lambda _: None, replace(notes, switched=await closing))


async def remove_refused(notes: MigrateInUse, run: Run[Volume]) -> None:
    """In a bad end: remove the copy that no guest has."""
    if not notes.switched:
        await copies.remove(run, notes.move)


def show_outcome(tx: Session, notes: MigrateInUse, run: Run[Volume]) -> None:
    """In a bad end: say that the volume has arrived after all, or that it is where it was."""
    (show_success if notes.switched else come_back)(tx, notes, run)


async def await_completion(notes: MigrateInUse, run: Run[Volume]) -> MigrateInUse:
    """Rest until compute has said how it went."""
    await swaps.wait(run, notes.server_id, notes.volume_id, notes.move)
    return replace(notes, switched=True)


async def adopt_copy(notes: MigrateInUse, run: Run[Volume]) -> None:
    """Give the copy the volume's id at its host, where what the volume was goes."""
    if notes.switched:
        await copies.adopt(run, notes.volume_id, notes.move)


async def renew_connections(notes: MigrateInUse, run: Run[Volume]) -> Together | None:
    """Let whoever connects the volume from now on ask for it by its own id."""
    if not notes.switched:
        return None
    return await arrival.renew(run, notes.volume_id, notes.move.target)


def show_success(tx: Session, notes: MigrateInUse, run: Run[Volume]) -> None:
    """Say that it has arrived."""
    now, values = run.now(), {"migration_status": "success", **copies.NONE}
    statuses.change(tx, notes.volume_id, allowed=None, now=now, **values)
    copy_rows.let_rest(tx, notes.volume_id, notes.shown, now)


async def remove_former(notes: MigrateInUse, run: Run[Volume]) -> None:
    """Remove what the volume was at another host; where that sees the new one, it stays."""
    if notes.switched:
        await arrival.remove_former(run, notes.volume_id, notes.move)


async def give_up_former(notes: MigrateInUse, run: Run[Volume]) -> None:
    """Remove what the volume was at another host, once whoever has absorbed this let it arrive."""
    move, volume_id = notes.move, notes.volume_id
    if not move.is_far:
        return
    await copies.await_adoption(run, volume_id, move)
    if await arrival.has_come(run, volume_id, move):
        await arrival.remove_former(run, volume_id, move, has_lock=False)
