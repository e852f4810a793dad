"""Shares that stand ready for eight clients, and the cases of what is done to them."""

from __future__ import annotations

from typing import Any

from tests.crowd.case import Ask, Case

NEW = {"share_proto": "NFS", "size": 1}
SHARES = Ask("POST", "/shares", {"share": {**NEW, "name": "{case}#"}}, "s#", "share.id")
SHARE = Ask("POST", "/shares", {"share": {**NEW, "name": "{case}"}}, "s", "share.id")
AT, ALL, EACH = "/shares/{s}", "/shares/{share_id}", "/shares/{s#}"
CLIENT = {"access_type": "ip", "access_to": "10.0.0.1"}
RULES = Ask("POST", f"{EACH}/action", {"allow_access": CLIENT}, "rule#", "access.id")
RULE = Ask("POST", f"{AT}/action", {"allow_access": CLIENT}, "rule", "access.id")
SNAP_AT, SNAP_ALL = "/snapshots/{snap}", "/snapshots/{snapshot_id}"
SNAPSHOT = Ask("POST", "/snapshots", {"snapshot": {"share_id": "{s}"}}, "snap", "snapshot.id")
SNAPSHOTS = Ask("POST", "/snapshots", {"snapshot": {"share_id": "{s}"}}, "snap#", "snapshot.id")
OLD = "2.6"
"""The last version in which names have `os-` before them."""


def act(action: str, value: Any = None, *, on: str = AT) -> Ask:
    """Return the request of an action."""
    return Ask("POST", f"{on}/action", {action: value})


def cases(action: str, value: Any = None, *before: Ask, **more: Any) -> list[Case]:
    """Return the cases of an action of one share, under both its names."""
    how: dict[str, Any] = {"path": f"{AT}/action", "before": (SHARE, *before), **more}
    return both(f"POST {ALL}/action", action, value, **how)


def both(route: str, action: str, value: Any = None, **how: Any) -> list[Case]:
    """Return the cases of an action, under the name that it has and the one that it had."""
    old = f"os-{action}"
    return [
        Case(route=f"{route} {action}", body={action: value}, **how),
        Case(route=f"{route} {old}", body={old: value}, **how, version=OLD),
    ]
