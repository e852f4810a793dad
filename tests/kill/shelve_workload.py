"""Servers that are put away and brought back while a process dies."""

from __future__ import annotations

from collections.abc import Callable

from tests.kill.harness import Answer, KilledCloud

SERVERS, VOLUMES = "/compute/v2.1/servers", "/volume/v3/volumes"
_VERSION = "2.90"
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
    return {
        "compute.shelve_server": [lambda: _act(cloud, local, "shelve")],
        "compute.offload_server": [
            lambda: _act(cloud, booted, "shelve"),
            lambda: _take_away(cloud, local),
        ],
        "compute.unshelve_here": [lambda: _bring_back(cloud, local, away=False)],
        "compute.unshelve_server": [lambda: _bring_back(cloud, booted, away=True)],
        **{f"compute.unshelve_server/{step}": with_disk for step in _OF_DISKS},
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
    if away and _offload(cloud, server).status == 202:
        path = f"{SERVERS}/{server}"
        cloud.until(
            lambda: _shows(cloud, path, "server", "SHELVED_OFFLOADED"), "the server is away"
        )
    return _act(cloud, server, "unshelve")


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


def _attach(cloud: KilledCloud, server: str, volume: str) -> Answer:
    _put_away(cloud, server)
    body = {"volumeAttachment": {"volumeId": volume}}
    path = f"{SERVERS}/{server}/os-volume_attachments"
    return cloud.ask("POST", path, body, version=_VERSION)


def _detach(cloud: KilledCloud, server: str, volume: str) -> Answer:
    answer = _attach(cloud, server, volume)
    if answer.status == 200:
        cloud.until(
            lambda: _shows(cloud, f"{VOLUMES}/{volume}", "volume", "in-use"), "it has the volume"
        )
    path = f"{SERVERS}/{server}/os-volume_attachments/{volume}"
    return cloud.ask("DELETE", path, version=_VERSION)


def _shows(cloud: KilledCloud, path: str, key: str, *statuses: str) -> bool:
    shown = cloud.ask("GET", path)
    return shown.status != 200 or shown.body[key]["status"] in {*statuses, "ERROR"}
