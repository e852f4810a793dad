"""Move a server to another host while it runs (specs 001, facts/compute.md 4.8).

Until the guest is sent, a failure undoes what was made ready, and where it was the destination's
another one is tried. From then on only the two hosts can tell where it is, so there is only
forward: it is seen where the guest is, and the other host is left, which is the source's after a
move and the destination's after one that came to nothing.

A root disk on its host goes along with the guest's memory (block migration), and so does a swap
disk: there are two until then, and whichever host is left loses its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.groups import affinity
from mooring.compute.moves import migrations, turns
from mooring.compute.moves.sagas import claiming, elsewhere, leaving, preparing, sending
from mooring.compute.moves.sagas.both_places import BOTH_PLACES
from mooring.compute.moves.sagas.move_notes import LiveMigrate
from mooring.compute.moves.sagas.telling import EVENT, STORY
from mooring.compute.servers import states
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import Again, Run, Saga, Step, exclusive, shared

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


def begin_move(tx: Session, notes: LiveMigrate, run: Run[Compute]) -> None:
    """Say that the move has begun."""
    states.move(tx, notes.server_id, "migrating", run.now())
    migrations.change(tx, notes.migration_id, run.now(), status=turns.QUEUED)


def give_back(tx: Session, notes: LiveMigrate, run: Run[Compute]) -> None:
    """Give the server its state back: it never left."""
    states.move(tx, notes.server_id, None, run.now())
    if notes.group_id:
        affinity.leave_place(tx, notes.server_id)
    row = migrations.find(tx, notes.migration_id)
    is_aborted = row is not None and row.asked == migrations.ABORT
    status = "cancelled" if is_aborted else "error"
    where = notes.last_destination
    migrations.change(tx, notes.migration_id, run.now(), status=status, destination=where)
    turns.pass_on(tx, run.service, notes.source)


LIVE_MIGRATE = Saga(
    "compute.live_migrate",
    LiveMigrate,
    Step("begin_move", begin_move, undo=give_back),
    Step("hold_source", claiming.hold_source, undo=claiming.settle_claim),
    Step("claim_destination", claiming.claim_destination, undo=claiming.leave_destination),
    Step("save_destination", claiming.save_destination),
    Step("await_turn", preparing.await_turn),
    Step(
        "prepare_destination",
        preparing.prepare_destination,
        undo=leaving.turn_away,
        undo_attempts=COMPUTE_UNDO_ATTEMPTS,
        deadline_s=900.0,
    ),
    BOTH_PLACES,
    Step("begin_sending", sending.begin_sending),
    Step("send_guest", sending.send_guest, deadline_s=600.0),
    *leaving.LEAVING,
    locks=lambda notes: [
        exclusive(f"server:{notes.server_id}"),
        # Servers that share a volume move at once: while the volume is given to one of them, its
        # status keeps the others back.
        *(shared(f"volume:{disk.volume_id}") for disk in notes.disks),
    ],
    pivot="send_guest",
    failed_end=leaving.BAD_END,
    undo_ends=leaving.BAD_END,
    owes=(Step("release_source", claiming.release_owed, may_be_forgone=True),),
    residue=("faults", "instance_actions", "migrations"),
    again=Again(
        "claim_destination",
        elsewhere.try_elsewhere,
        told=elsewhere.tell(EVENT, status=turns.QUEUED),
    ),
    story=STORY,
)
