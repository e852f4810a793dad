"""Volumes that grow, or are reset, while a process dies: free ones, and one of a running server."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.kill.harness import Answer, KilledCloud

COMPUTE, VOLUME = "/compute/v2.1", "/volume/v3"
EXTEND = "volume.extend_volume"
HELD_UP = f"!{EXTEND}/ask_storage/forward/before,!{EXTEND}/look_at_file/failing/before"
"""What `kill_at` must say so that an extend fails, and its bad end does not get on."""
GROWS, INSIST = "compute.extend_volume", "compute.insist_on_stop"
HANGING = f"!{GROWS}/resize_disk/forward/before,!{GROWS}/resize_disk/back/before"
"""What `kill_at` must say so that compute's part of an extend neither gets on nor unwinds."""
CLAIM = "claims"
"""What to do besides for the verb by which a host lets no call of a deletion come late."""
Act = Callable[[], Answer]


def extend_operations(
    cloud: KilledCloud, free: str, held: str, other: str, server: str
) -> dict[str, list[Act]]:
    """Return, by saga, what to do besides: `held` is a server's volume, the others nobody's."""
    both = [_extend(cloud, free), _extend(cloud, held)]
    return {
        EXTEND: both,
        "compute.extend_volume": both,
        "compute.insist_on_stop": [lambda: insist_on_stop(cloud, free, server)],
        "volume.reset_status": [lambda: _reset_growing(cloud, other)],
        CLAIM: [lambda: _reset_deleting(cloud, free)],
    }


def _extend(cloud: KilledCloud, volume: str) -> Act:
    path, body = f"{VOLUME}/volumes/{volume}/action", {"os-extend": {"new_size": 2}}
    return lambda: cloud.ask("POST", path, body, version="3.42")


def _reset_growing(cloud: KilledCloud, volume: str) -> Answer:
    """Reset a volume whose extend does not get on, if it does not."""
    _extend(cloud, volume)()
    cloud.until(lambda: _rests(cloud, volume), "the extend has ended or does not get on")
    path, body = f"{VOLUME}/volumes/{volume}/action", {"os-reset_status": {"status": "available"}}
    return cloud.ask("POST", path, body, user="admin")


def _reset_deleting(cloud: KilledCloud, volume: str) -> Answer:
    """Reset a volume whose deletion its host has not answered yet.

    Its status stands while the host does not answer to the reset either.
    """
    path, body = f"{VOLUME}/volumes/{volume}", {"os-reset_status": {"status": "available"}}
    with ThreadPoolExecutor(1) as pool:
        with cloud.agent_frozen():
            cloud.ask("DELETE", path)
            reset = pool.submit(cloud.ask, "POST", f"{path}/action", body, user="admin")
            cloud.until(lambda: _is_reset(cloud, path), "the volume is reset")
        return reset.result()


def _is_reset(cloud: KilledCloud, path: str) -> bool:
    shown = cloud.ask("GET", path)
    return shown.status != 200 or shown.body["volume"]["status"] != "deleting"


def insist_on_stop(cloud: KilledCloud, volume: str, server: str) -> Answer:
    """Stop a server that gets a volume, which is to grow and does not."""
    body = {"volumeAttachment": {"volumeId": volume}}
    cloud.ask("POST", f"{COMPUTE}/servers/{server}/os-volume_attachments", body)
    cloud.until(lambda: _is_in_use(cloud, volume), "the server has the volume")
    _extend(cloud, volume)()
    cloud.until(lambda: _is_held(cloud), "compute has heard of the extend")
    return cloud.until(lambda: _stop(cloud, server), "others leave the server to who stops it")


def _stop(cloud: KilledCloud, server: str) -> Answer | None:
    """Stop it, unless somebody else of the ten is still at work on it."""
    answer = cloud.ask("POST", f"{COMPUTE}/servers/{server}/action", {"os-stop": None})
    return None if answer.status == 409 else answer


def _is_in_use(cloud: KilledCloud, volume: str) -> bool:
    shown = cloud.ask("GET", f"{VOLUME}/volumes/{volume}")
    return shown.status == 0 or shown.body["volume"]["status"] == "in-use"


def _is_held(cloud: KilledCloud) -> bool:
    listed = cloud.ask("GET", f"{COMPUTE}/mooring/operations", user="admin")
    names = [one["name"] for one in listed.body["operations"]] if listed.status else []
    return GROWS in names or not listed.status


def _rests(cloud: KilledCloud, volume: str) -> bool:
    shown = cloud.ask("GET", f"{VOLUME}/volumes/{volume}")
    if shown.status == 0 or shown.body["volume"]["status"] != "extending":
        return True
    listed = cloud.ask("GET", f"{VOLUME}/mooring/operations", user="admin")
    steps = [one["step"] for one in listed.body["operations"]] if listed.status else []
    return "look_at_file" in steps or not listed.status
