"""Servers' shares have a living owner while they change, and agree with rules and with hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mooring.doctor.books import Books
from mooring.doctor.findings import Finding

_RETRY = "Start the cloud; what it does not mend within a minute is a bug worth reporting."
_START = "Stop the server, if it runs, and start it: a start lets its host in and mounts anew."
_REPORT = "Nothing was removed. See what it is before you remove it by hand."
_ON_ITS_WAY = ("attaching", "detaching")
_HALF = ("granting", "revoking")


def look(books: Books) -> Iterator[Finding]:
    """Yield what has no owner, and what rows, rules and hosts tell differently."""
    for row in books.server_shares.values():
        server_id = row["server_id"]
        if books.is_busy(f"server:{server_id}"):
            continue
        thing = f"share {row['share_id']} of server {server_id}"
        if server_id not in books.servers:
            yield Finding(thing, "owner", "its server is gone", _REPORT)
        elif row["status"] in _ON_ITS_WAY:
            yield Finding(thing, "owner", f"{row['status']}, and no operation", _RETRY)
        for place in row["places"]:
            yield from _place(books, thing, row, place)


def _place(
    books: Books, thing: str, row: dict[str, Any], place: dict[str, Any]
) -> Iterator[Finding]:
    host, state = place["host"], place["state"]
    if state in _HALF and row["status"] != "error":
        yield Finding(thing, "owner", f"{state} host {host}, and no operation", _RETRY)
        return
    rule = books.share_rules.get(place["rule_id"] or "")
    # Another share service than ours has its rules to itself.
    if row["share_id"] in books.shares and rule is None and state not in _HALF:
        message = f"host {host} has access rule {place['rule_id']}, which is gone"
        yield Finding(thing, "disagreement", message, _START)
    if state == "mounted" and host in books.inventories:
        mounts = books.inventories[host].share_mounts
        used = {(one.server_id, one.share_id) for one in mounts}
        if (row["server_id"], row["share_id"]) not in used:
            message = f"host {host} has it not mounted"
            yield Finding(thing, "disagreement", message, _START)
