"""Extending a volume, and what compute says of it: what may be asked for, and when.

Source: facts/block_storage.md 3. Policy is checked by the route. Errors: NotFound for what the
caller may not see, Invalid for a request or a state that forbids it, OverQuota.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from mooring.errors import Invalid, NotFound
from mooring.fence import table as fence
from mooring.fence.table import Answer
from mooring.store.loaded import ById
from mooring.store.prepared import Change
from mooring.volume.attachments import fenced
from mooring.volume.extend import growing
from mooring.volume.extend.sagas.extend_notes import ExtendVolume
from mooring.volume.extend.sagas.extend_volume import EXTEND_VOLUME
from mooring.volume.quotas import quota
from mooring.volume.tables import TypeRow, VolumeRow
from mooring.volume.types import types
from mooring.volume.volumes import statuses, volumes

if TYPE_CHECKING:
    from mooring.volume.attachments.reserving import Asked
    from mooring.who import Who

_SERVICE = "service"
FAILED_BEFORE = ("error_extending", "error")
"""Statuses that a growth leads out of, since the file decides again what the volume is.

`error` is that of one whose content was to be replaced, or that an administrator has set. Storage
replaces content in one go (`reimage_volume`), so the file is whole, with old content or new.
"""
_types, _volumes = ById(TypeRow), ById(VolumeRow)
_claim = Change(
    VolumeRow,
    lambda columns: columns.status == "extending",
    lambda columns: columns.extend_new_size > columns.size_gib,
    lambda columns: columns.extend_reservations.is_not(None),
)


async def extend(asked: Asked, volume_id: str, new_gib: int, *, attached: bool) -> None:
    """Reserve what a volume is to have more, and start to extend it; `attached`: it is in-use."""
    resource = f"volume:{volume_id}/extending"

    def begin(tx: Session) -> None:
        if fence.admit(tx, asked.operation, resource, verb="POST") is not None:
            return
        row = volumes.visible(tx, asked.who, volume_id)
        _begin(tx, asked, row, new_gib, attached=attached)
        fence.record(tx, asked.operation, resource, Answer(status=202), verb="POST")

    await asked.volume.sagas.submit(begin)


def _begin(tx: Session, asked: Asked, row: VolumeRow, new_gib: int, *, attached: bool) -> None:
    volume, now = asked.volume, asked.volume.clock.now()
    volume_type = _types.one(tx, row.volume_type_id)
    _check_size(row, volume_type, new_gib)
    from_status = "in-use" if attached else "available"
    volumes.refuse_migrating(row)
    allowed = [from_status]
    # Its owner asks again: the operation before is over, and the file decides anew. What was never
    # whole has no file to ask for.
    again = row.status in FAILED_BEFORE and row.launched_at is not None
    if again and bool(growing.servers_of(tx, row.id)) == attached:
        allowed.append(row.status)
    before = row.status
    if row.backend is None or not statuses.change(
        tx, row.id, allowed=allowed, now=now, status="extending", **statuses.RETURNED
    ):
        raise Invalid(
            f"Invalid volume: Volume {row.id} status must be '{from_status}' to extend, currently "
            f"{row.status}. Nothing was changed.{statuses.way_out(row.status)}",
        )
    saga_id = str(uuid.uuid4())
    growth = quota.Growth(
        row=row,
        type_name=volume_type.name,
        size_gib=new_gib,
        asker_id=asked.who.project_id,
        saga_id=saga_id,
        now=now,
    )
    quota.reserve(tx, growth)
    notes = ExtendVolume(
        volume_id=row.id,
        old_gib=row.size_gib,
        new_gib=new_gib,
        backend=row.backend,
        attached=attached,
        from_error=before == "error",
    )
    volume.sagas.start(tx, EXTEND_VOLUME, notes, who=asked.who, saga_id=saga_id)


def _check_size(row: VolumeRow, volume_type: TypeRow, new_gib: int) -> None:
    if new_gib <= row.size_gib:
        raise Invalid(
            "Invalid input received: New size for extend must be greater than current size. "
            f"(current: {row.size_gib}, extended: {new_gib}). Nothing was changed.",
        )
    types.check_size(volume_type, new_gib)


async def complete(asked: Asked, volume_id: str, *, failed: bool) -> None:
    """Take compute's word for a volume that it was asked to let grow; the first one counts."""
    volume = asked.volume

    def act(tx: Session) -> None:
        row = _completable(tx, asked.who, volume_id)
        answer = growing.FAILED if failed else growing.DONE
        values = {**growing.NO_KEYS, "extend_answer": answer, "updated_at": volume.clock.now()}
        if not _claim(tx, volume_id, values):
            raise Invalid(
                f"Invalid volume: Volume {volume_id} is {row.status} and does not wait for the "
                "completion of an extend. Nothing was changed.",
            )
        volume.sagas.signal(tx, growing.signal_of(volume_id))

    await fenced.change(asked, f"volume:{volume_id}/extending", act, verb="POST")


def _completable(tx: Session, who: Who, volume_id: str) -> VolumeRow:
    """Return the volume; a service is told about those of every project. Raises NotFound."""
    if _SERVICE not in who.roles:
        return volumes.visible(tx, who, volume_id)
    # Policy has let the service in, and a service sees every project's volumes.
    row = _volumes.find(tx, volume_id)
    if row is None:
        raise NotFound(f"Volume {volume_id} could not be found.")
    return row
