"""What projects take of their quotas, summed up from the rows themselves.

The statements read indices alone, which have the sizes: what a row holds besides is thirty times as
much.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    Select,
    String,
    bindparam,
    cast,
    func,
    select,
    true,
)
from sqlalchemy.orm import Session, aliased

from mooring.store.prepared import Prepared
from mooring.volume.sums import reserved_gib, total_gib
from mooring.volume.tables import (
    BackupRow,
    ReservationRow,
    SnapshotRow,
    TypeRow,
    VolumeRow,
)

TARGET = "target:"
"""How the `migration_status` of a volume's copy begins; the volume's id is the rest."""


class Usage(Struct, frozen=True):
    """What volumes and snapshots take: how many, and how many GiB they have together.

    One in error counts until it is gone. `reserved` are GiB more that operations may take before
    they end. A volume in use that is to get another type counts in both: its copy has the new one.
    """

    volumes: int = 0
    gigabytes: int = 0
    reserved: int = 0
    snapshots: int = 0


def sum_up(tx: Session, project_id: str, type_id: str | None = None) -> Usage:
    """Return what a project's volumes and snapshots take, of all types or of one.

    In one statement: what is reserved turns into size when a volume has grown, and between two
    statements that would be counted twice or not at all.
    """
    tx.flush()
    if type_id is None:
        [found] = _all_types.all(tx, of_project=project_id)
    else:
        [found] = _one_type.all(tx, of_project=project_id, of_type=type_id)
    return found


def find_snapshots(tx: Session, volume_id: str) -> dict[str, Usage]:
    """Return what the snapshots of one volume take, by the project that owns them."""
    tx.flush()
    query = select(SnapshotRow.project_id, func.count(), total_gib(SnapshotRow))
    query = query.where(SnapshotRow.volume_id == volume_id).group_by(SnapshotRow.project_id)
    return {
        project_id: Usage(snapshots=count, gigabytes=gigabytes)
        for project_id, count, gigabytes in tx.execute(query)
    }


def find_used(tx: Session, project_id: str) -> Counter[str]:
    """Return what a project uses, by resource; 0 for what this service does not make."""
    total = sum_up(tx, project_id)
    found = Counter(volumes=total.volumes, gigabytes=total.gigabytes, snapshots=total.snapshots)
    found["backups"], found["backup_gigabytes"] = sum_backups(tx, project_id)
    query = (
        select(TypeRow.name, func.count(), total_gib())
        .join(VolumeRow, VolumeRow.volume_type_id == TypeRow.id)
        .where(VolumeRow.project_id == project_id)
        .group_by(TypeRow.name)
    )
    for name, volumes, gigabytes in tx.execute(query):
        found[f"volumes_{name}"] = volumes
        found[f"gigabytes_{name}"] = gigabytes
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


def sum_backups(tx: Session, project_id: str) -> tuple[int, int]:
    """Return how many backups a project has, and how many GiB their volumes had together."""
    tx.flush()
    query = select(func.count(), total_gib(BackupRow)).where(BackupRow.project_id == project_id)
    [(count, gigabytes)] = tx.execute(query)
    return count, gigabytes


def find_reserved(tx: Session, project_id: str) -> Counter[str]:
    """Return what a project's operations may take besides, by resource."""
    found = Counter[str]()
    query = (
        select(TypeRow.name, reserved_gib())
        .join(ReservationRow, ReservationRow.volume_type_id == TypeRow.id)
        .where(ReservationRow.project_id == project_id)
        .group_by(TypeRow.name)
    )
    for name, gigabytes in tx.execute(query):
        found[f"gigabytes_{name}"] = gigabytes
        found["gigabytes"] += gigabytes
    coming = _coming(project_id).join(TypeRow, TypeRow.id == _copy.volume_type_id)
    named = coming.add_columns(TypeRow.name).group_by(TypeRow.name)
    for volumes, gigabytes, name in tx.execute(named):
        found[f"volumes_{name}"] += volumes
        found[f"gigabytes_{name}"] += gigabytes
    return found


def _coming(project: str | ColumnElement[str]) -> Select[int, int]:
    """Ask how many volumes of a project are to get another type, and for their GiB.

    The copy of each has it already, and goes when its volume has got it, or has not.
    """
    gigabytes = cast(func.coalesce(func.sum(_copy.size_gib), 0), BigInteger)
    query = select(func.count(), gigabytes).select_from(_copy)
    query = query.join(VolumeRow, VolumeRow.id == func.substr(_copy.migration_status, _ID_FROM))
    return query.where(
        _copy.project_id == "",
        VolumeRow.project_id == project,
        VolumeRow.copy_id == _copy.id,
        VolumeRow.volume_type_id != _copy.volume_type_id,
    )


def _summing(*, of_one_type: bool) -> Prepared[Usage]:
    held = select(func.count(), total_gib()).where(VolumeRow.project_id == _PROJECT)
    taken = select(func.count(), total_gib(SnapshotRow))
    taken = taken.where(SnapshotRow.project_id == _PROJECT)
    more = select(reserved_gib()).where(ReservationRow.project_id == _PROJECT)
    if of_one_type:
        held = held.where(VolumeRow.volume_type_id == _TYPE)
        taken = taken.join(VolumeRow, VolumeRow.id == SnapshotRow.volume_id)
        taken = taken.where(VolumeRow.volume_type_id == _TYPE)
        more = more.where(ReservationRow.volume_type_id == _TYPE)
    parts = [held.subquery("held"), taken.subquery("taken"), more.subquery("more")]
    if of_one_type:
        coming = _coming(_PROJECT).where(_copy.volume_type_id == _TYPE)
        parts.append(coming.subquery("coming"))
    columns: list[ColumnElement[int]] = [column for part in parts for column in part.c]
    joined: FromClause = parts[0]
    for part in parts[1:]:
        joined = joined.join(part, true())
    return Prepared(select(*columns).select_from(joined), _read)


def _read(*sums: int) -> Usage:
    volumes, gigabytes, snapshots, taken_gib, reserved, *coming = sums
    more, more_gib = coming or (0, 0)
    return Usage(volumes + more, gigabytes + taken_gib, reserved + more_gib, snapshots)


_copy = aliased(VolumeRow, name="copies")
_ID_FROM = len(TARGET) + 1
_PROJECT, _TYPE = bindparam("of_project", type_=String), bindparam("of_type", type_=String)
_all_types = _summing(of_one_type=False)
_one_type = _summing(of_one_type=True)
