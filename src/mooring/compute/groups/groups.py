"""Server groups: made, found, joined and left (facts/compute.md 10.2, 11.5)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

from msgspec import Struct
from sqlalchemy import bindparam, delete, func, insert, select

from mooring.compute.quotas import quota
from mooring.compute.tables import Server, ServerGroup, ServerGroupMember
from mooring.errors import NotFound, OverQuota
from mooring.store.loaded import Adding, Loaded
from mooring.store.prepared import Prepared

if TYPE_CHECKING:
    from sqlalchemy import Select
    from sqlalchemy.orm import Session

    from mooring.who import Who

Policy = Literal["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"]

_by_id = Loaded(ServerGroup, lambda columns: columns.id == bindparam("of_id"))
_add = Adding(ServerGroup)
_of_server = Prepared(
    select(ServerGroupMember.group_id).where(ServerGroupMember.server_id == bindparam("of_server")),
    str,
)
_leave = Prepared(
    delete(ServerGroupMember).where(ServerGroupMember.server_id == bindparam("of_server"))
)


class NewGroup(Struct, frozen=True):
    """A group to be made. `most`: how many members one host may have; None is one."""

    name: str
    policy: Policy
    most: int | None = None


def create(tx: Session, who: Who, new: NewGroup, now: datetime) -> ServerGroup:
    """Make an empty group of the caller's project. Raises OverQuota."""
    quota.hold(tx, who.project_id)
    most = quota.find_limits(tx, who.project_id)["server_groups"]
    if most != quota.UNLIMITED and count(tx, who.project_id) >= most:
        raise OverQuota(
            f"Quota exceeded, too many server groups: {most} are allowed. Nothing was created; "
            "delete one first.",
            resources=["server_groups"],
        )
    return _add(
        tx,
        ServerGroup(
            id=str(uuid4()),
            project_id=who.project_id,
            user_id=who.user_id,
            name=new.name,
            policy=new.policy,
            max_server_per_host=new.most,
            created_at=now,
        ),
    )


def visible(tx: Session, who: Who, group_id: str) -> ServerGroup:
    """Return a group of the caller's project, to administrators any. Raises NotFound."""
    group = _by_id.first(tx, of_id=group_id)
    if group is None or not (who.is_admin or group.project_id == who.project_id):
        raise NotFound(f"Instance group {group_id} could not be found.")
    return group


def page(tx: Session, project_id: str | None, *, offset: int, limit: int) -> Sequence[ServerGroup]:
    """Return a project's groups, or with None all, in the order of their making."""
    query = select(ServerGroup).order_by(ServerGroup.position).offset(offset).limit(limit)
    if project_id is not None:
        query = query.where(ServerGroup.project_id == project_id)
    return tx.execute(query).scalars().all()


def remove(tx: Session, who: Who, group_id: str) -> None:
    """Delete a group; its servers stay where they are. Raises NotFound."""
    group = visible(tx, who, group_id)
    tx.execute(delete(ServerGroupMember).where(ServerGroupMember.group_id == group.id))
    tx.execute(delete(ServerGroup).where(ServerGroup.position == group.position))


def members(tx: Session, group_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return the servers of each group, in the order of their making."""
    found: dict[str, list[str]] = {}
    query = _living().where(ServerGroupMember.group_id.in_(group_ids))
    for group_id, server_id in tx.execute(query.order_by(Server.created_at, Server.id)):
        found.setdefault(group_id, []).append(server_id)
    return found


def of_server(tx: Session, server_id: str) -> list[str]:
    """Return the ids of the groups that a server is in: one at most."""
    return _of_server.all(tx, of_server=server_id)


def join(tx: Session, who: Who, group_id: str, server_ids: Sequence[str]) -> None:
    """Make new servers of the caller members of a group. Raises NotFound, OverQuota.

    The group's row is locked, so that two that join at once do not both take the last place.
    """
    group = visible(tx, who, group_id)
    most = quota.find_limits(tx, who.project_id)["server_group_members"]
    mine = _living().where(ServerGroupMember.group_id == group.id, Server.user_id == who.user_id)
    present = tx.execute(select(func.count()).select_from(mine.subquery())).scalar_one()
    if most != quota.UNLIMITED and present + len(server_ids) > most:
        raise OverQuota(
            f"Quota exceeded, too many servers in group {group.id}: {present} of {most} are there. "
            "Nothing was created; delete one of them, or use another group.",
            resources=["server_group_members"],
        )
    rows = [{"server_id": server_id, "group_id": group.id} for server_id in server_ids]
    tx.execute(insert(ServerGroupMember), rows)


def leave(tx: Session, server_id: str) -> None:
    """Take a server that is gone out of its group, if it is in one."""
    _leave.run(tx, {"of_server": server_id})


def count(tx: Session, project_id: str) -> int:
    """Return how many groups a project has."""
    query = select(func.count()).select_from(ServerGroup)
    return tx.execute(query.where(ServerGroup.project_id == project_id)).scalar_one()


def _living() -> Select[str, str]:
    return (
        select(ServerGroupMember.group_id, ServerGroupMember.server_id)
        .join(Server, Server.id == ServerGroupMember.server_id)
        .where(Server.deleted_at.is_(None))
    )
