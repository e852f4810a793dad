"""A move whose destination cannot take the server goes to another one (facts/compute.md 4.8).

Only until the guest is to leave: everything at the first destination is taken back before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from mooring.compute.actions.story import begin_anew
from mooring.compute.moves import migrations
from mooring.compute.moves.sagas.move_notes import ColdMove, Move
from mooring.compute.scheduling import tried

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.saga.define import Run

M = TypeVar("M", bound=Move)


def try_elsewhere(notes: M, run: Run[Compute]) -> M | None:
    """Return the notes to try another host with, once nothing is left on the one that failed.

    None where none may be taken, or enough were tried, or it was not the destination's fault.
    """
    if notes.destination == notes.source:
        return None
    so_far = tried.one_more(notes.tried, run.error, notes.destination, notes.wished_host)
    if so_far is None:
        return None
    disks = [replace(disk, made="") for disk in notes.disks]
    afresh = replace(notes, destination="", zone="", disks=disks, tried=so_far)
    return replace(afresh, owed=[]) if isinstance(afresh, ColdMove) else afresh


def tell(event: str, **values: str) -> Callable[[Session, Move, Run[Compute]], None]:
    """Return what is told of the turn: the event ended badly, and another one of its name began.

    `values` are columns of the migration, which has no destination for now.
    """

    def told(tx: Session, notes: Move, run: Run[Compute]) -> None:
        begin_anew(tx, notes, run, event, notes.source)
        migrations.change(tx, notes.migration_id, run.now(), destination=None, **values)

    return told
