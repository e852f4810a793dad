"""Give a volume the content of its newest snapshot again (facts/block_storage.md 1.6).

Its host puts a new, empty overlay in the place of the one that has taken all writes since, or,
where the snapshot is a copy, a copy of that in the place of the volume's file: the volume has
either content, and never a part of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring.errors import MooringError, told_also
from mooring.saga.define import Run, Saga, Step, exclusive, may_be_repeated
from mooring.volume.backends import backends
from mooring.volume.volumes import filling, statuses
from mooring.volume.volumes.story import Failure, tell

if TYPE_CHECKING:
    from mooring.volume.service import Volume
    from mooring.volume.tables import VolumeRow

REVERTING = "reverting"
_REVERT = "revert_content"
_UNSURE = "unsure"
"""In the detail of a refusal: that a try before it may have done all the same."""
_REFUSED = frozenset({"conflict", "invalid", "no_capacity", "not_found"})
"""Kinds of errors by which a host says that it has changed nothing."""


class RevertVolume(Struct, frozen=True, kw_only=True):
    """The notes. `reverted`: whether the volume may have the snapshot's content by now."""

    volume_id: str
    snapshot_id: str
    backend: str
    reverted: bool = False


def begin_reverting(tx: Session, notes: RevertVolume, run: Run[Volume]) -> None:
    """Show it."""
    now = run.now()
    statuses.change(tx, notes.volume_id, allowed=("available",), now=now, status=REVERTING)


def come_back(tx: Session, notes: RevertVolume, run: Run[Volume]) -> None:
    """Say that the volume is as it was, or in `error` where nobody knows which content it has."""
    status = "error" if notes.reverted else "available"
    statuses.change(tx, notes.volume_id, allowed=(REVERTING,), now=run.now(), status=status)


async def revert_content(notes: RevertVolume, run: Run[Volume]) -> None:
    """Have the host put the new file in place."""
    agent = await backends.agent_of(run, backends.split(notes.backend)[0])
    names = notes.volume_id, notes.snapshot_id
    try:
        reverting = agent.revert_volume(*names, operation=run.operation)
        await filling.follow(run, agent, notes.volume_id, reverting)
    except MooringError as error:
        if may_be_repeated(run):
            # A try before this one, which was not answered, may have done it.
            raise told_also(error, **{_UNSURE: True}) from error
        raise


async def end_reverting(notes: RevertVolume, run: Run[Volume]) -> RevertVolume | None:
    """See that nothing comes late. Only a clear refusal says that nothing was changed."""
    agent = await backends.agent_of(run, backends.split(notes.backend)[0])
    await agent.forget_revert(notes.volume_id, notes.snapshot_id, operation=run.operation)
    error = run.error
    refused = error is not None and error.kind in _REFUSED and not error.detail.get(_UNSURE)
    return None if refused else replace(notes, reverted=True)


async def forget_revert(notes: RevertVolume, run: Run[Volume]) -> None:
    """See that nothing comes late, once another operation has the volume."""
    agent = await backends.agent_of(run, backends.split(notes.backend)[0])
    reverting = run.operation.of_step(_REVERT)
    await agent.forget_revert(notes.volume_id, notes.snapshot_id, operation=reverting)


def show_available(tx: Session, notes: RevertVolume, run: Run[Volume]) -> None:
    """Tell that the volume has the snapshot's content."""
    now = run.now()
    statuses.change(tx, notes.volume_id, allowed=(REVERTING,), now=now, status="available")


def _explain(row: VolumeRow, notes: RevertVolume, run: Run[Volume]) -> Failure:
    del row, notes, run
    return Failure("revert", "unknown")


REVERT_VOLUME = Saga(
    "volume.revert_volume",
    RevertVolume,
    Step("begin_reverting", begin_reverting, undo=come_back),
    Step(_REVERT, revert_content, undo=end_reverting, deadline_s=3600.0),
    Step("show_available", show_available),
    locks=lambda notes: (exclusive(f"volume:{notes.volume_id}"),),
    visible_after="show_available",
    pivot="show_available",
    owes=(Step("forget_revert", forget_revert, may_be_forgone=True),),
    # The volume itself goes over to those in `error`.
    residue=("volumes", "sound_volumes", "messages"),
    story=tell(
        begun="revert.start",
        ended="revert.end",
        explain=_explain,
    ),
)
