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
HELD_UP = ",".join(
    f"!share.extend_share/{point}/before"
    for point in ("ask_storage/forward", "look_at_storage/failing")
)
"""What `kill_at` must say so that the extend of a share fails, and its bad end does not get on."""
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
    reset = partial(_reset_detaching, cloud, off, spare)
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
    """Reset the state of a server that loses a share whose rules wait for an extend (`HELD_UP`).

    The extend ends by an administrator's word, later: so the detach comes no further than to its
    pivot, and the reset to its end.
    """
    attach(cloud, server, share)
    path = f"{COMPUTE}/servers/{server}/shares/{share}"
    cloud.until(lambda: _is(cloud, path, "inactive"), "the server has the share")
    _act_on_share(cloud, share, {"extend": {"new_size": 2}})
    _detach(cloud, server, share)
    cloud.until(lambda: _is_held(cloud), "the detach waits for the share")
    answer = act(cloud, server, "os-resetState", {"state": "error"})
    _act_on_share(cloud, share, {"reset_status": {"status": "available"}})
    return answer


def _act_on_share(cloud: KilledCloud, share: str, body: Any) -> Answer:
    return cloud.ask("POST", f"{SHARE}/shares/{share}/action", body, user="admin", version="2.82")


def _is(cloud: KilledCloud, path: str, status: str) -> bool:
    shown = cloud.ask("GET", path, version=SINCE)
    return not shown.status or shown.body["share"]["status"] == status


def _is_held(cloud: KilledCloud) -> bool:
    listed = cloud.ask("GET", f"{COMPUTE}/mooring/operations", user="admin")
    running: list[dict[str, str]] = listed.body["operations"] if listed.status else []
    steps = [one["step"] for one in running if one["name"] == "compute.detach_share"]
    return not listed.status or "revoke_access" in steps


def _insist(cloud: KilledCloud, server: str) -> Answer:
    """Reboot twice, the second time while the host does not answer the first."""
    with cloud.agent_frozen():
        act(cloud, server, "reboot", {"type": "HARD"})
        return act(cloud, server, "reboot", {"type": "HARD"})
