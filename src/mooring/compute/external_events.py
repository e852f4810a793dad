"""What other services tell about a server's volumes and ports, and what becomes of it.

Source: facts/compute.md 8. An event that nobody waits for is accepted and changes nothing: the
cloud has no network service, no accelerators and no hosts without a hypervisor of ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.compute.tables import Server

ACCEPTED, NO_TAG, NO_SERVER, REFUSED = 200, 400, 404, 422

_TAGGED = frozenset({"volume-extended", "power-update", "accelerator-request-bound"})
_UNBUILT = frozenset({"volume-extended", "volume-reimaged"})
"""Events that ask for work that is not built: refused, so that the sender knows."""


class News(Struct, frozen=True, kw_only=True):
    """One event: `tag` is the id of the volume or port, "" when there is none."""

    server_id: str
    name: str
    status: str = "completed"
    tag: str = ""


def take(tx: Session, news: Sequence[News]) -> list[int]:
    """Take events; return a code for each, in their order."""
    ids = {one.server_id for one in news}
    found = select(Server.id, Server.host).where(Server.id.in_(ids), Server.deleted_at.is_(None))
    hosts = {row.id: row.host for row in tx.execute(found)}
    return [_take(one, hosts) for one in news]


def _take(one: News, hosts: dict[str, str | None]) -> int:
    if one.server_id not in hosts:
        return NO_SERVER
    if not one.tag and one.name in _TAGGED:
        return NO_TAG
    if not hosts[one.server_id] or one.name in _UNBUILT:
        return REFUSED
    return ACCEPTED
