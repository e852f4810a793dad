"""Servers that a server is to be with, or not: the scheduler hints same_host and different_host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from sqlalchemy import select

from mooring.compute.tables import Server

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

SAME, DIFFERENT = "same_host", "different_host"


class Company(Struct, frozen=True):
    """The hosts of the servers that were named; None where none was."""

    same: frozenset[str] | None
    different: frozenset[str] | None

    def refusal(self, host: str) -> str:
        """Return why a host will not do, in words behind a number of hosts; "" when it may."""
        if self.same is not None and host not in self.same:
            return "without a server that it is to be with"
        if self.different is not None and host in self.different:
            return "with a server that it is not to be with"
        return ""


def named_in(hints: Mapping[str, Any], hint: str) -> list[Any]:
    """Return what a hint names: one server, or a list of them."""
    named: Any = hints.get(hint, [])
    return cast("list[Any]", named) if isinstance(named, list) else [named]


def find(tx: Session, hints: Mapping[str, Any], server_id: str, project_id: str) -> Company | None:
    """Return where the servers are that a server's hints name; None when they name none.

    Only servers of its project count: nobody learns where those of others are.
    """
    named = {hint: ids for hint in (SAME, DIFFERENT) if (ids := named_in(hints, hint))}
    if not named:
        return None
    ids = {one for ids in named.values() for one in ids} - {server_id}
    query = select(Server.id, Server.host).where(
        Server.id.in_(ids), Server.project_id == project_id, Server.deleted_at.is_(None)
    )
    hosts = {row.id: row.host for row in tx.execute(query) if row.host}
    there = {
        hint: frozenset(hosts[one] for one in ids if one in hosts) for hint, ids in named.items()
    }
    return Company(there.get(SAME), there.get(DIFFERENT))
