"""Volumes that go with their server.

One that is on its way to another pool, or grows, when its server lets go of it goes as soon as that
has ended: the volume service says that it is busy (facts/block_storage.md 1.6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.delete.sagas.delete_notes import DeleteServer, find
from mooring.errors import Invalid, MooringError, NotFound, Unavailable
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from mooring.clients.volume import Volume
    from mooring.compute.service import Compute
    from mooring.saga.define import Run

_SETTLES_S = 600.0
"""For how long one waits that a volume service which knows no operations only refuses: it has been
told of the server's end, and does not say whether anything goes on."""
_AT_REST = frozenset({None, "", "none", "success", "error"})
_CHANGING = frozenset({"extending", "retyping"})


async def delete(notes: DeleteServer, item: str, run: Run[Compute]) -> DeleteServer | None:
    """Delete a volume that was to go with its server; one that cannot be deleted is kept."""
    old = find(notes, item)
    if not old.delete_too:
        return None
    try:
        await run.service.volumes.delete(None, old.volume_id, operation=run.operation)
    except MooringError as error:
        if is_unavailable(error):
            raise
        if isinstance(error, Invalid) and await _may_settle(old.volume_id, run):
            raise Unavailable(error.public, private=error.private) from error
        # One that goes with its server is an item by its own id.
        return replace(notes, kept=[*notes.kept, f"Volume {item} was kept: {error.public}"])
    return None


async def _may_settle(volume_id: str, run: Run[Compute]) -> bool:
    """Whether what keeps a volume may pass by itself, and was not waited for too long."""
    if run.worked_s >= _SETTLES_S:
        return False
    try:
        return _is_changing(await run.service.volumes.show(None, volume_id))
    except NotFound:
        return False


def _is_changing(volume: Volume) -> bool:
    return volume.status in _CHANGING or volume.migration_status not in _AT_REST
