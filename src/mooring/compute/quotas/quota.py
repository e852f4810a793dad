"""What a project may use: summed up under a lock, never counted (facts/compute.md 11.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct
from sqlalchemy import Table, bindparam, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from mooring.compute.tables import QuotaDefault, QuotaLimit, QuotaLock, Server
from mooring.errors import OverQuota
from mooring.store.prepared import Prepared

UNLIMITED = -1

DEFAULTS: Mapping[str, int] = {
    "instances": 10,
    "cores": 20,
    "ram": 51200,
    "metadata_items": 128,
    "key_pairs": 100,
    "server_groups": 10,
    "server_group_members": 10,
    "injected_files": 5,
    "injected_file_content_bytes": 10240,
    "injected_file_path_bytes": 255,
}
"""The limits of a cloud whose operator has set none; `ram` is in MiB."""


class Usage(Struct, frozen=True):
    """What servers take, or would take. A server in ERROR counts until it is deleted."""

    instances: int = 0
    cores: int = 0
    ram: int = 0
    """MiB."""


def find_defaults(tx: Session) -> dict[str, int]:
    """Return the limits of a project without its own."""
    tx.flush()
    return {**DEFAULTS, **dict(_default_limits.all(tx))}


def find_limits(tx: Session, project_id: str) -> dict[str, int]:
    """Return a project's limits by resource name; -1 is no limit."""
    return {**find_defaults(tx), **dict(_own_limits.all(tx, of_project=project_id))}


def sum_usage(tx: Session, project_id: str, user_id: str | None = None) -> Usage:
    """Return what a project's servers take; with a user, only what that user's take."""
    tx.flush()
    if user_id is None:
        (used,) = _used.all(tx, of_project=project_id)
    else:
        (used,) = _used_by.all(tx, of_project=project_id, of_user=user_id)
    return used


def hold(tx: Session, owner_id: str) -> None:
    """Let nobody else add to what a project, or a user, has until the transaction ends."""
    _hold.run(tx, {"project_id": owner_id, "takings": 1})


def check(tx: Session, project_id: str, wanted: Usage) -> None:
    """Hold the project's quota and raise OverQuota when `wanted` does not fit any more."""
    hold(tx, project_id)
    limits, used = find_limits(tx, project_id), sum_usage(tx, project_id)
    over = [
        name
        for name in ("cores", "instances", "ram")
        if limits[name] != UNLIMITED
        and getattr(wanted, name) > 0
        and getattr(used, name) + getattr(wanted, name) > limits[name]
    ]
    if not over:
        return
    asked = ", ".join(str(getattr(wanted, name)) for name in over)
    has = ", ".join(str(getattr(used, name)) for name in over)
    most = ", ".join(str(limits[name]) for name in over)
    names = ", ".join(over)
    raise OverQuota(
        f"Quota exceeded for {names}: Requested {asked}, but already used {has} of {most} {names}. "
        "Nothing was created; delete servers or ask for a higher quota.",
        resources=over,
    )


def check_metadata(tx: Session, project_id: str, items: int) -> None:
    """Raise OverQuota when a server may not have so many metadata items."""
    most = find_limits(tx, project_id)["metadata_items"]
    if most != UNLIMITED and items > most:
        raise OverQuota(
            f"Maximum number of metadata items exceeded: {items} of {most}. Nothing was changed; "
            "use fewer items.",
            resources=["metadata_items"],
        )


def _holding(dialect: str) -> postgresql.Insert | sqlite.Insert:
    insert = (postgresql if dialect == "postgresql" else sqlite).insert(_locks)
    more = {"takings": _locks.c.takings + insert.excluded.takings}
    return insert.on_conflict_do_update(index_elements=list(_locks.primary_key), set_=more)


def _read_usage(instances: int, cores: int | None, ram: int | None) -> Usage:
    return Usage(instances, int(cores or 0), int(ram or 0))


_locks = cast("Table", QuotaLock.__table__)
_hold = Prepared[Any](build=_holding)
_default_limits = Prepared[tuple[str, int]](select(QuotaDefault.resource, QuotaDefault.maximum))
_own_limits = Prepared[tuple[str, int]](
    select(QuotaLimit.resource, QuotaLimit.maximum).where(
        QuotaLimit.project_id == bindparam("of_project")
    )
)
usage_query = select(
    func.count(),
    func.sum(Server.vcpus + Server.held_vcpus),
    func.sum(Server.memory_mib + Server.held_memory_mib),
).where(Server.project_id == bindparam("of_project"), Server.deleted_at.is_(None))
_used = Prepared(usage_query, _read_usage)
_used_by = Prepared(usage_query.where(Server.user_id == bindparam("of_user")), _read_usage)
