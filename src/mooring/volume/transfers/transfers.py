"""Transfers: a volume is offered, and whoever has the key takes it into their own project.

No data move and no host has a part in it, so each request is one transaction. Source:
facts/block_storage.md 1.8 and 8.6. Errors: NotFound for what the caller may not see, Invalid for a
wrong key or a state that forbids it (Cinder answers both with 400), OverQuota.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import uuid
from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import delete as delete_from
from sqlalchemy import select, update

from mooring.errors import Invalid, NotFound
from mooring.volume.quotas import quota
from mooring.volume.snapshots import snapshot_rows
from mooring.volume.tables import (
    AttachmentRow,
    ExportRow,
    SnapshotRow,
    TransferRow,
    TypeRow,
    VolumeRow,
)
from mooring.volume.types import types
from mooring.volume.volumes import notices, statuses, volumes
from mooring.volume.volumes.statuses import OFFERED

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.attachments.reserving import Asked
    from mooring.who import Who

_KEY_BYTES, _SALT_BYTES = 16, 8
_REACHES = (AttachmentRow, ExportRow)
"""By what a host or a server can reach a volume, whatever its status says."""


class NewTransfer(Struct, frozen=True, kw_only=True):
    """What POST asks for. With `no_snapshots` those of the volume stay with its former project."""

    volume_id: str
    name: str | None = None
    no_snapshots: bool = False


async def create(asked: Asked, wanted: NewTransfer) -> tuple[TransferRow, str]:
    """Offer a volume; return the transfer and its key, which is shown this once.

    Raises Invalid: it is not available, or a snapshot that goes along is not.
    """
    key, salt = secrets.token_hex(_KEY_BYTES), secrets.token_hex(_SALT_BYTES)

    def begin(tx: Session) -> TransferRow:
        row = volumes.visible(tx, asked.who, wanted.volume_id)
        _check_rest(tx, row, goes_along=not wanted.no_snapshots)
        notices.send(tx, asked.volume, row.id, "transfer.create.start")
        _turn(tx, asked, row.id, "available", status=OFFERED)
        # One that an administrator's reset of the status has left behind.
        tx.execute(delete_from(TransferRow).where(TransferRow.volume_id == row.id))
        made = TransferRow(
            id=str(uuid.uuid4()),
            volume_id=row.id,
            project_id=row.project_id,
            name=wanted.name,
            no_snapshots=wanted.no_snapshots,
            salt=salt,
            digest=_digest(salt, key),
            created_at=asked.volume.clock.now(),
        )
        tx.add(made)
        notices.send(tx, asked.volume, row.id, "transfer.create.end")
        return made

    return await asked.volume.store.write(begin), key


async def accept(asked: Asked, transfer_id: str, key: str) -> TransferRow:
    """Take a volume into the caller's project; return the transfer, which is over.

    Raises NotFound, Invalid: wrong key, not offered any more, or a type that the project may not
    use; OverQuota.
    """

    def begin(tx: Session) -> TransferRow:
        # Whoever has the key may see it.
        found = tx.get(TransferRow, transfer_id)
        if found is None:
            raise _unknown(transfer_id)
        if not hmac.compare_digest(found.digest, _digest(found.salt, key)):
            raise Invalid(
                f"Invalid auth key: the key of transfer {transfer_id} is another one. Nothing was "
                "changed; ask whoever offers the volume for the key."
            )
        row = tx.get_one(VolumeRow, found.volume_id)
        snapshots = _check_rest(tx, row, goes_along=not found.no_snapshots)
        notices.send(tx, asked.volume, row.id, "transfer.accept.start")
        _take(tx, asked, row, snapshots)
        notices.send(tx, asked.volume, row.id, "transfer.accept.end")
        tx.delete(found)
        return found

    return await asked.volume.store.write(begin)


async def delete(asked: Asked, transfer_id: str) -> None:
    """Offer the volume no longer. Raises NotFound."""

    def begin(tx: Session) -> None:
        row, now = visible(tx, asked.who, transfer_id), asked.volume.clock.now()
        notices.send(tx, asked.volume, row.volume_id, "transfer.delete.start")
        statuses.change(tx, row.volume_id, allowed=(OFFERED,), now=now, status="available")
        notices.send(tx, asked.volume, row.volume_id, "transfer.delete.end")
        tx.delete(row)

    await asked.volume.store.write(begin)


def visible(tx: Session, who: Who, transfer_id: str) -> TransferRow:
    """Return the transfer that this caller may see: one of its own project. Raises NotFound."""
    row = tx.get(TransferRow, transfer_id)
    if row is None or not (who.is_admin or row.project_id == who.project_id):
        raise _unknown(transfer_id)
    return row


def _take(tx: Session, asked: Asked, row: VolumeRow, snapshots: list[SnapshotRow]) -> None:
    """Give a volume to the caller, as far as its quota goes, and the snapshots after it."""
    who, volume_type = asked.who, tx.get_one(TypeRow, row.volume_type_id)
    _check_type(tx, who, volume_type)
    owner = {"project_id": who.project_id, "user_id": who.user_id}
    if row.project_id != who.project_id:
        quota.claim(tx, who.project_id, volume_type, row.size_gib)
    _turn(tx, asked, row.id, OFFERED, status="available", **owner)
    for snapshot in snapshots:
        if snapshot.project_id != who.project_id:
            quota.claim_snapshot(tx, who.project_id, volume_type, snapshot.size_gib)
        tx.execute(update(SnapshotRow).where(SnapshotRow.id == snapshot.id).values(**owner))


def _turn(tx: Session, asked: Asked, volume_id: str, before: str, **values: str) -> None:
    """Change a volume that has the status `before`. Raises Invalid when it has another one."""
    now = asked.volume.clock.now()
    if not statuses.change(tx, volume_id, allowed=(before,), now=now, **values):
        read = select(VolumeRow.status).where(VolumeRow.id == volume_id)
        now_is = tx.execute(read).scalar() or "gone"
        raise Invalid(
            f"Invalid volume: status must be {before}, and volume {volume_id} is {now_is}. Nothing "
            f"was changed.{statuses.way_out(now_is)}"
        )


def _check_rest(tx: Session, row: VolumeRow, *, goes_along: bool) -> list[SnapshotRow]:
    """Return the snapshots that go along: those of the volume's own project, if any do.

    Raises Invalid while anybody can reach the volume, or takes or deletes a snapshot of it, which
    would meet the data of its next owner; or while one that goes along is not available.
    """
    reached = (select(table.id).where(table.volume_id == row.id) for table in _REACHES)
    if any(tx.execute(query.limit(1)).first() for query in reached):
        raise Invalid(
            f"Invalid volume: Volume {row.id} has attachments, or is exported to a host. Nothing "
            "was changed; end those first."
        )
    found = snapshot_rows.of_volume(tx, row.id)
    own = [snapshot for snapshot in found if snapshot.project_id == row.project_id]
    if any(snapshot.saga_id for snapshot in found):
        raise Invalid(
            f"Invalid volume: a snapshot of volume {row.id} is being taken or deleted. Nothing was "
            "changed; wait until that has ended."
        )
    if not goes_along:
        return []
    for snapshot in own:
        if snapshot.status != "available":
            raise Invalid(
                f"Invalid snapshot: Snapshot {snapshot.id} of volume {row.id} is "
                f"{snapshot.status}; only an available one goes along. Nothing was changed; delete "
                "it, or leave the snapshots behind (--no-snapshots)."
            )
    return own


def _check_type(tx: Session, who: Who, volume_type: TypeRow) -> None:
    try:
        types.visible(tx, who, volume_type.id)
    except NotFound as error:
        raise Invalid(
            f"Invalid volume type: project {who.project_id} may not use the volume type of this "
            "volume. Nothing was changed; an administrator lets it."
        ) from error


def _digest(salt: str, key: str) -> str:
    return hmac.new(salt.encode(), key.encode(), hashlib.sha256).hexdigest()


def _unknown(transfer_id: str) -> NotFound:
    return NotFound(f"Transfer {transfer_id} could not be found.")
