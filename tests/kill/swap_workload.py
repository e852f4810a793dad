"""A volume that takes the place of another under a running server while a process dies."""

from __future__ import annotations

from collections.abc import Callable

from tests.kill.harness import Answer, KilledCloud
from tests.kill.snapshot_workload import VOLUME, used

SERVERS = "/compute/v2.1/servers"
Act = Callable[[], Answer]


def swap_operations(cloud: KilledCloud, server: str) -> dict[str, list[Act]]:
    """Return what to do besides, by saga: `server` is given a volume, and then another one."""
    return {"compute.swap_volume": [lambda: _swap(cloud, server)]}


def _swap(cloud: KilledCloud, server: str) -> Answer:
    old = used(cloud, server)
    # A larger one: it is made smaller for the copy, and grows behind it.
    made = cloud.ask("POST", f"{VOLUME}/volumes", {"volume": {"size": 2}}, version="3.60")
    if not made.status or made.status >= 300:
        return made
    new = made.body["volume"]["id"]
    cloud.until(lambda: _is_free(cloud, new), "the other volume is there")
    body = {"volumeAttachment": {"volumeId": new}}
    path = f"{SERVERS}/{server}/os-volume_attachments/{old or 'none'}"
    return cloud.ask("PUT", path, body, user="admin")


def _is_free(cloud: KilledCloud, volume: str) -> bool:
    shown = cloud.ask("GET", f"{VOLUME}/volumes/{volume}")
    return shown.status != 200 or shown.body["volume"]["status"] == "available"
