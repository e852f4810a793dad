"""Settle transitional statuses that a client of the API left behind.

A volume is `reserved`, `attaching` or `detaching` on behalf of whoever asked for it. When nothing
has happened to it for ten minutes, compute is asked whether the server still lists the volume:

- it does not: the attachment is deleted, its export ended, and the volume's status follows;
- it does, with this attachment: one that was connected is taken for attached, so that the user can
  detach it; a reservation that the server counts on (it is shelved, say) stays;
- it does, with another attachment: an empty one is deleted, because nobody knows it any more. One
  that is exported stays: a host may be using it, and who exported it will end it;
- nobody can tell: it is asked again later. Where that is so of many, a round ends, and the next one
  goes on behind them.

Source: facts/block_storage.md 1.10 and 2.9.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

import structlog
from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from mooring.errors import MooringError, NotFound
from mooring.volume.attachments import attachments
from mooring.volume.snapshots.loops.remove_leaving import remove_leaving
from mooring.volume.snapshots.loops.settle_snapshots import settle_snapshots
from mooring.volume.tables import AttachmentRow, VolumeRow
from mooring.volume.volumes import statuses

if TYPE_CHECKING:
    from mooring.volume.service import Volume

log = structlog.get_logger()
Finding = Literal["gone", "known", "other"]
_AT_ONCE = 100


async def settle_borrowed(volume: Volume) -> None:
    """Look for what was left behind again and again, until cancelled."""
    last = ""
    while True:
        try:
            last = await settle_from(volume, last)
        except MooringError as error:
            log.warning("left-behind statuses were not settled", error=str(error))
        await volume.clock.sleep(volume.settings.settle_interval_s)


async def settle_once(volume: Volume) -> None:
    """Settle what has been left behind for long enough, as far as one round goes."""
    await settle_from(volume, "")


async def settle_from(volume: Volume, last: str) -> str:
    """Settle what has been left behind for long enough, of attachments those behind `last`.

    Returns behind which attachment to go on; empty: from the first one.
    """
    before = volume.clock.now() - timedelta(seconds=volume.settings.borrowed_for_s)
    await settle_snapshots(volume, before)
    await remove_leaving(volume)
    for volume_id in await volume.store.read(lambda tx: _find_volumes(tx, before)):
        await volume.store.write(lambda tx, it=volume_id: _settle_volume(tx, volume, it, before))
    # What needs compute comes last: while that is silent each look takes its time.
    return await _settle_attachments(volume, before, last)


async def _settle_attachments(volume: Volume, before: datetime, last: str) -> str:
    """Settle attachments, until nobody can tell of so many; return behind which to go on."""
    in_vain = 0
    while found := await volume.store.read(lambda tx, last=last: _find(tx, before, last)):
        for row in found:
            last = row.id
            try:
                await _settle_attachment(volume, row, before)
            except MooringError as error:
                log.info("attachment is left for later", attachment=row.id, error=str(error))
                in_vain += 1
            if in_vain >= _AT_ONCE:
                return last
    return ""


def _find(tx: Session, before: datetime, last: str) -> list[AttachmentRow]:
    """Return attachments of servers that are, or whose volume is, borrowed since `before`.

    Some, in order of their ids, from behind the `last` one.
    """
    query = (
        select(AttachmentRow)
        .join(VolumeRow, VolumeRow.id == AttachmentRow.volume_id)
        .where(
            AttachmentRow.saga_id == "",
            AttachmentRow.server_id.is_not(None),
            AttachmentRow.id > last,
            or_(
                AttachmentRow.borrowed_at < before,
                (VolumeRow.status == "detaching") & (VolumeRow.borrowed_at < before),
            ),
        )
        .order_by(AttachmentRow.id)
        .limit(_AT_ONCE)
    )
    return list(tx.execute(query).scalars())


async def _settle_attachment(volume: Volume, row: AttachmentRow, before: datetime) -> None:
    finding = await _ask(volume, row)
    now = volume.clock.now()

    def settle(tx: Session) -> None:
        current = tx.get(AttachmentRow, row.id)
        if current is None or current.saga_id or _is_fresh(current, row):
            return
        empty = current.connection is None and not current.digest
        if finding == "gone" or (finding == "other" and empty):
            attachments.begin_deleting(tx, volume, None, current)
        elif finding == "known" and current.attach_status == "attaching":
            attachments.show_attached(tx, volume, current)
        elif current.borrowed_at is not None:
            # Asked again after the same time: what is true now may be wrong by then.
            current.borrowed_at = now
        _settle_volume(tx, volume, row.volume_id, before)

    await volume.sagas.submit(settle)
    log.info("left-behind attachment was settled", attachment=row.id, finding=finding)


async def _ask(volume: Volume, row: AttachmentRow) -> Finding:
    try:
        shown = await volume.compute.show_volume_attachment(
            None, row.server_id or "", row.volume_id
        )
    except NotFound:
        return "gone"
    return "known" if shown.attachment_id == row.id else "other"


def _is_fresh(current: AttachmentRow, seen: AttachmentRow) -> bool:
    return current.borrowed_at != seen.borrowed_at or current.attach_status != seen.attach_status


def _find_volumes(tx: Session, before: datetime) -> list[str]:
    """Return volumes borrowed since `before` that no attachment explains."""
    mine = select(AttachmentRow.id).where(AttachmentRow.volume_id == VolumeRow.id)
    borrowed = mine.where(AttachmentRow.borrowed_at.is_not(None)).exists()
    asked_for = mine.where(AttachmentRow.server_id.is_not(None)).exists()
    detaching = VolumeRow.status == "detaching"
    query = select(VolumeRow.id).where(
        VolumeRow.borrowed_at < before, ~borrowed, ~(detaching & asked_for)
    )
    return list(tx.execute(query.limit(_AT_ONCE)).scalars())


def _settle_volume(tx: Session, volume: Volume, volume_id: str, before: datetime) -> None:
    """Let the status follow from the attachments, unless somebody has come for it meanwhile."""
    taken = update(VolumeRow).where(VolumeRow.id == volume_id, VolumeRow.borrowed_at < before)
    if tx.execute(taken.values(statuses.RETURNED).returning(VolumeRow.id)).first() is not None:
        statuses.recompute(tx, volume_id, volume.clock.now(), settle=True)
