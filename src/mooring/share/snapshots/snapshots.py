"""Snapshots of shares: what a client may ask for, and when.

Source: facts/shared_file_systems.md 3.5 and 8.2. Policy is checked by the route. Errors: NotFound
for what the caller may not see, Invalid, Conflict, OverQuota.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from msgspec import UNSET, Struct, UnsetType
from sqlalchemy.orm import Session

from mooring import labels
from mooring.errors import Conflict, Invalid
from mooring.share.quotas import quota
from mooring.share.shares import share_rows, statuses
from mooring.share.snapshots.sagas.create_snapshot import CREATE_SNAPSHOT, CreateSnapshot
from mooring.share.snapshots.sagas.delete_snapshot import DELETE_SNAPSHOT, DeleteSnapshot
from mooring.share.snapshots.snapshot_rows import visible
from mooring.share.tables import ShareRow, SnapshotRow

if TYPE_CHECKING:
    from mooring.share.service import Asked

T = TypeVar("T")
_DELETABLE = ("available", "error", "error_deleting")
RESETS = ("available", "error", "error_deleting")
"""Statuses that an administrator may set: none that an operation would have to lead out of."""
_UNPROCESSABLE = 422


class NewSnapshot(Struct, frozen=True, kw_only=True):
    """What POST /snapshots asks for. `force`: also of a share that is not available."""

    share_id: str
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

    def begin(tx: Session) -> str:
        share = share_rows.visible_to_change(tx, asked.who, wanted.share_id)
        _check_share(share, force=wanted.force)
        more = quota.More(
            project_id=share.project_id,
            user_id=asked.who.user_id,
            share_type_id=share.share_type_id,
            amounts={"snapshots": 1, "snapshot_gigabytes": share.size_gib},
        )
        quota.claim(tx, more)
        row = _add(tx, asked, share, wanted)
        notes = CreateSnapshot(share_id=share.id, snapshot_id=row.id)
        row.saga_id = asked.share.sagas.start(tx, CREATE_SNAPSHOT, notes, who=asked.who)
        return row.id

    return await asked.share.sagas.submit(begin)


def _check_share(share: ShareRow, *, force: bool) -> None:
    if not share.snapshot_support:
        raise Invalid(
            f"Share {share.id} has no snapshots: snapshot_support is False for its type or its "
            "pool. Nothing was made; use a share type with the extra spec snapshot_support=True.",
            status=_UNPROCESSABLE,
        )
    is_ready = share.status == "available" or (
        force and share.status not in statuses.TRANSITIONAL and share.pool is not None
    )
    if not is_ready:
        raise Invalid(
            f"Invalid share: Share {share.id} status must be available to take a snapshot, and it "
            f"is {share.status}. Nothing was made.",
        )


def _add(tx: Session, asked: Asked, share: ShareRow, wanted: NewSnapshot) -> SnapshotRow:
    row = SnapshotRow(
        id=str(uuid.uuid4()),
        share_id=share.id,
        project_id=share.project_id,
        user_id=asked.who.user_id,
        name=wanted.name,
        description=wanted.description,
        size_gib=share.size_gib,
        protocol=share.protocol,
        status="creating",
        labels=labels.merge({}, wanted.metadata, whole=True),
        saga_id="",
        created_at=asked.share.clock.now(),
    )
    tx.add(row)
    tx.flush()
    return row


async def delete(asked: Asked, snapshot_id: str, *, force: bool = False) -> None:
    """Start to delete a snapshot; with `force` in any status that nobody is at work on."""

    def begin(tx: Session) -> None:
        row = visible(tx, asked.who, snapshot_id)
        if row.saga_id and row.status == "deleting":
            return
        if row.saga_id or not (force or row.status in _DELETABLE):
            raise Conflict(
                f"Share Snapshot status must be one of {', '.join(_DELETABLE)} to delete it, and "
                f"snapshot {row.id} is {row.status}. Nothing was changed.",
            )
        row.status, row.updated_at = "deleting", asked.share.clock.now()
        tx.flush()
        notes = DeleteSnapshot(share_id=row.share_id, snapshot_id=row.id)
        row.saga_id = asked.share.sagas.start(tx, DELETE_SNAPSHOT, notes, who=asked.who)

    await asked.share.sagas.submit(begin)


async def update(asked: Asked, snapshot_id: str, changes: Changes) -> None:
    """Change name or description."""

    def change(row: SnapshotRow) -> None:
        if changes.name is not UNSET:
            row.name = changes.name
        if changes.description is not UNSET:
            row.description = changes.description

    await _change(asked, snapshot_id, change)


async def set_metadata(
    asked: Asked, snapshot_id: str, items: Mapping[str, str], *, whole: bool
) -> dict[str, str]:
    """Merge metadata into a snapshot's, or put it in its place; return what it has now."""

    def change(row: SnapshotRow) -> dict[str, str]:
        row.labels = labels.merge(row.labels, items, whole=whole)
        return row.labels

    return await _change(asked, snapshot_id, change)


async def delete_metadata(asked: Asked, snapshot_id: str, key: str) -> None:
    """Remove one item. Raises NotFound when there is none."""

    def change(row: SnapshotRow) -> None:
        row.labels = labels.without(row.labels, key, f"Snapshot {snapshot_id}")

    await _change(asked, snapshot_id, change)


async def reset_status(asked: Asked, snapshot_id: str, status: str) -> None:
    """Set the status by hand. Raises Conflict while an operation is at work on the snapshot."""
    if status not in RESETS:
        raise Invalid(
            f"Invalid input received: A snapshot cannot be reset to {status[:64]}, which only an "
            f"operation may lead to. Nothing was changed; choose one of {', '.join(RESETS)}.",
        )

    def change(row: SnapshotRow) -> None:
        if row.saga_id:
            raise Conflict(
                f"Snapshot {snapshot_id} is {row.status} (operation {row.saga_id}), which ends by "
                "itself. Nothing was changed; abort the operation if it must not go on.",
            )
        row.status = status

    await _change(asked, snapshot_id, change)


async def _change(asked: Asked, snapshot_id: str, change: Callable[[SnapshotRow], T]) -> T:
    def apply(tx: Session) -> T:
        row = visible(tx, asked.who, snapshot_id)
        answer = change(row)
        row.updated_at = asked.share.clock.now()
        return answer

    return await asked.share.store.write(apply)
