"""Servers that are put away and brought back while a process dies."""

from __future__ import annotations

from collections.abc import Callable

from tests.kill.harness import OTHER, Answer, KilledCloud
from tests.kill.move_workload import await_other

SERVERS, VOLUMES = "/compute/v2.1/servers", "/volume/v3/volumes"
_VERSION, _TO_A_HOST = "2.90", "2.91"
UNSHELVE, ELSEWHERE = "compute.unshelve_server", "/elsewhere"
"""A saga, and what stands behind its name where it brings a server to another host."""
_OF_DISKS = ("bring_image", "delete_image", "drop_image")
"""Steps that a server passes which comes back with a root disk of its own."""
Act = Callable[[], Answer]


def shelve_operations(
    cloud: KilledCloud, booted: str, local: str, volume: str
) -> dict[str, list[Act]]:
    """Return, by saga or step, what to do besides: `booted` has its root disk on a volume.

    That of the `local` one lies on its host. The other `volume` is free.
    """
    with_disk = [lambda: _bring_back(cloud, local, away=True)]
    disk_elsewhere = [lambda: _bring_elsewhere(cloud, local)]
    return {
        "compute.shelve_server": [lambda: _act(cloud, local, "shelve")],
        "compute.offload_server": [
            lambda: _act(cloud, booted, "shelve"),
            lambda: _take_away(cloud, local),
        ],
        "compute.unshelve_here": [lambda: _bring_back(cloud, local, away=False)],
        UNSHELVE: [lambda: _bring_back(cloud, booted, away=True)],
        **{f"{UNSHELVE}/{step}": with_disk for step in _OF_DISKS},
        f"{UNSHELVE}{ELSEWHERE}": [lambda: _bring_elsewhere(cloud, booted, volume)],
        **{f"{UNSHELVE}/{step}{ELSEWHERE}": disk_elsewhere for step in _OF_DISKS},
        "compute.reset_state/settle_image": [lambda: _reset(cloud, local)],
        "compute.delete_server/delete_image": [lambda: _delete(cloud, local)],
        "compute.attach_waiting": [lambda: _attach(cloud, booted, volume)],
        "compute.detach_waiting": [lambda: _detach(cloud, booted, volume)],
    }


def _act(cloud: KilledCloud, server: str, action: str) -> Answer:
    return cloud.ask("POST", f"{SERVERS}/{server}/action", {action: None}, version=_VERSION)


def _put_away(cloud: KilledCloud, server: str, *also: str) -> Answer:
    """Shelve a server; one that is `SHELVED` then is `also` enough."""
    answer = _act(cloud, server, "shelve")
    if answer.status == 202:
        path, away = f"{SERVERS}/{server}", ("SHELVED_OFFLOADED", *also)
        cloud.until(lambda: _shows(cloud, path, "server", *away), "the server is put away")
    return answer


def _take_away(cloud: KilledCloud, server: str) -> Answer:
    """Shelve a server with its root disk on its host, and take it from that."""
    answer = _put_away(cloud, server, "SHELVED")
    return _offload(cloud, server) if answer.status == 202 else answer


def _bring_back(cloud: KilledCloud, server: str, *, away: bool) -> Answer:
    """Shelve a server, see that it is `away` from its host if it is to be, and bring it back."""
    _put_away(cloud, server, "SHELVED")
    if away:
        _take_off(cloud, server)
    return _act(cloud, server, "unshelve")


def _bring_elsewhere(cloud: KilledCloud, server: str, *volumes: str) -> Answer:
    """Give a server volumes besides, take it from its host, and bring it back at the other one."""
    await_other(cloud)
    for volume in volumes:
        _attach_now(cloud, server, volume)
    _put_away(cloud, server, "SHELVED")
    _take_off(cloud, server)
    path, body = f"{SERVERS}/{server}/action", {"unshelve": {"host": OTHER}}
    return cloud.ask("POST", path, body, user="admin", version=_TO_A_HOST)


def _take_off(cloud: KilledCloud, server: str) -> None:
    """Take a server from its host, and wait until it is away."""
    if _offload(cloud, server).status == 202:
        path = f"{SERVERS}/{server}"
        cloud.until(
            lambda: _shows(cloud, path, "server", "SHELVED_OFFLOADED"), "the server is away"
        )


def _offload(cloud: KilledCloud, server: str) -> Answer:
    path, body = f"{SERVERS}/{server}/action", {"shelveOffload": None}
    return cloud.ask("POST", path, body, user="admin", version=_VERSION)


def _reset(cloud: KilledCloud, server: str) -> Answer:
    _put_away(cloud, server, "SHELVED")
    path, body = f"{SERVERS}/{server}/action", {"os-resetState": {"state": "error"}}
    return cloud.ask("POST", path, body, user="admin")


def _delete(cloud: KilledCloud, server: str) -> Answer:
    _put_away(cloud, server, "SHELVED")
    return cloud.ask("DELETE", f"{SERVERS}/{server}")


def _attach_now(cloud: KilledCloud, server: str, volume: str) -> Answer:
    """Attach a volume, and wait until the server has it."""
    path = f"{SERVERS}/{server}/os-volume_attachments"
    answer = cloud.ask("POST", path, {"volumeAttachment": {"volumeId": volume}}, version=_VERSION)
    if answer.status == 200:
        cloud.until(
            lambda: _shows(cloud, f"{VOLUMES}/{volume}", "volume", "in-use"), "it has the volume"
        )
    return answer


def _attach(cloud: KilledCloud, server: str, volume: str) -> Answer:
    _put_away(cloud, server)
    body = {"volumeAttachment": {"volumeId": volume}}
    path = f"{SERVERS}/{server}/os-volume_attachments"
    return cloud.ask("POST", path, body, version=_VERSION)


def _detach(cloud: KilledCloud, server: str, volume: str) -> Answer:
    _put_away(cloud, server)
    _attach_now(cloud, server, volume)
    path = f"{SERVERS}/{server}/os-volume_attachments/{volume}"
    return cloud.ask("DELETE", path, version=_VERSION)


def _shows(cloud: KilledCloud, path: str, key: str, *statuses: str) -> bool:
    shown = cloud.ask("GET", path)
    return shown.status != 200 or shown.body[key]["status"] in {*statuses, "ERROR"}
