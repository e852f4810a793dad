"""The copy that a migration makes, as the volume's row tells of it: for all who may end it.

Until `backend` is the pool that it moves to, the volume is what it was, and the copy is to be
removed; from then on the copy is the volume, and only has still to get its id from its host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mooring.agent_api.volumes import AdoptRequest
from mooring.volume.backends import backends

if TYPE_CHECKING:
    from mooring.saga.define import Run
    from mooring.volume.service import Volume
    from mooring.volume.tables import VolumeRow

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


async def adopt(run: Run[Volume], volume_id: str, move: Move) -> None:
    """Let the copy have the volume's id at its host, where what the volume was goes."""
    agent = await backends.agent_of(run, move.target)
    former = "" if move.is_far else backends.split(move.moves_from)[2]
    wanted = AdoptRequest(backends.split(move.moves_to)[2], former)
    await agent.adopt_copy(volume_id, move.copy_id, wanted, operation=run.operation)


async def remove(run: Run[Volume], move: Move) -> None:
    """Remove the copy from its pool, whole or not."""
    agent = await backends.agent_of(run, move.target)
    await agent.delete_volume(move.copy_id, operation=run.operation)
