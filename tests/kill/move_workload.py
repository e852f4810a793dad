"""Servers that go to another host while a process dies, or are deleted on the way."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.kill.harness import OTHER, Answer, KilledCloud

COMPUTE, VOLUME = "/compute/v2.1", "/volume/v3"
MOVE = "compute.live_migrate"
DELETE_MOVING = "compute.delete_server/destroy_elsewhere"
"""What only the deletion of a server does that is on its way."""
HELD = ",".join(
    f"!{MOVE}/{point}/before"
    for point in ("settle_guest/forward", "find_guest/failing", "find_guest/leaving")
)
"""What `kill_at` must say so that nobody finds out where a guest is."""
UNDONE = f"!{MOVE}/begin_sending/forward/before"
"""What it must say so that a destination has made everything ready for nothing."""
COLD, CONFIRM, REVERT = "compute.cold_migrate", "compute.confirm_resize", "compute.revert_resize"
EVACUATE = "compute.evacuate"
MOVES = {MOVE, COLD, CONFIRM, REVERT, EVACUATE}
IN_VAIN = "!agent/put_server/defined"
"""What the other host's `kill_at` must say so that no guest starts there."""
STAYS = {f"{COLD}/{step}" for step in ("disconnect_left", "delete_left", "forget_left")}
"""What a cold move does only when the guest stays."""
Act = Callable[[], Answer]


COPY, GROW, FORCE = "copies", "grows", "forces"
"""What to do besides for the verbs of hosts that give, take and keep disks, and hasten a guest."""
ON_ITS_WAY = "send_memory"
"""Where the first host's `held_at` has a guest stay on its way, until its move is forced."""


def move_operations(
    cloud: KilledCloud, booted: str, local: str, volume: str
) -> dict[str, list[Act]]:
    """Return, by saga, step or kind, what to do besides: `booted` has its root disk on a volume.

    That of `local` is on its host. The other `volume` is free.
    """
    return {
        COLD: [lambda: move_off(cloud, booted), lambda: move_off(cloud, local)],
        CONFIRM: [
            lambda: _say(cloud, booted, "confirmResize"),
            lambda: _say(cloud, local, "confirmResize"),
        ],
        REVERT: [
            lambda: _say(cloud, booted, "revertResize", volume),
            lambda: _say(cloud, local, "revertResize"),
        ],
        COPY: [lambda: move_off(cloud, local)],
        GROW: [lambda: _grow(cloud, local)],
        FORCE: [lambda: _force(cloud, booted)],
        MOVE: [lambda: _move(cloud, booted), lambda: _move(cloud, local, block_migration=True)],
        EVACUATE: [lambda: _evacuate(cloud, booted, local)],
        DELETE_MOVING: [lambda: _delete_moving(cloud, booted)],
    }


def _move(cloud: KilledCloud, server: str, *, block_migration: bool = False) -> Answer:
    await_other(cloud)
    body = {"os-migrateLive": {"host": OTHER, "block_migration": block_migration}}
    path = f"{COMPUTE}/servers/{server}/action"
    return cloud.ask("POST", path, body, user="admin", version="2.90")


def move_off(cloud: KilledCloud, server: str, *, version: str = "2.90") -> Answer:
    """Move a server while it is off, once there is a host for it."""
    await_other(cloud)
    path = f"{COMPUTE}/servers/{server}/action"
    return cloud.ask("POST", path, {"migrate": {"host": OTHER}}, user="admin", version=version)


def _force(cloud: KilledCloud, server: str) -> Answer:
    """Move a running server, and have its guest stand still until it has arrived."""
    _move(cloud, server)
    path = f"{COMPUTE}/servers/{server}/migrations"
    running = cloud.until(lambda: _find_running(cloud, path), "the guest is on its way")
    body = {"force_complete": None}
    return cloud.ask("POST", f"{path}/{running}/action", body, user="admin", version="2.90")


def _find_running(cloud: KilledCloud, path: str) -> str:
    """Return the number of a move whose guest is on its way; "none" when nobody is there to ask."""
    listed = cloud.ask("GET", path, user="admin", version="2.90")
    moves = listed.body["migrations"] if listed.status else [{"id": "none", "status": "running"}]
    return next((str(one["id"]) for one in moves if one["status"] == "running"), "")


def _say(cloud: KilledCloud, server: str, word: str, volume: str = "") -> Answer:
    """Move a server, give it a volume where it is then, and say what is to become of it."""
    move_off(cloud, server)
    path = f"{COMPUTE}/servers/{server}"
    cloud.until(lambda: shows(cloud, path, "server", "VERIFY_RESIZE"), "the server has moved")
    if volume:
        body = {"volumeAttachment": {"volumeId": volume}}
        cloud.ask("POST", f"{path}/os-volume_attachments", body)
        seen = f"{VOLUME}/volumes/{volume}"
        cloud.until(lambda: shows(cloud, seen, "volume", "in-use"), "it has the volume")
    return cloud.ask("POST", f"{path}/action", {word: None})


def _evacuate(cloud: KilledCloud, *servers: str) -> Answer:
    """Give servers to the other host, say that it is dead, and take them from it.

    Its agent lives: what the host owes it pays, and the guests end by that.
    """
    for server in servers:
        move_off(cloud, server)
        path = f"{COMPUTE}/servers/{server}"
        cloud.until(partial(shows, cloud, path, "server", "VERIFY_RESIZE"), "the server has moved")
        cloud.ask("POST", f"{path}/action", {"confirmResize": None})
        cloud.until(partial(shows, cloud, path, "server", "ACTIVE"), "it stays there")
    listed = cloud.ask(
        "GET", f"{COMPUTE}/os-services?binary=nova-compute", user="admin", version="2.94"
    )
    (service,) = [one["id"] for one in listed.body["services"] if one["host"] == OTHER]
    path, down = f"{COMPUTE}/os-services/{service}", {"forced_down": True}
    cloud.ask("PUT", path, down, user="admin", version="2.94")
    paths = [f"{COMPUTE}/servers/{server}/action" for server in servers]
    evacuate: dict[str, dict[str, str]] = {"evacuate": {}}
    return [cloud.ask("POST", path, evacuate, user="admin", version="2.94") for path in paths][-1]


def _grow(cloud: KilledCloud, server: str) -> Answer:
    """Give a server a larger disk, and take that back."""
    path = f"{COMPUTE}/servers/{server}"
    cloud.ask("POST", f"{path}/action", {"resize": {"flavorRef": "2"}})
    cloud.until(lambda: shows(cloud, path, "server", "VERIFY_RESIZE"), "the disk has grown")
    return cloud.ask("POST", f"{path}/action", {"revertResize": None})


def shows(
    cloud: KilledCloud, path: str, kind: str, status: str, *, version: str = "", user: str = "demo"
) -> bool:
    """Whether a thing has a status, or nobody is there to ask."""
    shown = cloud.ask("GET", path, version=version, user=user)
    return not shown.status or (shown.status == 200 and shown.body[kind]["status"] == status)


def _delete_moving(cloud: KilledCloud, server: str) -> Answer:
    _move(cloud, server)
    cloud.until(lambda: _is_held(cloud), "nobody finds out where the guest is")
    return cloud.ask("DELETE", f"{COMPUTE}/servers/{server}")


def await_other(cloud: KilledCloud) -> None:
    """Wait until the other host is up, or nobody is there to ask."""
    cloud.until(lambda: _is_up(cloud), "the other host is up")


def _is_up(cloud: KilledCloud) -> bool:
    listed = cloud.ask("GET", f"{COMPUTE}/os-services?binary=nova-compute", user="admin")
    known: list[dict[str, str]] = listed.body["services"] if listed.status else []
    return not listed.status or (OTHER, "up") in {(one["host"], one["state"]) for one in known}


def _is_held(cloud: KilledCloud) -> bool:
    listed = cloud.ask("GET", f"{COMPUTE}/mooring/operations", user="admin")
    steps = [one["step"] for one in listed.body["operations"]] if listed.status else []
    return not listed.status or "find_guest" in steps
