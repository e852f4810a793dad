"""Volumes that stand ready for eight clients, and the cases of what is done to them."""

from __future__ import annotations

from typing import Any

from tests.crowd.case import Ask, Case

VOLUMES = Ask("POST", "/volumes", {"volume": {"size": 1, "name": "{case}#"}}, "v#", "volume.id")
VOLUME = Ask("POST", "/volumes", {"volume": {"size": 1, "name": "{case}"}}, "v", "volume.id")
AT, ALL = "/volumes/{v}", "/volumes/{volume_id}"
SNAP_AT, SNAP_ALL = "/snapshots/{snap}", "/snapshots/{snapshot_id}"
SNAPSHOT = Ask(
    "POST",
    "/snapshots",
    {"snapshot": {"volume_id": "{v}", "name": "{case}"}},
    "snap",
    "snapshot.id",
)
SNAPSHOTS = Ask(
    "POST",
    "/snapshots",
    {"snapshot": {"volume_id": "{v}", "name": "{case}#"}},
    "snap#",
    "snapshot.id",
)
TYPE = Ask(
    "POST",
    "/types",
    {"volume_type": {"name": "{case}", "os-volume-type-access:is_public": False}},
    "type",
    "volume_type.id",
)
BACKUP_AT, BACKUP_ALL = "/backups/{b}", "/backups/{backup_id}"
BACKUP = Ask("POST", "/backups", {"backup": {"volume_id": "{v}"}}, "b", "backup.id")
BACKUPS = Ask("POST", "/backups", {"backup": {"volume_id": "{v#}"}}, "b#", "backup.id")
CONNECTOR = {"host": "h1", "initiator": "iqn.1993-08.org.debian:01:{case}", "ip": "127.0.0.1"}


def act(action: str, value: Any = None, *, on: str = AT) -> Ask:
    """Return the request of an action."""
    return Ask("POST", f"{on}/action", {action: value})


def case(action: str, value: Any = None, *before: Ask, shows: str = "", **more: Any) -> Case:
    """Return the case of an action of volumes, on one volume unless `path` says otherwise.

    Then it shows something.
    """
    shown = {"look": AT, "kept": shows} if shows else {}
    how: dict[str, Any] = {"path": f"{AT}/action", "before": (VOLUME, *before), **shown, **more}
    return Case(route=f"POST {ALL}/action {action}", body={action: value}, **how)


def each(action: str, value: Any = None, *before: Ask, **more: Any) -> Case:
    """Return the case of an action that each client asks for on a volume of its own."""
    how: dict[str, Any] = {"path": "/volumes/{v#}/action", "before": (VOLUMES, *before), **more}
    return case(action, value, **how)
