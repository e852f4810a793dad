"""Servers that stand still and go on while a process dies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.kill.harness import Answer, KilledCloud

SERVERS = "/compute/v2.1/servers"
Act = Callable[[], Answer]


def standstill_operations(cloud: KilledCloud, server: str) -> dict[str, list[Act]]:
    """Return, by saga, what to do besides with a server that runs."""
    act = partial(_act, cloud, server)
    return {
        "compute.pause_server": [partial(act, "pause")],
        "compute.unpause_server": [partial(_go_on, cloud, server, "pause", "unpause")],
        "compute.suspend_server": [partial(act, "suspend")],
        "compute.resume_server": [partial(_go_on, cloud, server, "suspend", "resume")],
    }


def _act(cloud: KilledCloud, server: str, action: str) -> Answer:
    return cloud.ask("POST", f"{SERVERS}/{server}/action", {action: None})


def _go_on(cloud: KilledCloud, server: str, still: str, action: str) -> Answer:
    """Let the server stand still, and go on once it does."""
    answer = _act(cloud, server, still)
    if answer.status == 202:
        cloud.until(lambda: _is_still(cloud, server), "the server stands still")
    return _act(cloud, server, action)


def _is_still(cloud: KilledCloud, server: str) -> bool:
    shown = cloud.ask("GET", f"{SERVERS}/{server}")
    return shown.status != 200 or shown.body["server"]["status"] in {"PAUSED", "SUSPENDED"}
