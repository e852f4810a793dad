"""Where the policy of a server group lets a member be.

Whoever is about to be on a host says so in the transaction that looks where the others are, under
the lock of the group's row: of two that hurry to one place, the second sees the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import bindparam, select, update

from mooring.compute.tables import Server, ServerGroup, ServerGroupMember
from mooring.store.loaded import Loaded

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_by_id = Loaded(ServerGroup, lambda columns: columns.id == bindparam("of_id"))


class Standing(Struct, frozen=True):
    """A group as one of its members sees it. `present`: how many others are, or will be, on a host.

    `most`: how many members of an anti-affinity group one host may have.
    `is_torn`: whether another one is between two hosts, and may end up on either.
    """

    name: str
    policy: str
    most: int
    present: Mapping[str, int]
    is_torn: bool = False

    def refusal(self, host: str) -> str:
        """Return why a host will not do, as `filters.refusal` does; "" when it may."""
        count = self.present.get(host, 0)
        if self.policy == "anti-affinity" and count >= self.most:
            held = "a member" if count == 1 else f"{count} members"
            return f"with {held} of the anti-affinity group {self.name}"
        if self.policy == "affinity" and self.present and not count:
            return f"without the other members of the affinity group {self.name}"
        if self.policy == "affinity" and self.is_torn:
            return f"while a move in the affinity group {self.name} is not over or confirmed"
        return ""

    def cost(self, host: str) -> int:
        """Return a number by which hosts are ordered, the best first."""
        count = self.present.get(host, 0)
        return {"soft-affinity": -count, "soft-anti-affinity": count}.get(self.policy, 0)


def find(tx: Session, group_id: str, server_id: str) -> Standing | None:
    """Return a group as this member sees it; None when the group is gone.

    In a transaction that writes, the group is locked until its end.
    """
    group = _by_id.first(tx, of_id=group_id)
    if group is None:
        return None
    most = group.max_server_per_host or 1
    places = _read_places(tx, group_id, server_id)
    present = Counter(place for member in places for place in member)
    is_torn = any(len(member) > 1 for member in places)
    return Standing(group.name, group.policy, most, present, is_torn)


def take_place(tx: Session, group_id: str, server_id: str, host: str) -> bool:
    """Say that a member is about to be on a host; False when the policy does not let it.

    Taking another place gives the former one back.
    """
    standing = find(tx, group_id, server_id)
    if standing is not None and standing.refusal(host):
        return False
    _bind(tx, server_id, host)
    return True


def keep_place(tx: Session, server_id: str, host: str) -> None:
    """Say that a member may be on a host again where it was, whatever the others do meanwhile."""
    _bind(tx, server_id, host)


def leave_place(tx: Session, server_id: str) -> None:
    """Say that a server is about to be nowhere else: it has arrived, or turned back."""
    _bind(tx, server_id, None)


def group_of(tx: Session, server_id: str) -> str:
    """Return the id of a server's group; "" without one."""
    query = select(ServerGroupMember.group_id).where(ServerGroupMember.server_id == server_id)
    return tx.execute(query).scalar() or ""


def _bind(tx: Session, server_id: str, host: str | None) -> None:
    mine = update(ServerGroupMember).where(ServerGroupMember.server_id == server_id)
    tx.execute(mine.values(bound_for=host))


def _read_places(tx: Session, group_id: str, server_id: str) -> list[set[str]]:
    """Return where each of the other members is, or will be; one that moves may be at both."""
    query = (
        select(Server.host, ServerGroupMember.bound_for)
        .join(Server, Server.id == ServerGroupMember.server_id)
        .where(
            ServerGroupMember.group_id == group_id,
            ServerGroupMember.server_id != server_id,
            Server.deleted_at.is_(None),
        )
    )
    return [{place for place in places if place} for places in tx.execute(query)]
