"""Bring a volume that nobody has to another pool (facts/block_storage.md 1.6).

A copy of it is made there under an id of its own. One transaction makes that copy the volume; then
it gets the volume's id from its host, and what the volume was goes. Where another host has the
pool, the volume's host captures it, and the control plane carries the capture there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.agent_api.volumes import VolumeSpec
from mooring.errors import Conflict
from mooring.saga.define import Run, Saga, Step, Story, exclusive
from mooring.volume.backends import backends
from mooring.volume.migration import carrying, copies
from mooring.volume.migration.sagas import arriving
from mooring.volume.migration.sagas.migrate_notes import MigrateVolume
from mooring.volume.volumes import filling, statuses
from mooring.volume.volumes.story import Notice

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.service import Volume

_CAPTURE, _CARRY, _COPY = "capture_volume", "carry_capture", "make_copy"


def begin_moving(tx: Session, notes: MigrateVolume, run: Run[Volume]) -> None:
    """Show it; from now on the volume counts in both pools."""
    move = notes.move
    values = {"migration_status": "migrating", "copy_id": move.copy_id}
    values |= {"moves_from": move.moves_from, "moves_to": move.moves_to}
    if notes.shown:
        values["status"] = notes.shown
    statuses.change(tx, notes.volume_id, allowed=("available",), now=run.now(), **values)


def come_back(tx: Session, notes: MigrateVolume, run: Run[Volume]) -> None:
    """Say that the volume is as it was."""
    values = {"migration_status": "error", **copies.NONE}
    statuses.change(tx, notes.volume_id, allowed=None, now=run.now(), **values)
    arriving.show_available(tx, notes.volume_id, notes.shown, run.now())


async def clear_target(notes: MigrateVolume, run: Run[Volume]) -> None:
    """See that the other host has nothing of the volume's id, and that no call for that is late.

    An earlier migration away from there may still owe it the removal of what the volume was then.
    """
    if notes.move.is_far:
        if not await carrying.are_apart(run, notes.move):
            raise Conflict(
                f"One host has the storage of both {notes.move.moves_from} and "
                f"{notes.move.moves_to}. The volume is as it was; choose another pool."
            )
        agent = await backends.agent_of(run, notes.move.target)
        await agent.delete_volume(notes.volume_id, operation=run.operation)


async def capture_volume(notes: MigrateVolume, run: Run[Volume]) -> None:
    """Have the volume's host copy it into one file, where another host is to have it."""
    if notes.move.is_far:
        await carrying.capture(run, notes.volume_id, notes.move)


async def remove_capture(notes: MigrateVolume, run: Run[Volume]) -> None:
    """Have it stop, and remove that file."""
    if notes.move.is_far:
        await carrying.remove_capture(run, notes.volume_id, notes.move, run.operation)


async def carry_capture(notes: MigrateVolume, run: Run[Volume]) -> None:
    """Bring that file to the other host."""
    if notes.move.is_far:
        await carrying.carry(run, notes.volume_id, notes.move)


async def remove_carried(notes: MigrateVolume, run: Run[Volume]) -> None:
    """Remove it there."""
    if notes.move.is_far:
        await carrying.remove_carried(run, notes.move, run.operation)


async def make_copy(notes: MigrateVolume, run: Run[Volume]) -> None:
    """Make the copy in the other pool, under an id of its own."""
    move = notes.move
    agent = await backends.agent_of(run, move.target)
    spec = VolumeSpec(
        pool=backends.split(move.moves_to)[2], size_gib=notes.size_gib, format=notes.format
    )
    if move.is_far:
        spec = replace(spec, image_id=move.copy_id)
    else:
        pool = backends.split(move.moves_from)[2]
        spec = replace(spec, source_volume=notes.volume_id, source_pool=pool)
    making = agent.put_volume(move.copy_id, spec, operation=run.operation)
    await filling.follow(run, agent, move.copy_id, making)


async def remove_copy(notes: MigrateVolume, run: Run[Volume]) -> None:
    """Remove it."""
    await copies.remove(run, notes.move)


def switch_pool(tx: Session, notes: MigrateVolume, run: Run[Volume]) -> MigrateVolume:
    """Make the copy the volume. Raises OverQuota, Conflict for what the new type has lost since."""
    arriving.switch(tx, notes, run.now())
    return replace(notes, switched=True)


def switch_back(tx: Session, notes: MigrateVolume, run: Run[Volume]) -> MigrateVolume:
    """Make the volume what it was: nobody has touched that."""
    arriving.switch_back(tx, notes, run.now())
    return replace(notes, switched=False)


async def adopt_copy(notes: MigrateVolume, run: Run[Volume]) -> None:
    """Give the copy the volume's id."""
    await copies.adopt(run, notes.volume_id, notes.move)


def show_success(tx: Session, notes: MigrateVolume, run: Run[Volume]) -> None:
    """Say that it has arrived."""
    values = {"migration_status": "success", **copies.NONE}
    statuses.change(tx, notes.volume_id, allowed=None, now=run.now(), **values)
    arriving.show_available(tx, notes.volume_id, notes.shown, run.now())


async def remove_former(notes: MigrateVolume, run: Run[Volume]) -> None:
    """Remove what the volume was at another host, and what was captured of it.

    Where that host sees the volume's own storage by now, what is left stays for the doctor.
    """
    if notes.move.is_far and await carrying.are_apart(run, notes.move):
        agent = await backends.agent_of(run, notes.move.source)
        await agent.delete_volume(notes.volume_id, operation=run.operation)


async def give_up_copy(notes: MigrateVolume, run: Run[Volume]) -> None:
    """Remove the copy that is not the volume, once another operation has that."""
    if not notes.switched:
        agent = await backends.agent_of(run, notes.move.target)
        operation = run.operation.of_step(_COPY)
        await agent.delete_volume(notes.move.copy_id, operation=operation)


async def give_up_carried(notes: MigrateVolume, run: Run[Volume]) -> None:
    """Remove what was brought, and see that nothing comes late."""
    if notes.move.is_far:
        operation = run.operation.of_step(_CARRY)
        await carrying.remove_carried(run, notes.move, operation)


async def give_up_capture(notes: MigrateVolume, run: Run[Volume]) -> None:
    """Remove what was captured, likewise."""
    if notes.move.is_far:
        operation = run.operation.of_step(_CAPTURE)
        await carrying.remove_capture(run, notes.volume_id, notes.move, operation)


async def give_up_former(notes: MigrateVolume, run: Run[Volume]) -> None:
    """Remove what the volume was at another host, once the copy is the volume there or both go.

    Whoever has absorbed this goes on with that; until then this is the only whole one.
    """
    if notes.switched:
        await copies.await_adoption(run, notes.volume_id, notes.move)
        await remove_former(notes, run)


MIGRATE_VOLUME = Saga(
    "volume.migrate_volume",
    MigrateVolume,
    Step("begin_moving", begin_moving, undo=come_back),
    Step("clear_target", clear_target),
    Step(_CAPTURE, capture_volume, undo=remove_capture, deadline_s=7500.0),
    Step(_CARRY, carry_capture, undo=remove_carried, deadline_s=7500.0),
    Step(_COPY, make_copy, undo=remove_copy, deadline_s=7500.0),
    Step("switch_pool", switch_pool, undo=switch_back),
    Step("adopt_copy", adopt_copy),
    Step("show_success", show_success),
    Step("drop_carried", give_up_carried, may_be_forgone=True),
    Step("remove_former", remove_former, may_be_forgone=True),
    locks=lambda notes: (exclusive(f"volume:{notes.volume_id}"),),
    visible_after="show_success",
    pivot="adopt_copy",
    owes=(
        Step("give_up_copy", give_up_copy, may_be_forgone=True, until_taken=True),
        Step("give_up_carried", give_up_carried, may_be_forgone=True, until_taken=True),
        Step("give_up_capture", give_up_capture, may_be_forgone=True, until_taken=True),
        Step("give_up_former", give_up_former, may_be_forgone=True, until_taken=True),
    ),
    # One that failed says so in its `migration_status`.
    residue=("volumes", "sound_volumes"),
    story=Story(ended=Notice("retype", lambda notes: bool(notes.type_id))),
)
