"""Which hosts mount shares where a server's host does (specs 003, mount path compatibility).

A share lies below its host's mount base, under a name made of its export alone: so hosts with equal
bases have it at one path, and a guest's definition is good for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.compute.tables import Host


def bases_for(host: Host, protocols: Iterable[str]) -> dict[str, str]:
    """Return below which directory a host mounts shares of these protocols; "" for nowhere."""
    return {each: host.mount_bases.get(each, "") for each in sorted(set(protocols))}


def refusal(mounts: Mapping[str, str], host: Host) -> str:
    """Return where a host mounts shares otherwise, behind a number of hosts; "" for nowhere."""
    for protocol, base in mounts.items():
        theirs = host.mount_bases.get(protocol, "")
        if theirs != base:
            where = f"below {theirs}" if theirs else "nowhere"
            return f"mounting {protocol} shares {where} and not below {base}"
    return ""
