"""Shares: what a client may ask for, and when. Source: facts/shared_file_systems.md 3.1 and 13.2.

Policy is checked by the route. Errors: NotFound for what the caller may not see, Invalid for a
request or a state that forbids it, Forbidden where Manila answers 403, OverQuota.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring import labels
from mooring.agent_api.shares import ShareSnapshotName
from mooring.errors import Forbidden, Invalid, NotFound
from mooring.saga.held import is_being_deleted
from mooring.share.locks import locks
from mooring.share.quotas import quota
from mooring.share.services import matching
from mooring.share.shares import share_rows
from mooring.share.shares.sagas.create_share import (
    CREATE_SHARE,
    CREATE_SHARE_FROM_SNAPSHOT,
    CreateShare,
)
from mooring.share.shares.sagas.delete_share import (
    DELETE_SHARE,
    FORCE_DELETE_SHARE,
    DeleteShare,
)
from mooring.share.shares.sagas.reset_status import RESET_STATUS, ResetStatus
from mooring.share.shares.sagas.resize_share import EXTEND_SHARE, SHRINK_SHARE, ResizeShare
from mooring.share.snapshots import snapshot_rows
from mooring.share.tables import PoolRow, ShareRow, TypeRow
from mooring.share.types import types

if TYPE_CHECKING:
    from mooring.share.service import Asked, Share
    from mooring.share.snapshots.snapshot_rows import Source

PROTOCOLS = ("NFS", "CEPHFS")
_DELETABLE = (
    *("available", "error", "inactive", "error_deleting"),
    *("extending_error", "shrinking_error", "shrinking_possible_data_loss_error"),
)
_SHRINKABLE = ("available", "shrinking_possible_data_loss_error")
RESETS = ("available", "error", "error_deleting")
"""Statuses that an administrator may set: none that an operation would have to lead out of."""


class NewShare(Struct, frozen=True, kw_only=True):
    """What POST /shares asks for, the request's form already checked."""

    protocol: str
    size_gib: int | None = None
    name: str | None = None
    description: str | None = None
    share_type: str | None = None
    """By name or id."""
    zone: str | None = None
    metadata: dict[str, str] = {}
    is_public: bool = False
    snapshot_id: str | None = None


async def create(asked: Asked, wanted: NewShare) -> str:
    """Write a share down, start what makes it, and return its id."""

    def begin(tx: Session) -> str:
        source = None
        if wanted.snapshot_id:
            source = snapshot_rows.find_source(tx, asked.who, wanted.snapshot_id)
            _check_source(wanted, source)
        row = _add(tx, asked, wanted, source)
        saga = CREATE_SHARE if source is None else CREATE_SHARE_FROM_SNAPSHOT
        asked.share.sagas.start(tx, saga, _notes_of(row, source), who=asked.who)
        return row.id

    return await asked.share.sagas.submit(begin)


def _notes_of(row: ShareRow, source: Source | None) -> CreateShare:
    zone = row.zone or ""
    if source is None:
        return CreateShare(share_id=row.id, size_gib=row.size_gib, protocol=row.protocol, zone=zone)
    return CreateShare(
        share_id=row.id,
        size_gib=row.size_gib,
        protocol=row.protocol,
        zone=zone,
        snapshot=ShareSnapshotName(share=source.share_id, snapshot=source.snapshot_id),
        pool=source.pool,
    )


def _add(tx: Session, asked: Asked, wanted: NewShare, source: Source | None) -> ShareRow:
    share, who = asked.share, asked.who
    usual = share.settings.default_type if source is None else source.type_name
    share_type = types.named(tx, who, wanted.share_type or usual)
    size_gib = _find_size(wanted, source)
    check_size(share_type, size_gib)
    zone = _check_zone(tx, share, share_type, wanted.zone)
    more = quota.More(
        project_id=who.project_id,
        user_id=who.user_id,
        share_type_id=share_type.id,
        amounts={"shares": 1, "gigabytes": size_gib},
        size_gib=size_gib,
    )
    quota.claim(tx, more)
    row = ShareRow(
        id=str(uuid.uuid4()),
        project_id=who.project_id,
        user_id=who.user_id,
        name=wanted.name,
        description=wanted.description,
        size_gib=size_gib,
        status="creating",
        protocol=wanted.protocol,
        is_public=wanted.is_public,
        share_type_id=share_type.id,
        zone=zone,
        snapshot_support=False,
        from_snapshot_support=False,
        labels=labels.merge({}, wanted.metadata, whole=True),
        snapshot_id=wanted.snapshot_id,
        created_at=share.clock.now(),
    )
    tx.add(row)
    tx.flush()
    return row


def _find_size(wanted: NewShare, source: Source | None) -> int:
    if wanted.size_gib is not None:
        return wanted.size_gib
    if source is None:
        raise Invalid(
            "Invalid input received: The size is missing. Give the new share a size in GiB.",
        )
    return source.size_gib


def _check_source(wanted: NewShare, source: Source) -> None:
    if not source.can_be_copied:
        raise Invalid(
            f"Invalid share: Share {source.share_id} cannot have shares made from its snapshots: "
            "create_share_from_snapshot_support is False. Nothing was made.",
        )
    if wanted.protocol != source.protocol:
        raise Invalid(
            f"Invalid share: A share from a snapshot has the protocol of the snapshot's share, "
            f"{source.protocol}, not {wanted.protocol}. Nothing was made.",
        )
    if wanted.size_gib is not None and wanted.size_gib < source.size_gib:
        raise Invalid(
            f"Invalid input received: A share of {wanted.size_gib} GiB is smaller than the "
            f"snapshot, which has {source.size_gib} GiB. Nothing was made; ask for at least as "
            "much.",
        )


def check_size(share_type: TypeRow, size_gib: int, *, extends: bool = False) -> None:
    """Raise Invalid for a size that a share type forbids (2.61)."""
    keys = {"min": "provisioning:min_share_size", "max": "provisioning:max_share_size"}
    if extends and "provisioning:max_share_extend_size" in share_type.extra_specs:
        keys["max"] = "provisioning:max_share_extend_size"
    for word, key in keys.items():
        text = share_type.extra_specs.get(key, "").strip()
        bound = int(text) if text.isascii() and text.isdecimal() else None
        if bound is not None and (size_gib < bound if word == "min" else size_gib > bound):
            raise Invalid(
                f"Invalid input received: A share of type {share_type.name} cannot have {size_gib} "
                f"GiB: its extra spec {key} is {bound}. Nothing was changed.",
            )


def _check_zone(tx: Session, share: Share, share_type: TypeRow, zone: str | None) -> str | None:
    if not zone:
        return None
    known = {share.settings.default_zone, *tx.execute(select(PoolRow.zone).distinct()).scalars()}
    if zone not in known:
        raise NotFound(f"Availability zone {zone} could not be found.")
    kept = matching.zones_of(share_type.extra_specs)
    if kept and zone not in kept:
        raise Invalid(
            f"Invalid input received: Share type {share_type.name} is not supported within the "
            f"availability zone {zone}, only in {', '.join(sorted(kept))}. Nothing was made.",
        )
    return zone


async def delete(asked: Asked, share_id: str, *, force: bool = False) -> None:
    """Start to delete a share; one that is being deleted already is fine.

    With `force` any status will do, and whoever is at work on the share is ended.
    """

    def begin(tx: Session) -> None:
        row = share_rows.visible_to_change(tx, asked.who, share_id)
        if not force and _is_being_deleted(tx, row):
            return
        if not force and row.status not in (*_DELETABLE, "deleting"):
            raise Forbidden(
                f"Share status must be one of {', '.join(_DELETABLE)} to delete it, and it is "
                f"{row.status}. Nothing was changed.",
            )
        locks.require_none(tx, "share", row.id)
        if found := snapshot_rows.of_share(tx, row.id):
            raise Forbidden(
                f"Share {row.id} has {len(found)} dependent snapshots and cannot be deleted. "
                "Nothing was changed; delete them first.",
            )
        row.status, row.updated_at = "deleting", asked.share.clock.now()
        tx.flush()
        saga = FORCE_DELETE_SHARE if force else DELETE_SHARE
        asked.share.sagas.start(tx, saga, DeleteShare(share_id=row.id), who=asked.who)

    await asked.share.sagas.submit(begin)


def _is_being_deleted(tx: Session, row: ShareRow) -> bool:
    """Whether a share goes anyway. Raises Conflict while a reset is to end its deletion."""
    if row.status != "deleting":
        return False
    key, name = f"share:{row.id}", f"Share {row.id}"
    return is_being_deleted(tx, key, name, DELETE_SHARE, FORCE_DELETE_SHARE)


async def extend(asked: Asked, share_id: str, new_gib: int) -> None:
    """Reserve what a share is to have more, and start to make it larger."""

    def begin(tx: Session) -> None:
        row = share_rows.visible_to_change(tx, asked.who, share_id)
        _check_resize(tx, row, new_gib, allowed=("available",), way="extend")
        check_size(tx.get_one(TypeRow, row.share_type_id), new_gib, extends=True)
        saga_id, now = str(uuid.uuid4()), asked.share.clock.now()
        quota.reserve(tx, quota.Growth(row=row, size_gib=new_gib, saga_id=saga_id, now=now))
        notes = ResizeShare(
            share_id=row.id,
            way="extend",
            old_gib=row.size_gib,
            new_gib=new_gib,
            pool=row.pool or "",
        )
        _begin_resizing(tx, asked, row, "extending")
        asked.share.sagas.start(tx, EXTEND_SHARE, notes, who=asked.who, saga_id=saga_id)

    await asked.share.sagas.submit(begin)


async def shrink(asked: Asked, share_id: str, new_gib: int) -> None:
    """Start to make a share smaller; the storage refuses less than what is in it."""

    def begin(tx: Session) -> None:
        row = share_rows.visible_to_change(tx, asked.who, share_id)
        _check_resize(tx, row, new_gib, allowed=_SHRINKABLE, way="shrink")
        check_size(tx.get_one(TypeRow, row.share_type_id), new_gib)
        notes = ResizeShare(
            share_id=row.id,
            way="shrink",
            old_gib=row.size_gib,
            new_gib=new_gib,
            pool=row.pool or "",
        )
        _begin_resizing(tx, asked, row, "shrinking")
        asked.share.sagas.start(tx, SHRINK_SHARE, notes, who=asked.who)

    await asked.share.sagas.submit(begin)


def _begin_resizing(tx: Session, asked: Asked, row: ShareRow, status: str) -> None:
    row.status, row.updated_at = status, asked.share.clock.now()
    tx.flush()


def _check_resize(
    tx: Session, row: ShareRow, new_gib: int, *, allowed: tuple[str, ...], way: str
) -> None:
    if row.status not in allowed or row.pool is None:
        raise Invalid(
            f"Invalid share: Share {row.id} status must be {' or '.join(allowed)} to {way} it, and "
            f"it is {row.status}. Nothing was changed.",
        )
    if new_gib <= row.size_gib if way == "extend" else new_gib >= row.size_gib:
        word = "greater" if way == "extend" else "less"
        raise Invalid(
            f"Invalid input received: New size for {way} must be {word} than current size. "
            f"(current: {row.size_gib}, asked for: {new_gib}). Nothing was changed.",
        )
    # No user's: pools are what hosts report.
    pool = tx.get(PoolRow, row.pool)
    can = pool is None or (pool.extends if way == "extend" else pool.shrinks)
    if not can:
        raise Invalid(
            f"Invalid share: The pool of share {row.id} cannot {way} shares. Nothing was changed; "
            "make another share and copy what is in this one.",
            private=f"It is {row.pool}.",
        )


async def reset_status(asked: Asked, share_id: str, status: str) -> None:
    """Set the status by hand, ending whatever is at work on the share. Raises Invalid."""
    if status not in RESETS:
        raise Invalid(
            f"Invalid input received: A share cannot be reset to {status[:64]}, which only an "
            f"operation may lead to. Nothing was changed; choose one of {', '.join(RESETS)}.",
        )

    def begin(tx: Session) -> str:
        row = share_rows.visible_to_change(tx, asked.who, share_id)
        if status == "available" and row.pool is None:
            raise Invalid(
                f"Invalid share: Share {row.id} lies nowhere and cannot be reset to available. "
                "Nothing was changed; delete it.",
            )
        notes = ResetStatus(share_id=row.id, status=status)
        return asked.share.sagas.start(tx, RESET_STATUS, notes, who=asked.who)

    await asked.share.sagas.answered(await asked.share.sagas.submit(begin))
