"""The copy that a migration makes, as the volume's row tells of it: for all who may end it.

Until `backend` is the pool that it moves to, the volume is what it was, and the copy is to be
removed; from then on the copy is the volume, and only has still to get its id from its host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mooring.agent_api.volumes import AdoptRequest
from mooring.errors import NotFound, Unavailable
from mooring.saga.define import Together
from mooring.volume.backends import backends
from mooring.volume.migration import arrival
from mooring.volume.tables import VolumeRow
from mooring.volume.volumes import statuses

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.orm import Session

    from mooring.saga.define import Run
    from mooring.volume.service import Volume

NONE: dict[str, Any] = {"copy_id": None, "moves_from": None, "moves_to": None}
"""The columns of a volume that goes nowhere."""


class Move(Struct, frozen=True):
    """From which pool to which, by their full names, and the id of the copy."""

    copy_id: str
    moves_from: str
    moves_to: str

    @property
    def source(self) -> str:
        """The host that has the volume at first."""
        return backends.split(self.moves_from)[0]

    @property
    def target(self) -> str:
        """The host that has it in the end."""
        return backends.split(self.moves_to)[0]

    @property
    def is_far(self) -> bool:
        """Whether these are two hosts: what the one copies is then carried to the other one."""
        return self.source != self.target


def find(row: VolumeRow) -> Move | None:
    """Return the move of a volume that is on its way, or has not wholly arrived."""
    if row.copy_id is None or row.moves_from is None or row.moves_to is None:
        return None
    return Move(row.copy_id, row.moves_from, row.moves_to)


def has_switched(row: VolumeRow) -> bool:
    """Whether the copy is the volume by now, and there is no way back."""
    return row.moves_to is not None and row.moves_to == row.backend


def word_of(asked: str) -> str | None:
    """Return what is stored for a migration status that is asked for: `none` stands for none."""
    return None if asked == "none" else asked


async def adopt(run: Run[Volume], volume_id: str, move: Move) -> None:
    """Let the copy have the volume's id at its host, where what the volume was goes."""
    agent = await backends.agent_of(run, move.target)
    former = "" if move.is_far else backends.split(move.moves_from)[2]
    wanted = AdoptRequest(backends.split(move.moves_to)[2], former)
    await agent.adopt_copy(volume_id, move.copy_id, wanted, operation=run.operation)


async def await_adoption(run: Run[Volume], volume_id: str, move: Move) -> None:
    """Raise Unavailable while a volume waits for this copy of it to get its id."""
    # The saga's own volume; it acts for nobody.
    row = await run.service.store.read(lambda tx: tx.get(VolumeRow, volume_id))
    if row is not None and row.copy_id == move.copy_id:
        raise Unavailable(
            f"The copy in {move.moves_to} has not got the id of volume {volume_id} yet. What the "
            f"volume was in {move.moves_from} stays until then; reset the volume's status again "
            f"when host {move.target} answers."
        )


def end(tx: Session, row: VolumeRow, now: datetime) -> Move | None:
    """End a migration that was absorbed; return one that can only go on.

    What that one owes is its own affair: a copy that is not the volume it removes itself.
    """
    move = find(row)
    if move is None or has_switched(row):
        return move
    # Of one in use nobody knows yet what its guest has.
    left = {} if tx.get(VolumeRow, move.copy_id) is not None else NONE
    _change(tx, row.id, now, {"migration_status": "error", **left})
    return None


async def arrive(
    run: Run[Volume], volume_id: str, move: Move, *, shown: str, was_deleting: bool
) -> Together:
    """Go on with a migration that was absorbed behind its switch; `shown` is its status then.

    `was_deleting`: a deletion that was given up may have removed the volume and its copy.
    """
    values: dict[str, Any] = {"migration_status": word_of(shown or "success"), **NONE}
    now, renewed = run.now(), None
    try:
        await adopt(run, volume_id, move)
        renewed = await arrival.renew(run, volume_id, move.target)
    except NotFound:
        if not was_deleting:
            raise
        values |= {"status": "error_deleting", **statuses.RETURNED}

    def show(tx: Session) -> None:
        if renewed is not None:
            renewed.write(tx)
        _change(tx, volume_id, now, values)

    return Together(show)


def _change(tx: Session, volume_id: str, now: datetime, values: dict[str, Any]) -> None:
    statuses.change(tx, volume_id, allowed=None, now=now, **values)


async def remove(run: Run[Volume], move: Move) -> None:
    """Remove the copy from its pool, whole or not, and end what it is exported for."""
    agent = await backends.agent_of(run, move.target)
    copy = await agent.show_volume(move.copy_id)
    for attachment_id in copy.exports if copy else ():
        await agent.unexport_volume(move.copy_id, attachment_id, operation=run.operation)
    await agent.delete_volume(move.copy_id, operation=run.operation)
