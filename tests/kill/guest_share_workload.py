"""Servers with shares while a process dies: one that is off, and one that runs with its share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.kill.extend_workload import insist_on_stop
from tests.kill.harness import Answer, KilledCloud

COMPUTE, SHARE = "/compute/v2.1", "/share/v2"
SINCE = "2.97"
STARTS = ("compute.start_server", "compute.reboot_server", "compute.insist_on_reboot")
Act = Callable[[], Answer]


def make_share(cloud: KilledCloud) -> str:
    """Make a share and wait for it; return its id."""
    body = {"share": {"share_proto": "NFS", "size": 1}}
    made = cloud.ask("POST", f"{SHARE}/shares", body, version="2.82").body["share"]["id"]
    cloud.settle()
    return made


def attach(cloud: KilledCloud, server: str, share: str) -> Answer:
    """Attach a share to a server that is off."""
    body = {"share": {"share_id": share}}
    return cloud.ask("POST", f"{COMPUTE}/servers/{server}/shares", body, version=SINCE)


def act(cloud: KilledCloud, server: str, action: str, value: Any = None) -> Answer:
    """Do something to a server."""
    path = f"{COMPUTE}/servers/{server}/action"
    return cloud.ask("POST", path, {action: value}, user="admin")


def guest_share_operations(
    cloud: KilledCloud, idle: tuple[str, str], on: str, spare: str, volume: str
) -> dict[str, list[Act]]:
    """Return, by saga or step, what to do besides, to a server that is off and one that is on.

    Both have a share, and the `idle` one is told with it. The `spare` share and the volume are
    nobody's.
    """
    off, folder = idle
    given, taken = ("grant_access", "mount_share"), ("unmount_share", "revoke_access")
    start = partial(act, cloud, off, "os-start")
    stop = partial(act, cloud, on, "os-stop")
    reboot = partial(act, cloud, off, "reboot", {"type": "HARD"})
    delete = partial(cloud.ask, "DELETE", f"{COMPUTE}/servers/{on}")
    reset = partial(_reset_detaching, cloud, off, folder)
    return {
        **{f"compute.start_server/{step}": [start] for step in given},
        **{f"compute.reboot_server/{step}": [reboot] for step in given},
        **{f"compute.insist_on_reboot/{step}": [partial(_insist, cloud, on)] for step in given},
        **{f"compute.delete_server/{step}": [delete] for step in taken},
        **{f"compute.reset_state/{step}": [reset] for step in taken},
        "compute.stop_server/unmount_share": [stop],
        "compute.insist_on_stop/unmount_share": [partial(insist_on_stop, cloud, volume, on)],
        "compute.attach_share": [lambda: attach(cloud, off, spare)],
        "compute.detach_share": [lambda: _detach(cloud, off, folder)],
    }


def _detach(cloud: KilledCloud, server: str, share: str) -> Answer:
    return cloud.ask("DELETE", f"{COMPUTE}/servers/{server}/shares/{share}", version=SINCE)


def _reset_detaching(cloud: KilledCloud, server: str, share: str) -> Answer:
    """Reset the state of a server that loses a share while the host does not answer."""
    with cloud.agent_frozen():
        _detach(cloud, server, share)
        return act(cloud, server, "os-resetState", {"state": "error"})


def _insist(cloud: KilledCloud, server: str) -> Answer:
    """Reboot twice, the second time while the host does not answer the first."""
    with cloud.agent_frozen():
        act(cloud, server, "reboot", {"type": "HARD"})
        return act(cloud, server, "reboot", {"type": "HARD"})
