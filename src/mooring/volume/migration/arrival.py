"""How a volume arrives whose copy a guest has by now: its connections, and what it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select, update

from mooring.saga.define import Together
from mooring.saga.ownership import as_of_now
from mooring.volume.attachments import connections, sharing
from mooring.volume.backends import backends
from mooring.volume.migration import carrying
from mooring.volume.tables import AttachmentRow, VolumeRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.saga.define import Run
    from mooring.volume.migration.copies import Move
    from mooring.volume.service import Volume


async def renew(run: Run[Volume], volume_id: str, host: str) -> Together:
    """Let the connections of a volume name it, and no copy, where they lead to the same place."""
    agent = await backends.agent_of(run, host)
    query = select(AttachmentRow.id, AttachmentRow.connector).where(
        AttachmentRow.volume_id == volume_id, AttachmentRow.connection.is_not(None)
    )
    rows = await run.service.store.read(lambda tx: tx.execute(query).all())
    sealed: dict[str, bytes] = {}
    for attachment_id, connector in rows:
        info = await agent.export_volume(
            volume_id, attachment_id, connector or {}, operation=run.operation
        )
        named = await sharing.name_backend(run, volume_id, info)
        sealed[attachment_id] = connections.seal(run.service.sealer, named)
    return Together(lambda tx: _keep(tx, sealed))


def _keep(tx: Session, sealed: dict[str, bytes]) -> None:
    for attachment_id, connection in sealed.items():
        # One that was ended meanwhile has none.
        mine = update(AttachmentRow).where(
            AttachmentRow.id == attachment_id, AttachmentRow.connection.is_not(None)
        )
        tx.execute(mine.values(connection=connection))


async def remove_former(
    run: Run[Volume], volume_id: str, move: Move, *, has_lock: bool = True
) -> None:
    """Remove what the volume was at another host, and end its exports: no attachment names them.

    Of one that somebody has begun to end since, and the storage kept, nobody knows any more: who
    has the lock of the volume asks as of now. Who lost it is refused whatever came later.
    """
    if not move.is_far or not await carrying.are_apart(run, move):
        return
    operation = run.operation
    if has_lock:
        operation = await run.service.store.write(lambda tx: as_of_now(tx, run))
    agent = await backends.agent_of(run, move.source)
    former = await agent.show_volume(volume_id)
    for attachment_id in former.exports if former else ():
        await agent.unexport_volume(volume_id, attachment_id, operation=operation)
    await agent.delete_volume(volume_id, operation=operation)


async def has_come(run: Run[Volume], volume_id: str, move: Move) -> bool:
    """Whether a volume is in its new pool, or gone: nobody needs what it was before."""
    # For sagas of the volume alone.
    row = await run.service.store.read(lambda tx: tx.get(VolumeRow, volume_id))
    return row is None or row.backend == move.moves_to
