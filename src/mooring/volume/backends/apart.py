"""Which pools of two hosts are two storages: several hosts may have one share.

Who removes a volume from a host takes it out of every pool of that host, so none of those may be
where another host has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from datetime import datetime

    from mooring.volume.tables import BackendRow


class Seen(Struct, frozen=True):
    """The identities of hosts' pools, by the host and by the pool's full name; "": not known."""

    by_host: dict[str, dict[str, str]]

    def are_apart(self, source: str, target: str) -> bool | None:
        """Whether the host of neither pool sees the other pool's storage; None: nobody can tell.

        Pools of one host are its own affair.
        """
        here, there = (self.by_host.get(_host(name), {}) for name in (source, target))
        if _host(source) == _host(target):
            return True
        one, other = here.get(source, ""), there.get(target, "")
        if (one and one in there.values()) or (other and other in here.values()):
            return False
        is_known = one and other and all([*here.values(), *there.values()])
        return True if is_known else None

    def are_one(self, source: str, target: str) -> bool:
        """Whether two pools are known to be one storage, where each file's name is there once."""
        one, other = (self.by_host.get(_host(name), {}).get(name, "") for name in (source, target))
        return bool(one) and one == other


def of_rows(rows: Iterable[BackendRow], *, down_s: float) -> Seen:
    """Return the pools that each host has told of lately, when it was heard last.

    Not just then: a host may be heard between two looks of one transaction.
    """
    by_host: dict[str, dict[str, str]] = {}
    newest: dict[str, datetime] = {}
    for row in sorted(rows, key=lambda row: row.seen_at, reverse=True):
        # Older ones are of pools that the host has no more.
        if newest.setdefault(row.host, row.seen_at) - row.seen_at <= timedelta(seconds=down_s):
            by_host.setdefault(row.host, {})[row.name] = row.identity
    return Seen(by_host)


def _host(name: str) -> str:
    return name.partition("@")[0]
