"""What a project may use: summed up under a lock, never counted (facts/compute.md 11.3)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from sqlalchemy import func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from mooring.compute.tables import QuotaDefault, QuotaLimit, QuotaLock, Server
from mooring.errors import OverQuota

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
    rows = tx.execute(select(QuotaDefault.resource, QuotaDefault.maximum))
    return {**DEFAULTS, **{row.resource: row.maximum for row in rows}}


def find_limits(tx: Session, project_id: str) -> dict[str, int]:
    """Return a project's limits by resource name; -1 is no limit."""
    own = select(QuotaLimit.resource, QuotaLimit.maximum).where(QuotaLimit.project_id == project_id)
    rows = tx.execute(own)
    return {**find_defaults(tx), **{row.resource: row.maximum for row in rows}}


def sum_usage(tx: Session, project_id: str, user_id: str | None = None) -> Usage:
    """Return what a project's servers take; with a user, only what that user's take."""
    query = select(func.count(), func.sum(Server.vcpus), func.sum(Server.memory_mib)).where(
        Server.project_id == project_id, Server.deleted_at.is_(None)
    )
    if user_id is not None:
        query = query.where(Server.user_id == user_id)
    instances, cores, ram = tx.execute(query).one()
    return Usage(instances, cores or 0, ram or 0)


def hold(tx: Session, project_id: str) -> None:
    """Let nobody else add to this project's usage until the transaction ends."""
    insert = postgresql.insert if tx.get_bind().dialect.name == "postgresql" else sqlite.insert
    tx.execute(insert(QuotaLock).values(project_id=project_id, takings=0).on_conflict_do_nothing())
    mine = update(QuotaLock).where(QuotaLock.project_id == project_id)
    tx.execute(mine.values(takings=QuotaLock.takings + 1))


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
