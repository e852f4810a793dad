"""Take a move back: the guest starts where it was before, as large as it was (specs 001).

The host that it left still has its volumes; those that were attached since are given to it first.
Each is connected anew by its attachment, as it may have grown. A root disk on its host is there as
it was when the server left, or beside the one that has grown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.moves import migrations
from mooring.compute.moves.sagas import claiming, root_disk, sharing, switching, verifying
from mooring.compute.moves.sagas.both_places import BOTH_PLACES
from mooring.compute.moves.sagas.cold_migrate import locks_of
from mooring.compute.moves.sagas.cold_telling import REVERTED
from mooring.compute.moves.sagas.leaving import LEFT
from mooring.compute.moves.sagas.move_notes import ColdMove
from mooring.compute.servers import states
from mooring.saga.define import Run, Saga, Step

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


def begin_revert(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    """Say that the server goes back."""
    states.move(tx, notes.server_id, "resize_reverting", run.now())
    migrations.change(tx, notes.migration_id, run.now(), status="reverting")


REVERT_RESIZE = Saga(
    "compute.revert_resize",
    ColdMove,
    Step("begin_revert", begin_revert, undo=verifying.give_back),
    BOTH_PLACES,
    sharing.SHARED_AGAIN,
    Step("stop_guest", switching.stop_guest, deadline_s=700.0),
    Step("bring_disk", root_disk.bring_back, deadline_s=900.0),
    Step("start_there", switching.start_there, deadline_s=900.0),
    Step("settle_guest", switching.settle_guest, deadline_s=900.0),
    Step("place_server", verifying.place_server),
    Step("drop_guest", verifying.drop_guest),
    LEFT,
    sharing.LEFT_SHARED,
    Step("settle_claim", verifying.settle_claim),
    Step("record_end", verifying.record_end),
    locks=locks_of,
    pivot="stop_guest",
    failed_end=verifying.BAD_END,
    undo_ends=verifying.BAD_END,
    owes=(Step("release_source", claiming.release_owed, may_be_forgone=True),),
    residue=("faults", "instance_actions", "migrations"),
    story=REVERTED,
)
