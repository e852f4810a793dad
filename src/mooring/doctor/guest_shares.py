"""Servers' shares have a living owner while they change, and agree with rules and with hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mooring.clients.share import LockedRule
from mooring.compute.shares import access_rules, doors
from mooring.doctor.books import Books
from mooring.doctor.findings import Finding

_RETRY = "Start the cloud; what it does not mend within a minute is a bug worth reporting."
_START = "Stop the server, if it runs, and start it: a start lets its host in and mounts anew."
_SWEPT = "It is taken away within two minutes, unless an operation has it in hand."
_REPORT = "Nothing was removed. See what it is before you remove it by hand."
_KEPT = "Nothing was removed, and the host unmounts no share meanwhile, as it may be that one."
_ON_ITS_WAY = ("attaching", "detaching")
_HALF = ("granting", "leaving", "revoking")


def look(books: Books) -> Iterator[Finding]:
    """Yield what has no owner, and what rows, rules and hosts tell differently."""
    yield from _stray_mounts(books)
    yield from _unread(books)
    if books.may_compare("compute", "share"):
        yield from _stray_rules(books)
    for row in books.server_shares.values():
        server_id = row["server_id"]
        thing = f"share {row['share_id']} of server {server_id}"
        yield from _releases(books, thing, row)
        if books.is_busy(f"server:{server_id}"):
            continue
        if server_id not in books.servers:
            yield Finding(thing, "owner", "its server is gone", _REPORT)
        elif row["status"] in _ON_ITS_WAY:
            yield Finding(thing, "owner", f"{row['status']}, and no operation", _RETRY)
        for place in row["places"]:
            if not books.is_busy(_release(row, place)):
                yield from _place(books, thing, row, place)
                yield from _elsewhere(books, thing, row, place)


def _release(row: dict[str, Any], place: dict[str, Any]) -> str:
    """Return the key that is held while a host goes on letting a share go."""
    return f"release-share:{row['id']}@{place['host']}"


def _releases(books: Books, thing: str, row: dict[str, Any]) -> Iterator[Finding]:
    """Yield the hosts that a server has left and that do not let go of its share yet."""
    for place in row["places"]:
        key = _release(row, place)
        for work in books.work:
            if key in work.held:
                message = f"host {place['host']} still lets go of it, in operation {work.id}"
                advice = f"See what it waits for: mooring operations show {work.id}"
                yield Finding(thing, "operation", message, advice)


def _elsewhere(
    books: Books, thing: str, row: dict[str, Any], place: dict[str, Any]
) -> Iterator[Finding]:
    """Yield a host that is let in and has not the server, which does not go back there either."""
    server = books.servers.get(row["server_id"])
    # One in error keeps what a deletion could not take: it is deleted again.
    if server is None or server["vm_state"] in {"resized", "error"}:
        return
    if place["host"] == server["host"]:
        return
    message = f"host {place['host']} is let in, and the server is on {server['host']}"
    yield Finding(thing, "disagreement", message, _REPORT)


def _stray_mounts(books: Books) -> Iterator[Finding]:
    known = {
        (row["server_id"], row["share_id"], place["host"])
        for row in books.server_shares.values()
        for place in row["places"]
    }
    for host, inventory in books.inventories.items():
        for one in inventory.share_mounts:
            used = (one.server_id, one.share_id, host)
            if used not in known and not books.is_busy(f"server:{one.server_id}"):
                thing = f"share {one.share_id} of server {one.server_id}"
                message = f"mounted on host {host}, which no server needs"
                yield Finding(thing, "orphan", message, _SWEPT)


def _unread(books: Books) -> Iterator[Finding]:
    for host, inventory in books.inventories.items():
        for one in inventory.unread_share_mounts:
            thing = f"share {one.share_id} of server {one.server_id}"
            message = f"host {host} cannot read how it is mounted: {one.why}"
            yield Finding(thing, "host", message, _KEPT)


def _stray_rules(books: Books) -> Iterator[Finding]:
    needed = {
        (row["share_id"], place["access_to"])
        for row in books.server_shares.values()
        for place in row["places"]
    }
    ours = {host["share_address"] for host in books.hosts.values()}
    for rule_id in _locked_rules(books) & books.share_rules.keys():
        rule = books.share_rules[rule_id]
        share_id, client = rule["share_id"], rule["access_to"]
        made = LockedRule(rule_id, share_id, rule["access_type"], client, rule["state"])
        is_kept = (share_id, client) in needed or books.is_busy(doors.lock_of(share_id, client))
        if access_rules.is_of_hosts(made, ours) and not is_kept:
            message = f"it lets {client} in to share {share_id}, that no server needs"
            yield Finding(f"access rule {rule_id}", "orphan", message, _SWEPT)


def _locked_rules(books: Books) -> set[str]:
    """Return the ids of access rules that a compute service has locked as it made them."""
    made = ("delete", access_rules.REASON, "service")
    return {
        lock["resource_id"]
        for lock in books.share_locks.values()
        if (lock["resource_action"], lock["lock_reason"], lock["lock_context"]) == made
    }


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
    # Of a server that is off it may be unmounted without its answer having come: a start mounts it.
    runs = books.servers.get(row["server_id"], {}).get("vm_state") == "active"
    if state == "mounted" and runs and host in books.inventories:
        inventory = books.inventories[host]
        seen = [*inventory.share_mounts, *inventory.unread_share_mounts]
        used = {(one.server_id, one.share_id) for one in seen}
        if (row["server_id"], row["share_id"]) not in used:
            message = f"host {host} has it not mounted"
            yield Finding(thing, "disagreement", message, _START)
