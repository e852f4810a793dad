"""Choosing a host: what a server takes, and which of placement's candidates may have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.compute.hosts import hosts
from mooring.errors import NoCapacity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.clients.placement import Candidate
    from mooring.compute.tables import Host, Server

NO_HOST = "No valid host was found. There are not enough hosts available."
CANDIDATES = 100
"""Candidates that placement is asked for."""
_TRAIT = "trait:"


class Chosen(Struct, frozen=True):
    """A host for a server, and what it is to hold there."""

    host: str
    zone: str
    allocations: dict[str, dict[str, int]]


def resources_of(server: Server, *, root_is_volume: bool) -> dict[str, int]:
    """Return what a server takes of a host: VCPU, MEMORY_MB, and DISK_GB where there is any."""
    disk_gib = server.ephemeral_gib + -(-server.swap_mib // 1024)
    if not root_is_volume:
        disk_gib += server.disk_gib
    wanted = {"VCPU": server.vcpus, "MEMORY_MB": server.memory_mib, "DISK_GB": disk_gib}
    return {name: amount for name, amount in wanted.items() if amount}


def traits_of(extra_specs: Mapping[str, str], more: Iterable[str] = ()) -> list[str]:
    """Return the traits that a host must have, those it must not have with a leading "!"."""
    found = set(more)
    for key, value in extra_specs.items():
        if key.startswith(_TRAIT):
            name = key.removeprefix(_TRAIT)
            found.add(f"!{name}" if value == "forbidden" else name)
    return sorted(found)


class Wish(Struct, frozen=True):
    """Where the user wants the server; None where it is all the same."""

    zone: str | None = None
    host: str | None = None


def choose(
    candidates: Sequence[Candidate],
    known: Iterable[Host],
    wish: Wish,
    now: datetime,
    down_after_s: float,
) -> list[Chosen]:
    """Return the hosts that may have it, in placement's order. Raises NoCapacity for none.

    A host forced by name may be disabled, but must be up.
    """
    by_provider = {host.provider_id: host for host in known}
    found: list[Chosen] = []
    for candidate in candidates:
        host = by_provider.get(candidate.provider_id)
        if host is None or not hosts.is_up(host, now, down_after_s):
            continue
        if wish.host is not None and host.name != wish.host:
            continue
        if wish.host is None and (host.disabled or wish.zone not in {None, host.zone}):
            continue
        found.append(Chosen(host.name, host.zone, candidate.allocations))
    if not found:
        raise NoCapacity(NO_HOST)
    return found
