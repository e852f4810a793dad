"""Shares, rules and snapshots have a living owner while they change, and agree with storage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mooring.agent_api.shares import HostedShare
from mooring.doctor.books import Books
from mooring.doctor.findings import Finding
from mooring.share.access import rule_rows
from mooring.share.shares.statuses import TRANSITIONAL

_RETRY = "Start the cloud; what it does not mend within a minute is a bug worth reporting."
_REPORT = "Nothing was removed. See what it is before you remove it by hand."
_RESET = "openstack share set --status takes it back, and goes by what the storage has."
_DENY = "openstack share access delete takes what is left along; then allow it again."
_CLIENTS = "Its clients do not have it until then; the host tries again by itself."
_OF_SNAPSHOTS = ("creating", "deleting")


def look(books: Books) -> Iterator[Finding]:
    """Yield what has no owner, and what database and storage tell differently."""
    yield from _owners(books)
    yield from _marks(books)
    yield from _reservations(books)
    there = {
        share.share_id: share
        for inventory in books.inventories.values()
        for share in inventory.shares
    }
    for share_id, row in books.shares.items():
        if not books.is_busy(f"share:{share_id}"):
            yield from _share(books, row, there.get(share_id))
    for share_id in sorted(there.keys() - books.shares.keys()):
        if not books.is_busy(f"share:{share_id}"):
            message = "storage of a share that no share explains"
            yield Finding(f"share {share_id}", "orphan", message, _REPORT)


def _owners(books: Books) -> Iterator[Finding]:
    for share_id, row in books.shares.items():
        if row["status"] in TRANSITIONAL and not books.is_busy(f"share:{share_id}"):
            message = f"{row['status']}, and no operation"
            yield Finding(f"share {share_id}", "owner", message, _RETRY)


def _marks(books: Books) -> Iterator[Finding]:
    rules = (("access rule", row, "state") for row in books.share_rules.values())
    snapshots = (("snapshot", row, "status") for row in books.share_snapshots.values())
    transitional = {"state": rule_rows.TRANSITIONAL, "status": _OF_SNAPSHOTS}
    for kind, row, column in (*rules, *snapshots):
        thing = f"{kind} {row['id']}"
        if row["saga_id"] and row["saga_id"] not in books.living:
            message = f"it waits for operation {row['saga_id']}, which has ended"
            yield Finding(thing, "owner", message, _RETRY)
        elif not row["saga_id"] and row[column] in transitional[column]:
            yield Finding(thing, "owner", f"{row[column]}, and no operation", _RETRY)


def _reservations(books: Books) -> Iterator[Finding]:
    for row in books.share_reservations.values():
        if not books.is_busy(f"share:{row['share_id']}"):
            message = f"{row['delta_gib']} GiB are reserved for it, and no operation"
            yield Finding(f"share {row['share_id']}", "quota", message, _RESET)


def _share(books: Books, row: dict[str, Any], there: HostedShare | None) -> Iterator[Finding]:
    thing, host = f"share {row['id']}", (row["pool"] or "").partition("@")[0]
    if host not in books.inventories:
        return
    if there is None:
        unread = books.inventories[host].unread_share_pools
        if row["pool"].partition("#")[2] in unread:
            return
        if row["launched_at"] is not None and not row["status"].startswith("err"):
            message = f"host {host} has no storage of it"
            yield Finding(thing, "disagreement", message, "Restore it, or delete the share.")
        return
    if there.problem:
        yield Finding(thing, "disagreement", f"on host {host}: {there.problem}", _CLIENTS)
        return
    if there.size_gb != row["size_gib"]:
        message = f"{row['size_gib']} GiB here and {there.size_gb} GiB on host {host}"
        yield Finding(thing, "disagreement", message, _RESET)
    yield from _exports(books, row, there)
    yield from _rules(books, row, there)
    yield from _snapshots(books, row, there)


def _exports(books: Books, row: dict[str, Any], there: HostedShare) -> Iterator[Finding]:
    mine = books.exports_by_share.get(row["id"], ())
    known, real = {one["path"] for one in mine}, {one.path for one in there.exports}
    if row["launched_at"] is not None and known != real:
        message = f"exported at {', '.join(sorted(real))}, and here at {', '.join(sorted(known))}"
        yield Finding(f"share {row['id']}", "disagreement", message, _REPORT)


def _rules(books: Books, row: dict[str, Any], there: HostedShare) -> Iterator[Finding]:
    granted = {one.rule_id: (one.type, one.to, one.level) for one in there.rules}
    mine = {one["id"]: one for one in books.rules_by_share.get(row["id"], ())}
    for rule_id, rule in mine.items():
        wanted = rule["access_type"], rule["client"], rule["access_level"]
        if rule["state"] == rule_rows.ACTIVE and granted.get(rule_id) != wanted:
            message = f"active, and the storage of share {row['id']} does not have it so"
            yield Finding(f"access rule {rule_id}", "disagreement", message, _DENY)
    for rule_id in sorted(granted.keys() - mine.keys()):
        message = f"the storage of share {row['id']} lets a client in that no rule names"
        yield Finding(f"access rule {rule_id}", "orphan", message, _REPORT)


def _snapshots(books: Books, row: dict[str, Any], there: HostedShare) -> Iterator[Finding]:
    mine = {one["id"]: one for one in books.snapshots_by_share.get(row["id"], ())}
    for snapshot_id, snapshot in mine.items():
        if snapshot["status"] == "available" and snapshot_id not in there.snapshots:
            message = f"the storage of share {row['id']} does not have it"
            yield Finding(f"snapshot {snapshot_id}", "disagreement", message, "Delete it.")
    for snapshot_id in sorted(set(there.snapshots) - mine.keys()):
        message = f"the storage of share {row['id']} has it, and no snapshot explains it"
        yield Finding(f"snapshot {snapshot_id}", "orphan", message, _REPORT)
