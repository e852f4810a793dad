"""A move that nobody ends any more, for whoever took its server over: a deletion, or a reset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.groups import affinity
from mooring.compute.hosts import guests
from mooring.compute.moves import migrations, turns
from mooring.compute.servers import states

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.compute.tables import Migration
    from mooring.saga.define import Run


def hosts_of(left: Migration | None) -> set[str]:
    """Return the hosts between which a move was; the second may not have been found yet."""
    return {left.source, left.destination or ""} - {""} if left else set()


def end(tx: Session, compute: Compute, server_id: str, now: datetime) -> None:
    """Say that a server moves no more, nor goes back, and pass its turn on.

    At the end of who took it over, and not before: a reset in its place is to see where the guest
    is. What its user would have confirmed or reverted counts as confirmed.
    """
    left = migrations.left_over(tx, server_id)
    if left is None:
        return
    migrations.change(tx, left.id, now, status=migrations.ended_without_word(left.status))
    states.change(tx, server_id, now, held_vcpus=0, held_memory_mib=0)
    affinity.leave_place(tx, server_id)
    for host in hosts_of(left):
        turns.pass_on(tx, compute, host)


async def release(run: Run[Compute], moves: Sequence[str]) -> None:
    """Give back what placement holds in the name of moves."""
    for move in moves:
        await run.service.placement.release(move, operation=guests.other(run.operation, "move"))
