"""Create a volume: find a pool, bring the image there when there is one, make it.

The request was answered when the row was written; a failure leaves the volume in `error`, with a
message for its owner, and nothing in the storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from mooring.agent_api.volumes import VolumeSpec
from mooring.errors import NoCapacity
from mooring.saga.define import (
    Each,
    Former,
    Lock,
    Mode,
    Run,
    Saga,
    Step,
    Together,
    exclusive,
    shared,
)
from mooring.saga.ownership import require_lease
from mooring.store.prepared import Change, Prepared
from mooring.volume.backends import backends, placing
from mooring.volume.tables import TypeRow, VolumeRow
from mooring.volume.volumes import filling, statuses
from mooring.volume.volumes.sagas.asker import ASKER
from mooring.volume.volumes.sagas.create_notes import CreateVolume
from mooring.volume.volumes.story import Failure, tell

if TYPE_CHECKING:
    from mooring.volume.service import Volume


_placed = Prepared[tuple[str | None, str, bool, dict[str, str]]](
    select(VolumeRow.backend, VolumeRow.zone, VolumeRow.multiattach, TypeRow.extra_specs)
    .join(TypeRow, TypeRow.id == VolumeRow.volume_type_id)
    .where(VolumeRow.id == bindparam("of_id"))
)
_place = Change(VolumeRow)


async def schedule(notes: CreateVolume, run: Run[Volume]) -> Together:
    """Give the volume a pool; from now on it counts there, and its image is being copied.

    Not in the transaction of the request, which is answered whether there is room or not.
    """
    placed = await run.service.store.write(lambda tx: _place_volume(tx, notes, run))
    return Together(lambda tx: _show_downloading(tx, notes, run), placed)


def _place_volume(tx: Session, notes: CreateVolume, run: Run[Volume]) -> CreateVolume:
    # One whose creation has failed by now lies nowhere, and is to stay so.
    require_lease(tx, run)
    tx.flush()
    [(backend, zone, multiattach, extra_specs)] = _placed.all(tx, of_id=notes.volume_id)
    wanted = backends.Wanted(
        size_gib=notes.size_gib,
        zone=zone,
        multiattach=multiattach,
        extra_specs=extra_specs,
        pool=notes.backend,
        reached_by=notes.reached_by,
    )
    if backend is None:
        backend = placing.choose(tx, wanted, run.service.settings, run.now()).name
        _place(tx, notes.volume_id, {"backend": backend})
    host, _, pool = backends.split(backend)
    return replace(notes, host=host, pool=pool, format=wanted.format)


def show_error(tx: Session, notes: CreateVolume, run: Run[Volume]) -> None:
    """Put the volume into `error`, which lies nowhere any more."""
    row = tx.get(VolumeRow, notes.volume_id)
    if row is None:
        return
    row.backend = None
    statuses.change(
        tx,
        notes.volume_id,
        allowed=("creating", "downloading", *statuses.BORROWED),
        now=run.now(),
        status="error",
        **statuses.RETURNED,
    )


def _show_downloading(tx: Session, notes: CreateVolume, run: Run[Volume]) -> None:
    if notes.image_id:
        statuses.change(
            tx, notes.volume_id, allowed=("creating",), now=run.now(), status="downloading"
        )


async def make_volume(notes: CreateVolume, run: Run[Volume]) -> None:
    """Make it in its pool, empty or filled; a volume that is there already is fine."""
    agent = await backends.agent_of(run, notes.host)
    if notes.image is not None:
        await filling.bring_image(run, agent, notes.image_id, notes.image)
    spec = VolumeSpec(
        pool=notes.pool,
        size_gib=notes.size_gib,
        image_id=notes.image_id,
        snapshot=notes.snapshot,
        source_volume=notes.source_volume,
        format=notes.format,
    )
    making = agent.put_volume(notes.volume_id, spec, operation=run.operation)
    await filling.follow(run, agent, notes.volume_id, making)


def leave_in_error(tx: Session, notes: CreateVolume, run: Run[Volume]) -> None:
    """Say that nothing comes of a copy whose source another operation took; delete it."""
    before, now = ("creating", "downloading", *statuses.BORROWED), run.now()
    values = {"status": "error", **statuses.RETURNED}
    statuses.change(tx, notes.volume_id, allowed=before, now=now, **values)


async def remove_made(notes: CreateVolume, run: Run[Volume]) -> None:
    """Remove what was made of it, unless somebody has made a sound volume of that."""
    row = await run.service.store.read(lambda tx: tx.get(VolumeRow, notes.volume_id))
    if notes.host and (row is None or row.status == "error"):
        await remove_volume(notes, run)


async def remove_volume(notes: CreateVolume, run: Run[Volume]) -> None:
    """Remove what was made of it."""
    agent = await backends.agent_of(run, notes.host)
    await agent.delete_volume(notes.volume_id, operation=run.operation)


def show_available(tx: Session, notes: CreateVolume, run: Run[Volume]) -> None:
    """Tell that the volume is ready. One that was reserved meanwhile stays so."""
    now = run.now()
    values: dict[str, Any] = {"launched_at": now}
    if notes.image_id:
        values |= {"bootable": True, "image_metadata": notes.image_metadata}
    statuses.change(tx, notes.volume_id, allowed=None, now=now, **values)
    statuses.change(
        tx, notes.volume_id, allowed=("creating", "downloading"), now=now, status="available"
    )


def _explain(row: VolumeRow, notes: CreateVolume, run: Run[Volume]) -> Failure:
    del row
    if isinstance(run.error, NoCapacity) and not notes.host:
        why = run.error.public
        return Failure("schedule", "no_backend", unplaced="create_volume", why=why)
    return Failure("image" if notes.image_id and notes.host else "create", "driver")


def _locks(notes: CreateVolume) -> Sequence[Lock]:
    mine = exclusive(f"volume:{notes.volume_id}")
    if notes.source_volume:
        return mine, exclusive(f"volume:{notes.source_volume}")
    # The files of the snapshot stay as they are while they are read.
    return (mine, shared(f"volume:{notes.snapshot.volume_id}")) if notes.snapshot else (mine,)


def _define(name: str, *told: Each, mode: Mode = "wait") -> Saga[CreateVolume]:
    copies = not told
    return Saga(
        name,
        CreateVolume,
        Step("schedule", schedule, undo=show_error),
        Step("make_volume", make_volume, undo=remove_volume, deadline_s=3600.0),
        Step("show_available", show_available),
        *told,
        version=2,
        locks=_locks,
        mode=mode,
        visible_after="show_available",
        pivot="wake_asker" if told else "",
        residue=("volumes", "messages"),
        owes=(Step("remove_made", remove_made, may_be_forgone=True, until_taken=True),)
        if copies
        else (),
        story=tell(
            begun="create.start",
            ended="create.end",
            explain=_explain,
            absorbed=leave_in_error if copies else None,
        ),
        former=Former(steps={"show_downloading": "schedule"}),
    )


CREATE_VOLUME = _define("volume.create_volume", ASKER, mode="refuse")
CLONE_VOLUME = _define("volume.clone_volume")
# Another snapshot of the same volume may be on its way: the new volume waits for it.
CREATE_VOLUME_FROM_SNAPSHOT = _define("volume.create_volume_from_snapshot")
