"""Snapshots: what a client may ask for, and when. Source: facts/block_storage.md 1.8 and 8.3.

Policy is checked by the route. Errors: NotFound for what the caller may not see, Invalid for a
request or a state that forbids it (Cinder answers both with 400), OverQuota.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from msgspec import UNSET, Struct, UnsetType
from sqlalchemy.orm import Session

from mooring import labels
from mooring.errors import Conflict, Invalid
from mooring.fence import table as fence
from mooring.fence.table import Answer
from mooring.volume.quotas import quota
from mooring.volume.snapshots import uses
from mooring.volume.snapshots.sagas import assisted, deleting
from mooring.volume.snapshots.sagas.copy_snapshot import COPY_SNAPSHOT, CopySnapshot
from mooring.volume.snapshots.sagas.create_snapshot import CREATE_SNAPSHOT, CreateSnapshot
from mooring.volume.snapshots.snapshot_rows import visible
from mooring.volume.tables import SnapshotRow, TypeRow, VolumeRow
from mooring.volume.volumes import statuses, volumes
from mooring.web.identity import is_service

if TYPE_CHECKING:
    from mooring.volume.attachments.reserving import Asked

T = TypeVar("T")

TRANSITIONAL = ("creating", "deleting")
"""Statuses that a saga, or who set them by hand, leads out of."""
_AT_REST = (None, "success", "error")
_IN_USE = (
    " For one of a volume in use ask in version 3.66 of the API: openstack "
    "--os-volume-api-version 3.66 volume snapshot create."
)
_TOLD: Mapping[str, tuple[str, ...]] = {
    "creating": ("creating", "available", "error"),
    "deleting": ("deleting", "error_deleting"),
}
"""What `os-update_snapshot_status` may make of a status."""


class NewSnapshot(Struct, frozen=True, kw_only=True):
    """What POST /snapshots asks for. `force`: also of a volume in use."""

    volume_id: str
    name: str | None = None
    description: str | None = None
    metadata: dict[str, str] = {}
    force: bool = False


class Changes(Struct, frozen=True, kw_only=True):
    """What PUT /snapshots/{id} may change."""

    name: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET


async def create(asked: Asked, wanted: NewSnapshot) -> str:
    """Write a snapshot down, start what takes it, and return its id."""
    volume = asked.volume
    resource = f"saga:{asked.operation.saga}" if asked.operation else ""

    def act(tx: Session) -> str:
        earlier = fence.admit(tx, asked.operation, resource, verb="POST")
        if earlier is not None:
            return earlier.body
        made = begin(tx, asked, wanted)
        fence.record(tx, asked.operation, resource, Answer(body=made.id), [made.id], verb="POST")
        return made.id

    return await volume.sagas.submit(act)


def begin(tx: Session, asked: Asked, wanted: NewSnapshot) -> SnapshotRow:
    """Write a snapshot down, and start what takes it, in the caller's transaction."""
    row = volumes.visible(tx, asked.who, wanted.volume_id)
    _check_volume(row, force=wanted.force)
    volume_type = tx.get_one(TypeRow, row.volume_type_id)
    quota.claim_snapshot(tx, row.project_id, volume_type, row.size_gib)
    uses.require_clear(tx, row.id)
    made = _add(tx, asked, row, wanted)
    made.saga_id = _start(tx, asked, row, made)
    return made


def _start(tx: Session, asked: Asked, row: VolumeRow, made: SnapshotRow) -> str:
    """Start what takes a snapshot, and return its operation.

    Of a volume that several servers may have it is a copy: behind an overlay one alone could have
    it.
    """
    sagas = asked.volume.sagas
    if row.multiattach:
        copied = CopySnapshot(snapshot_id=made.id, volume_id=row.id)
        return sagas.start(tx, COPY_SNAPSHOT, copied, who=asked.who)
    laid_over = CreateSnapshot(snapshot_id=made.id, volume_id=row.id)
    return sagas.start(tx, CREATE_SNAPSHOT, laid_over, who=asked.who)


def _check_volume(row: VolumeRow, *, force: bool) -> None:
    allowed = ("available", "in-use") if force else ("available",)
    if row.status not in allowed or row.migration_status not in _AT_REST or row.backend is None:
        migrating = ", and it must not be migrating" if row.migration_status else ""
        advice = _IN_USE if row.status == "in-use" and not force else statuses.way_out(row.status)
        raise Invalid(
            f"Invalid volume: Volume {row.id} status must be {' or '.join(allowed)}{migrating}, "
            f"but current status is: {row.status}. Nothing was made.{advice}",
        )


def _add(tx: Session, asked: Asked, row: VolumeRow, wanted: NewSnapshot) -> SnapshotRow:
    made = SnapshotRow(
        id=str(uuid.uuid4()),
        volume_id=row.id,
        project_id=row.project_id,
        user_id=asked.who.user_id,
        name=wanted.name,
        description=wanted.description,
        size_gib=row.size_gib,
        status="creating",
        progress=0,
        bootable=row.bootable,
        image_metadata=row.image_metadata,
        labels=labels.merge({}, wanted.metadata, whole=True),
        saga_id="",
        told="",
        borrowed_by="",
        created_at=asked.volume.clock.now(),
    )
    tx.add(made)
    tx.flush()
    return made


async def delete(asked: Asked, snapshot_id: str, *, force: bool = False) -> None:
    """Start to delete a snapshot; with `force` in any status that nobody is at work on.

    One that a service took and needs no more goes once what refuses it has passed, be it a status
    that somebody set, or who has the volume: at any time, so the service does not wait for it.
    """

    def act(tx: Session) -> None:
        row = visible(tx, asked.who, snapshot_id)
        is_owed = asked.operation is not None and is_service(asked.who)
        if is_owed:
            # What took it does not come again to see whether it went.
            deleting.owe(asked.volume, row)
        if row.saga_id and row.status == "deleting":
            return
        try:
            _check_deletable(tx, row, force=force)
        except (Conflict, Invalid):
            if row.saga_id or not is_owed:
                raise
        else:
            deleting.begin(tx, asked.volume, row, asked.who)

    await asked.volume.sagas.submit(act)


def _check_deletable(tx: Session, row: SnapshotRow, *, force: bool) -> None:
    if row.saga_id or not (force or row.status in deleting.DELETABLE):
        states = " or ".join(deleting.DELETABLE)
        raise Invalid(
            f"Invalid snapshot: Snapshot {row.id} status must be {states} and it must not be "
            f"part of a group snapshot; it is {row.status}. Nothing was changed.",
        )
    uses.require_clear(tx, row.volume_id)


async def update(asked: Asked, snapshot_id: str, changes: Changes) -> None:
    """Change name or description."""

    def change(row: SnapshotRow) -> None:
        if changes.name is not UNSET:
            row.name = changes.name
        if changes.description is not UNSET:
            row.description = changes.description

    await _change(asked, snapshot_id, change)


async def set_metadata(
    asked: Asked, snapshot_id: str, metadata: Mapping[str, str], *, whole: bool
) -> dict[str, str]:
    """Merge metadata into a snapshot's, or put it in its place; return what it has now."""

    def change(row: SnapshotRow) -> dict[str, str]:
        row.labels = labels.merge(row.labels, metadata, whole=whole)
        return row.labels

    return await _change(asked, snapshot_id, change)


async def delete_metadata(asked: Asked, snapshot_id: str, key: str) -> None:
    """Remove one item. Raises NotFound when there is none."""

    def change(row: SnapshotRow) -> None:
        row.labels = labels.without(row.labels, key, f"Snapshot {snapshot_id}")

    await _change(asked, snapshot_id, change)


async def reset_status(asked: Asked, snapshot_id: str, status: str) -> None:
    """Set the status by hand. Raises Conflict while an operation is at work on the snapshot."""
    now = asked.volume.clock.now()

    def change(row: SnapshotRow) -> None:
        if row.saga_id:
            raise Conflict(
                f"Snapshot {snapshot_id} is {row.status} (operation {row.saga_id}), which ends by "
                "itself. Nothing was changed; abort the operation if it must not go on.",
            )
        row.status = status
        lent = status in TRANSITIONAL
        row.borrowed_by, row.borrowed_at = (asked.who.user_id, now) if lent else ("", None)

    await _change(asked, snapshot_id, change)


async def tell(asked: Asked, snapshot_id: str, status: str, progress: int | None) -> None:
    """Take in what compute says of its part (`os-update_snapshot_status`).

    An operation that waits for it draws the conclusion; without one the status is set as told.
    """
    volume, resource = asked.volume, f"snapshot:{snapshot_id}/told"

    def act(tx: Session) -> None:
        if fence.admit(tx, asked.operation, resource, verb="POST") is not None:
            return
        visible(tx, asked.who, snapshot_id)
        row = tx.get_one(SnapshotRow, snapshot_id, populate_existing=True, with_for_update=True)
        if status not in _TOLD.get(row.status, ()) or row.told == assisted.CLOSED:
            raise Invalid(
                f"Invalid snapshot: Provided snapshot status {status} not allowed for snapshot "
                f"with status {row.status}. Nothing was changed.",
            )
        row.updated_at = volume.clock.now()
        said = 100 if status == "available" else progress
        row.progress = row.progress if said is None else said
        if row.saga_id:
            row.told = status
            volume.sagas.signal(tx, assisted.signal_of(snapshot_id))
        else:
            row.status = status
            if status not in TRANSITIONAL:
                row.borrowed_by, row.borrowed_at = "", None
        fence.record(tx, asked.operation, resource, Answer(status=202), verb="POST")

    await volume.store.write(act)


async def _change(asked: Asked, snapshot_id: str, change: Callable[[SnapshotRow], T]) -> T:
    def apply(tx: Session) -> T:
        row = visible(tx, asked.who, snapshot_id)
        answer = change(row)
        row.updated_at = asked.volume.clock.now()
        return answer

    return await asked.volume.store.write(apply)
