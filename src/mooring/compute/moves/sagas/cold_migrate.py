"""Move a server to another host, or give it another size, while it is off (specs 001).

Both hosts have its disks until its user confirms the move or takes it back. Until the guest is to
stop, a failure undoes what was made ready, and where it was the destination's another one is tried;
then there is only forward, and a guest that does not start at the destination goes on where it was
(facts/compute.md 4.9).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.moves import migrations
from mooring.compute.moves.sagas import (
    claiming,
    elsewhere,
    root_disk,
    sharing,
    switching,
    verifying,
)
from mooring.compute.moves.sagas.both_places import BOTH_PLACES
from mooring.compute.moves.sagas.cold_telling import MOVED, PREPARING
from mooring.compute.moves.sagas.leaving import LEFT
from mooring.compute.moves.sagas.move_notes import ColdMove, Move
from mooring.compute.servers import states
from mooring.saga.define import Again, Lock, Run, Saga, Step, exclusive, shared

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


def begin_move(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    """Say that the move is being made ready."""
    states.move(tx, notes.server_id, "resize_prep", run.now())
    migrations.change(tx, notes.migration_id, run.now(), status="pre-migrating")


def locks_of(notes: Move) -> list[Lock]:
    """Return what such a move holds: the server, and its volumes beside other servers' moves."""
    volumes = [shared(f"volume:{disk.volume_id}") for disk in notes.disks]
    return [exclusive(f"server:{notes.server_id}"), *volumes]


COLD_MIGRATE = Saga(
    "compute.cold_migrate",
    ColdMove,
    Step("begin_move", begin_move, undo=verifying.give_back),
    Step("hold_source", claiming.hold_source, undo=claiming.return_claim),
    Step("claim_destination", claiming.claim_for_size, undo=claiming.leave_destination),
    Step("save_destination", claiming.save_destination),
    BOTH_PLACES,
    sharing.BOTH_SHARED,
    Step("begin_switch", switching.begin_switch),
    Step("stop_guest", switching.stop_guest, deadline_s=700.0),
    Step("begin_start", switching.begin_start),
    Step("bring_disk", root_disk.bring, deadline_s=900.0),
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
    again=Again("claim_destination", elsewhere.try_elsewhere, told=elsewhere.tell(PREPARING)),
    story=MOVED,
)
