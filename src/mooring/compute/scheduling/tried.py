"""Hosts that were tried for a server and could not have it (facts/compute.md 4.7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.compute.hosts import guests
from mooring.limits import COMPUTE_BUILD_HOSTS

if TYPE_CHECKING:
    from mooring.errors import MooringError


class Tried(Struct, frozen=True):
    """A host that could not have the server, and why."""

    host: str
    why: str


def one_more(
    tried: Sequence[Tried], error: MooringError | None, host: str, wished_host: str | None
) -> list[Tried] | None:
    """Return what was tried by now when another host may do what this one refused, else None.

    A host that was asked for is the only one, and what is not the host's fault is so on every one.
    """
    if error is None or wished_host or error.detail.get(guests.BY_HOST) != host:
        return None
    if len(tried) + 1 >= COMPUTE_BUILD_HOSTS:
        return None
    return [*tried, Tried(host, error.public)]


def names(tried: Sequence[Tried]) -> list[str]:
    """Return the hosts that are not to be tried again."""
    return [one.host for one in tried]


def words(tried: Sequence[Tried]) -> str:
    """Return what each host said, in their order; "" when none was tried."""
    return " ".join(f"On {one.host} it failed: {one.why}" for one in tried)
