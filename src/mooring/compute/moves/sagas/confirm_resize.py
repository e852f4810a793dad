"""Confirm a move: the host that the server left lets its disks and its room go (specs 001).

What it does not let go of stays attached, for an operator, and the server is in ERROR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.moves import migrations
from mooring.compute.moves.sagas import claiming, leaving, root_disk, sharing, verifying
from mooring.compute.moves.sagas.cold_migrate import locks_of
from mooring.compute.moves.sagas.cold_telling import CONFIRMED
from mooring.compute.moves.sagas.move_notes import ColdMove
from mooring.saga.define import Run, Saga, Step

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


def begin_confirm(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    """Say that the server stays; it shows that by its migration alone."""
    migrations.change(tx, notes.migration_id, run.now(), status="confirming")


CONFIRM_RESIZE = Saga(
    "compute.confirm_resize",
    ColdMove,
    Step("begin_confirm", begin_confirm),
    Step("forget_disk", root_disk.forget, deadline_s=900.0),
    leaving.LEFT,
    sharing.LEFT_SHARED,
    Step("settle_claim", claiming.settle_claim),
    Step("record_end", verifying.record_confirmed),
    locks=locks_of,
    pivot="begin_confirm",
    failed_end=verifying.BAD_END,
    owes=(Step("release_source", claiming.release_owed, may_be_forgone=True),),
    residue=("faults", "instance_actions", "migrations"),
    story=CONFIRMED,
)
