"""Servers that are rescued, and boot from their own disks again, while a process dies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.kill.harness import Answer, KilledCloud

SERVERS = "/compute/v2.1/servers"
STARTS = ("compute.rescue_server", "compute.unrescue_server")
Act = Callable[[], Answer]


def rescue_operations(cloud: KilledCloud, server: str, sharing: str) -> dict[str, list[Act]]:
    """Return, by saga or step, what to do besides with a server that runs, and one with a share."""
    given = ("grant_access", "mount_share")
    rescue, unrescue = STARTS
    return {
        rescue: [partial(_act, cloud, server, "rescue")],
        unrescue: [partial(_come_back, cloud, server)],
        **{f"{rescue}/{step}": [partial(_act, cloud, sharing, "rescue")] for step in given},
        **{f"{unrescue}/{step}": [partial(_come_back, cloud, sharing)] for step in given},
    }


def _act(cloud: KilledCloud, server: str, action: str) -> Answer:
    return cloud.ask("POST", f"{SERVERS}/{server}/action", {action: None})


def _come_back(cloud: KilledCloud, server: str) -> Answer:
    """Rescue the server, and unrescue it once it is."""
    answer = _act(cloud, server, "rescue")
    if answer.status == 200:
        cloud.until(lambda: _is_rescued(cloud, server), "the server is rescued")
    return _act(cloud, server, "unrescue")


def _is_rescued(cloud: KilledCloud, server: str) -> bool:
    shown = cloud.ask("GET", f"{SERVERS}/{server}")
    return shown.status != 200 or shown.body["server"]["status"] == "RESCUE"
