"""What a project may use. Usage is summed up under a lock, never counted.

What an operation may take soon stands in reservations: rows of that operation, which count as used.
Source: facts/block_storage.md 6. Beside the resources named here each volume type has three of its
own: `volumes_<type>`, `gigabytes_<type>` and `snapshots_<type>`.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Literal, cast

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Table, bindparam, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from mooring.errors import Invalid, OverQuota
from mooring.store.loaded import Adding
from mooring.store.prepared import Prepared
from mooring.volume.quotas import usage
from mooring.volume.tables import (
    QuotaClassRow,
    QuotaProjectRow,
    QuotaRow,
    ReservationRow,
    TypeRow,
    VolumeRow,
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


class _More(Struct, frozen=True):
    """What is to be taken: `gib` more of a type, and `one_of` what is counted, "" for none."""

    project_id: str
    type_id: str
    type_name: str
    gib: int
    one_of: Literal["", "volumes", "snapshots"] = ""


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
    tx.flush()
    found = {**DEFAULTS, **dict.fromkeys(_type_resources(tx), UNLIMITED)}
    rows = _class_limits.all(tx, of_class=class_name)
    return found | {resource: limit for resource, limit in rows if resource in found}


def find_limits(tx: Session, project_id: str) -> dict[str, int]:
    """Return a project's limits, by resource; -1 is no limit."""
    found = find_defaults(tx)
    rows = _own_limits.all(tx, of_project=project_id)
    return found | {resource: limit for resource, limit in rows if resource in found}


def hold(tx: Session, project_id: str) -> None:
    """Let nobody else add to this project's usage until the transaction ends.

    What is no project's is held by a word of its own in the place of a project's id.
    """
    _hold.run(tx, {"project_id": project_id, "takings": 1})


def hold_types(tx: Session) -> None:
    """Let nobody else rename or delete a volume type, or set a limit of one, until this ends."""
    hold(tx, "volume types")


def claim(tx: Session, project_id: str, volume_type: TypeRow, size_gib: int) -> None:
    """Hold the project's quota; raise OverQuota when one more volume of this size does not fit."""
    hold(tx, project_id)
    limits = find_limits(tx, project_id)
    _check_one(limits, size_gib)
    _check_room(
        tx, limits, _More(project_id, volume_type.id, volume_type.name, size_gib, "volumes")
    )


def claim_snapshot(tx: Session, project_id: str, volume_type: TypeRow, size_gib: int) -> None:
    """Hold the project's quota; raise OverQuota when one more snapshot does not fit."""
    hold(tx, project_id)
    more = _More(project_id, volume_type.id, volume_type.name, size_gib, "snapshots")
    _check_room(tx, find_limits(tx, project_id), more)


def claim_type(tx: Session, row: VolumeRow, new_type: TypeRow) -> None:
    """Hold the quota of a volume's project; raise OverQuota unless another type has room for it.

    Only what is counted for each type changes, for the volume and for its snapshots, each of which
    counts for the project that owns it: a former project of the volume may have kept some.
    """
    taken = usage.find_snapshots(tx, row.id)
    # In one order, so that no two of these wait for each other.
    for project_id in sorted({row.project_id, *taken}):
        hold(tx, project_id)
    mine = taken.pop(row.project_id, usage.Usage())
    whole = replace(mine, volumes=1, gigabytes=row.size_gib + mine.gigabytes)
    _check_type(tx, row.project_id, new_type, whole)
    for project_id, kept in taken.items():
        try:
            _check_type(tx, project_id, new_type, kept)
        except OverQuota as error:
            # What another project may use, and uses, is not told.
            raise OverQuota(
                f"VolumeSizeExceedsAvailableQuota: Snapshots of volume {row.id} that a former "
                f"project has kept exceed that project's quota for volume type {new_type.name}. "
                "Nothing was changed; choose another type, or have those snapshots deleted.",
            ) from error


def _check_type(tx: Session, project_id: str, new_type: TypeRow, more: usage.Usage) -> None:
    limits, suffix = find_limits(tx, project_id), f"_{new_type.name}"
    used = usage.sum_up(tx, project_id, new_type.id)
    _check_size(f"gigabytes{suffix}", limits, used, more.gigabytes)
    _check_count(f"volumes{suffix}", limits, used.volumes, more.volumes)
    _check_count(f"snapshots{suffix}", limits, used.snapshots, more.snapshots)


def claim_backup(tx: Session, project_id: str, size_gib: int) -> None:
    """Hold the project's quota; raise OverQuota when one more backup of this size does not fit."""
    hold(tx, project_id)
    limits = find_limits(tx, project_id)
    most, most_gib = limits["backups"], limits["backup_gigabytes"]
    if most == most_gib == UNLIMITED:
        return
    used, used_gib = usage.sum_backups(tx, project_id)
    if most_gib != UNLIMITED and used_gib + size_gib > most_gib:
        raise OverQuota(
            "VolumeBackupSizeExceedsAvailableQuota: Requested backup exceeds allowed "
            f"backup_gigabytes quota. Requested {size_gib}G, quota is {most_gib}G and {used_gib}G "
            "has been consumed. Nothing was made; delete backups or ask for a higher quota.",
        )
    if most != UNLIMITED and used + 1 > most:
        raise OverQuota(
            f"BackupLimitExceeded: Maximum number of backups allowed ({most}) exceeded for quota "
            "'backups'. Nothing was made; delete backups or ask for a higher quota.",
        )


def reserve(tx: Session, growth: Growth) -> ReservationRow:
    """Write down what a volume will take besides. Raises OverQuota when it does not fit."""
    row, project_id = growth.row, growth.row.project_id
    _check_one(find_limits(tx, growth.asker_id), growth.size_gib)
    hold(tx, project_id)
    delta = growth.size_gib - row.size_gib
    more = _More(project_id, row.volume_type_id, growth.type_name, delta)
    _check_room(tx, find_limits(tx, project_id), more)
    reservation = ReservationRow(
        id=str(uuid.uuid4()),
        project_id=project_id,
        volume_id=row.id,
        volume_type_id=row.volume_type_id,
        delta_gib=delta,
        saga_id=growth.saga_id,
        created_at=growth.now,
    )
    return _add(tx, reservation)


def settle(tx: Session, volume_id: str, only: Collection[str] | None = None) -> bool:
    """Let go of what is reserved for a volume (`only` of these ids); tell whether anything was.

    Used to commit, when the volume's size counts it from now on, and to roll back.
    """
    if only is None:
        return bool(_settle.all(tx, of_volume=volume_id))
    gone = delete(ReservationRow).where(
        ReservationRow.volume_id == volume_id, ReservationRow.id.in_(only)
    )
    return tx.execute(gone.returning(ReservationRow.id)).first() is not None


def _check_one(limits: Mapping[str, int], size_gib: int) -> None:
    most = limits["per_volume_gigabytes"]
    if most != UNLIMITED and size_gib > most:
        raise OverQuota(
            f"VolumeSizeExceedsLimit: Requested volume size {size_gib} is larger than maximum "
            f"allowed limit {most}. Nothing was changed; ask for a smaller volume.",
        )


def _check_room(tx: Session, limits: Mapping[str, int], more: _More) -> None:
    """Raise OverQuota unless it fits; usage without a limit is not summed up."""
    for type_id, suffix in ((None, ""), (more.type_id, f"_{more.type_name}")):
        size, count = f"gigabytes{suffix}", f"{more.one_of}{suffix}" if more.one_of else ""
        if limits[size] == limits.get(count, UNLIMITED) == UNLIMITED:
            continue
        used = usage.sum_up(tx, more.project_id, type_id)
        _check_size(size, limits, used, more.gib)
        if more.one_of:
            _check_count(count, limits, getattr(used, more.one_of))


def _check_size(name: str, limits: Mapping[str, int], usage: usage.Usage, wanted: int) -> None:
    used = usage.gigabytes + usage.reserved
    if limits[name] != UNLIMITED and used + wanted > limits[name]:
        raise OverQuota(
            "VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed "
            f"{name} quota. Requested {wanted}G, quota is {limits[name]}G and {used}G has been "
            "consumed. Nothing was changed; delete volumes or ask for a higher quota.",
        )


def _check_count(name: str, limits: Mapping[str, int], used: int, more: int = 1) -> None:
    if more and limits[name] != UNLIMITED and used + more > limits[name]:
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
    _check_resources(tx, wanted)
    used, reserved = usage.find_used(tx, project_id), usage.find_reserved(tx, project_id)
    for resource, limit in wanted.items():
        taken = used[resource] + reserved[resource]
        if limit != UNLIMITED and limit < taken:
            raise Invalid(
                f"Invalid input received: Quota limit {limit} for {resource} is less than the "
                f"{taken} in use. Nothing was changed; set at least what is in use.",
            )
    for resource, limit in wanted.items():
        tx.merge(QuotaRow(project_id=project_id, resource=resource, hard_limit=limit))
    return find_limits(tx, project_id)


def set_class_limits(tx: Session, class_name: str, wanted: Mapping[str, int]) -> dict[str, int]:
    """Set the limits of a quota class, and return all of them."""
    _check_resources(tx, wanted)
    for resource, limit in wanted.items():
        tx.merge(QuotaClassRow(class_name=class_name, resource=resource, hard_limit=limit))
    return find_defaults(tx, class_name)


def forget_limits(tx: Session, project_id: str) -> None:
    """Let the default class hold for a project again."""
    tx.execute(delete(QuotaRow).where(QuotaRow.project_id == project_id))


def rename_type(tx: Session, name: str, new_name: str) -> None:
    """Let the limits of a volume type that gets another name go with it, in all projects.

    Types are held.
    """
    # No type has the new name: what stands there is of one that is gone.
    forget_type(tx, new_name)
    for resource, new in zip(_resources_of(name), _resources_of(new_name), strict=True):
        for row in (QuotaRow, QuotaClassRow):
            tx.execute(update(row).where(row.resource == resource).values(resource=new))


def forget_type(tx: Session, name: str) -> None:
    """Forget all limits of a volume type, so that no later one of its name inherits them."""
    for row in (QuotaRow, QuotaClassRow):
        tx.execute(delete(row).where(row.resource.in_(_resources_of(name))))


def _check_resources(tx: Session, wanted: Mapping[str, int]) -> None:
    if not wanted.keys() <= DEFAULTS.keys():
        hold_types(tx)
    known = set(DEFAULTS) | set(_type_resources(tx))
    unknown = sorted(set(wanted) - known)
    if unknown:
        raise Invalid(
            f"Invalid input received: there is no quota for {', '.join(unknown)}. "
            "Nothing was changed.",
        )


def _type_resources(tx: Session) -> list[str]:
    return [resource for name in _type_names.all(tx) for resource in _resources_of(name)]


def _resources_of(type_name: str) -> list[str]:
    return [f"{resource}_{type_name}" for resource in _PER_TYPE]


def _holding(dialect: str) -> postgresql.Insert | sqlite.Insert:
    insert = (postgresql if dialect == "postgresql" else sqlite).insert(_holders)
    more = {"takings": _holders.c.takings + insert.excluded.takings}
    return insert.on_conflict_do_update(index_elements=list(_holders.primary_key), set_=more)


_add = Adding(ReservationRow)
_settle = Prepared(
    delete(ReservationRow)
    .where(ReservationRow.volume_id == bindparam("of_volume"))
    .returning(ReservationRow.id),
    str,
)
_holders = cast("Table", QuotaProjectRow.__table__)
_hold = Prepared[Any](build=_holding)
_class_limits = Prepared[tuple[str, int]](
    select(QuotaClassRow.resource, QuotaClassRow.hard_limit).where(
        QuotaClassRow.class_name == bindparam("of_class")
    )
)
_own_limits = Prepared[tuple[str, int]](
    select(QuotaRow.resource, QuotaRow.hard_limit).where(
        QuotaRow.project_id == bindparam("of_project")
    )
)
_type_names = Prepared(select(TypeRow.name).order_by(TypeRow.name), str)
