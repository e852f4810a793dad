"""Images that are made of servers while a process dies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.kill.harness import Answer, KilledCloud

Act = Callable[[], Answer]


def image_operations(cloud: KilledCloud, server: str, booted: str) -> dict[str, list[Act]]:
    """Return, by saga, what to do besides.

    `server` has its root disk on its host, `booted` boots from a volume. The backup is one that
    nobody keeps, so that there is an image that goes.
    """
    picture = {"createImage": {"name": "picture"}}
    backup = {"createBackup": {"name": "copy", "backup_type": "daily", "rotation": 0}}
    asked = {
        "compute.create_image": (server, picture),
        "compute.create_backup": (server, backup),
        "compute.picture_volumes": (booted, picture),
    }
    return {saga: [_asking(cloud, *how)] for saga, how in asked.items()}


def _asking(cloud: KilledCloud, server: str, body: dict[str, Any]) -> Act:
    return lambda: cloud.ask("POST", f"/compute/v2.1/servers/{server}/action", body)
