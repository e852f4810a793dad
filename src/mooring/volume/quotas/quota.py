"""What a project may use. Usage is summed up under a lock, never counted.

What an operation may take soon stands in reservations: rows of that operation, which count as used.
Source: facts/block_storage.md 6. Beside the resources named here each volume type has three of its
own: `volumes_<type>`, `gigabytes_<type>` and `snapshots_<type>`.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import delete, func, select, true, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from mooring.errors import Invalid, OverQuota
from mooring.volume.tables import (
    QuotaClassRow,
    QuotaProjectRow,
    QuotaRow,
    ReservationRow,
    SnapshotRow,
    TypeRow,
    VolumeRow,
    reserved_gib,
    total_gib,
)

UNLIMITED = -1
DEFAULT_CLASS = "default"
_PER_TYPE = ("volumes", "gigabytes", "snapshots")

DEFAULTS: Mapping[str, int] = {
    "volumes": 10,
    "snapshots": 10,
    "gigabytes": 1000,
    "backups": 10,
    "backup_gigabytes": 1000,
    "groups": 10,
    "per_volume_gigabytes": UNLIMITED,
}
"""The limits of a cloud whose operator has set none."""


class Usage(Struct, frozen=True):
    """What volumes and snapshots take: how many, and how many GiB they have together.

    One in error counts until it is gone. `reserved` are GiB more that operations may take before
    they end.
    """

    volumes: int = 0
    gigabytes: int = 0
    reserved: int = 0
    snapshots: int = 0


class Growth(Struct, frozen=True, kw_only=True):
    """A volume that is to grow to `size_gib`, by the saga that owns what is reserved for it."""

    row: VolumeRow
    type_name: str
    size_gib: int
    asker_id: str
    """The project that asked; an administrator may ask for another's volume."""
    saga_id: str
    now: datetime


def find_defaults(tx: Session, class_name: str = DEFAULT_CLASS) -> dict[str, int]:
    """Return the limits of a quota class, by resource."""
    found = {**DEFAULTS, **dict.fromkeys(_type_resources(tx), UNLIMITED)}
    query = select(QuotaClassRow.resource, QuotaClassRow.hard_limit)
    rows = tx.execute(query.where(QuotaClassRow.class_name == class_name))
    return found | {resource: limit for resource, limit in rows if resource in found}


def find_limits(tx: Session, project_id: str) -> dict[str, int]:
    """Return a project's limits, by resource; -1 is no limit."""
    found = find_defaults(tx)
    query = select(QuotaRow.resource, QuotaRow.hard_limit)
    rows = tx.execute(query.where(QuotaRow.project_id == project_id))
    return found | {resource: limit for resource, limit in rows if resource in found}


def sum_usage(tx: Session, project_id: str, type_id: str | None = None) -> Usage:
    """Return what a project's volumes and snapshots take, of all types or of one.

    In one statement: what is reserved turns into size when a volume has grown, and between two
    statements that would be counted twice or not at all.
    """
    held = select(func.count(), total_gib()).where(VolumeRow.project_id == project_id)
    taken = select(func.count(), total_gib(SnapshotRow))
    taken = taken.where(SnapshotRow.project_id == project_id)
    more = select(reserved_gib()).where(ReservationRow.project_id == project_id)
    if type_id is not None:
        held = held.where(VolumeRow.volume_type_id == type_id)
        taken = taken.join(VolumeRow, VolumeRow.id == SnapshotRow.volume_id)
        taken = taken.where(VolumeRow.volume_type_id == type_id)
        more = more.where(ReservationRow.volume_type_id == type_id)
    one, two, three = held.subquery("held"), taken.subquery("taken"), more.subquery("more")
    columns: list[Any] = [*one.c, *two.c, *three.c]
    query = select(*columns).select_from(one.join(two, true()).join(three, true()))
    found: list[int] = list(tx.execute(query).one())
    volumes, gigabytes, snapshots, taken_gib, reserved = found
    return Usage(volumes, gigabytes + taken_gib, reserved, snapshots)


def find_usage(tx: Session, project_id: str) -> dict[str, int]:
    """Return what a project uses, by resource; 0 for what this service does not make."""
    total = sum_usage(tx, project_id)
    found = dict.fromkeys([*DEFAULTS, *_type_resources(tx)], 0)
    found |= {
        "volumes": total.volumes,
        "gigabytes": total.gigabytes,
        "snapshots": total.snapshots,
    }
    query = (
        select(TypeRow.name, func.count(), total_gib())
        .join(VolumeRow, VolumeRow.volume_type_id == TypeRow.id)
        .where(VolumeRow.project_id == project_id)
        .group_by(TypeRow.name)
    )
    for name, volumes, gigabytes in tx.execute(query):
        found |= {f"volumes_{name}": volumes, f"gigabytes_{name}": gigabytes}
    taken = (
        select(TypeRow.name, func.count(), total_gib(SnapshotRow))
        .join(VolumeRow, VolumeRow.volume_type_id == TypeRow.id)
        .join(SnapshotRow, SnapshotRow.volume_id == VolumeRow.id)
        .where(SnapshotRow.project_id == project_id)
        .group_by(TypeRow.name)
    )
    for name, snapshots, gigabytes in tx.execute(taken):
        found[f"snapshots_{name}"] = snapshots
        found[f"gigabytes_{name}"] += gigabytes
    return found


def find_reserved(tx: Session, project_id: str) -> dict[str, int]:
    """Return what a project's operations may take besides, by resource."""
    found = dict.fromkeys([*DEFAULTS, *_type_resources(tx)], 0)
    query = (
        select(TypeRow.name, reserved_gib())
        .join(ReservationRow, ReservationRow.volume_type_id == TypeRow.id)
        .where(ReservationRow.project_id == project_id)
        .group_by(TypeRow.name)
    )
    for name, gigabytes in tx.execute(query):
        found[f"gigabytes_{name}"] = gigabytes
        found["gigabytes"] += gigabytes
    return found


def hold(tx: Session, project_id: str) -> None:
    """Let nobody else add to this project's usage until the transaction ends."""
    insert = postgresql.insert if tx.get_bind().dialect.name == "postgresql" else sqlite.insert
    row = insert(QuotaProjectRow).values(project_id=project_id, takings=0)
    tx.execute(row.on_conflict_do_nothing())
    mine = update(QuotaProjectRow).where(QuotaProjectRow.project_id == project_id)
    tx.execute(mine.values(takings=QuotaProjectRow.takings + 1))


def claim(tx: Session, project_id: str, volume_type: TypeRow, size_gib: int) -> None:
    """Hold the project's quota; raise OverQuota when one more volume of this size does not fit."""
    hold(tx, project_id)
    limits = find_limits(tx, project_id)
    _check_one(limits, size_gib)
    total, typed = sum_usage(tx, project_id), sum_usage(tx, project_id, volume_type.id)
    for usage, suffix in ((total, ""), (typed, f"_{volume_type.name}")):
        _check_size(f"gigabytes{suffix}", limits, usage, size_gib)
        _check_count(f"volumes{suffix}", limits, usage.volumes)


def reserve(tx: Session, growth: Growth) -> ReservationRow:
    """Write down what a volume will take besides. Raises OverQuota when it does not fit."""
    row = growth.row
    _check_one(find_limits(tx, growth.asker_id), growth.size_gib)
    hold(tx, row.project_id)
    limits = find_limits(tx, row.project_id)
    delta = growth.size_gib - row.size_gib
    _check_size("gigabytes", limits, sum_usage(tx, row.project_id), delta)
    typed = sum_usage(tx, row.project_id, row.volume_type_id)
    _check_size(f"gigabytes_{growth.type_name}", limits, typed, delta)
    reservation = ReservationRow(
        id=str(uuid.uuid4()),
        project_id=row.project_id,
        volume_id=row.id,
        volume_type_id=row.volume_type_id,
        delta_gib=delta,
        saga_id=growth.saga_id,
        created_at=growth.now,
    )
    tx.add(reservation)
    tx.flush()
    return reservation


def settle(tx: Session, volume_id: str, only: Collection[str] | None = None) -> bool:
    """Let go of what is reserved for a volume (`only` of these ids); tell whether anything was.

    Used to commit, when the volume's size counts it from now on, and to roll back.
    """
    gone = delete(ReservationRow).where(ReservationRow.volume_id == volume_id)
    if only is not None:
        gone = gone.where(ReservationRow.id.in_(only))
    return tx.execute(gone.returning(ReservationRow.id)).first() is not None


def _check_one(limits: Mapping[str, int], size_gib: int) -> None:
    most = limits["per_volume_gigabytes"]
    if most != UNLIMITED and size_gib > most:
        raise OverQuota(
            f"VolumeSizeExceedsLimit: Requested volume size {size_gib} is larger than maximum "
            f"allowed limit {most}. Nothing was changed; ask for a smaller volume.",
        )


def claim_snapshot(tx: Session, project_id: str, volume_type: TypeRow, size_gib: int) -> None:
    """Hold the project's quota; raise OverQuota when one more snapshot does not fit."""
    hold(tx, project_id)
    limits = find_limits(tx, project_id)
    total, typed = sum_usage(tx, project_id), sum_usage(tx, project_id, volume_type.id)
    for usage, suffix in ((total, ""), (typed, f"_{volume_type.name}")):
        _check_size(f"gigabytes{suffix}", limits, usage, size_gib)
        _check_count(f"snapshots{suffix}", limits, usage.snapshots)


def _check_size(name: str, limits: Mapping[str, int], usage: Usage, wanted: int) -> None:
    used = usage.gigabytes + usage.reserved
    if limits[name] != UNLIMITED and used + wanted > limits[name]:
        raise OverQuota(
            "VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed "
            f"{name} quota. Requested {wanted}G, quota is {limits[name]}G and {used}G has been "
            "consumed. Nothing was changed; delete volumes or ask for a higher quota.",
        )


def _check_count(name: str, limits: Mapping[str, int], used: int) -> None:
    if limits[name] != UNLIMITED and used + 1 > limits[name]:
        kind = "snapshot" if name.startswith("snapshots") else "volume"
        raise OverQuota(
            f"{kind.capitalize()}LimitExceeded: Maximum number of {kind}s allowed ({limits[name]}) "
            f"exceeded for quota '{name}'. Nothing was made; delete {kind}s or ask for a higher "
            "quota.",
        )


def set_limits(tx: Session, project_id: str, wanted: Mapping[str, int]) -> dict[str, int]:
    """Set a project's limits, and return all of them.

    Raises Invalid below what the project uses already.
    """
    hold(tx, project_id)
    used, reserved = find_usage(tx, project_id), find_reserved(tx, project_id)
    _check_resources(tx, wanted)
    for resource, limit in wanted.items():
        taken = used[resource] + reserved[resource]
        if limit != UNLIMITED and limit < taken:
            raise Invalid(
                f"Invalid input received: Quota limit {limit} for {resource} is less than the "
                f"{taken} in use. Nothing was changed; set at least what is in use.",
            )
    for resource, limit in wanted.items():
        tx.merge(QuotaRow(project_id=project_id, resource=resource, hard_limit=limit))
    tx.flush()
    return find_limits(tx, project_id)


def set_class_limits(tx: Session, class_name: str, wanted: Mapping[str, int]) -> dict[str, int]:
    """Set the limits of a quota class, and return all of them."""
    _check_resources(tx, wanted)
    for resource, limit in wanted.items():
        tx.merge(QuotaClassRow(class_name=class_name, resource=resource, hard_limit=limit))
    tx.flush()
    return find_defaults(tx, class_name)


def forget_limits(tx: Session, project_id: str) -> None:
    """Let the default class hold for a project again."""
    tx.execute(delete(QuotaRow).where(QuotaRow.project_id == project_id))


def _check_resources(tx: Session, wanted: Mapping[str, int]) -> None:
    known = set(DEFAULTS) | set(_type_resources(tx))
    unknown = sorted(set(wanted) - known)
    if unknown:
        raise Invalid(
            f"Invalid input received: there is no quota for {', '.join(unknown)}. "
            "Nothing was changed.",
        )


def _type_resources(tx: Session) -> list[str]:
    names = tx.execute(select(TypeRow.name).order_by(TypeRow.name)).scalars()
    return [f"{resource}_{name}" for name in names for resource in _PER_TYPE]
