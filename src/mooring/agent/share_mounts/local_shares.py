"""Shares of the driver `directory` on this very machine, which no server gives away.

Whoever takes one asks its rules first, as the server would that there is none of.
"""

from __future__ import annotations

from pathlib import Path

from mooring.agent.identities import RECORDS
from mooring.agent.share_drivers.directory import SHARE_PREFIX
from mooring.agent.share_drivers.records import Records
from mooring.agent.share_drivers.rules import find_level
from mooring.agent.share_mounts.base import not_let_in
from mooring.agent.share_mounts.exports import Export
from mooring.agent_api.shares import AccessLevel


def let_in(export: Export, address: str) -> AccessLevel | None:
    """Return how an address may have a share of this machine; None when it is none. Blocks.

    A directory is a share where its pool's record says so: nothing else of the machine is given
    away, whatever an export names. Raises Forbidden when no rule lets the address in.
    """
    path = Path(export.path)
    share_id = path.name.removeprefix(SHARE_PREFIX)
    # Many a name that may be tried here is too long for a file, or lies below one.
    if export.protocol != "NFS" or share_id == path.name or not Path(path).is_dir():
        return None
    record = Records(path.parent / RECORDS).find(share_id)
    if record is None or path.resolve() != path:
        return None
    rules = (rule for rule in record.rules.values() if rule.type == "ip")
    networks: dict[str, AccessLevel] = {rule.to: rule.level for rule in rules}
    if (level := find_level(networks, address)) is None:
        raise not_let_in(export, address)
    return level
