"""Servers that are put away and brought back while a process dies."""

from __future__ import annotations

from collections.abc import Callable

from tests.kill.harness import Answer, KilledCloud

SERVERS, VOLUMES = "/compute/v2.1/servers", "/volume/v3/volumes"
_VERSION = "2.90"
Act = Callable[[], Answer]


def shelve_operations(cloud: KilledCloud, booted: str, volume: str) -> dict[str, list[Act]]:
    """Return, by saga, what to do besides: `booted` has its root disk on a volume.

    The other `volume` is free.
    """
    return {
        "compute.offload_server": [lambda: _act(cloud, booted, "shelve")],
        "compute.unshelve_server": [lambda: _bring_back(cloud, booted)],
        "compute.attach_waiting": [lambda: _attach(cloud, booted, volume)],
        "compute.detach_waiting": [lambda: _detach(cloud, booted, volume)],
    }


def _act(cloud: KilledCloud, server: str, action: str) -> Answer:
    return cloud.ask("POST", f"{SERVERS}/{server}/action", {action: None}, version=_VERSION)


def _put_away(cloud: KilledCloud, server: str) -> None:
    answer = _act(cloud, server, "shelve")
    if answer.status == 202:
        cloud.until(
            lambda: _shows(cloud, f"{SERVERS}/{server}", "server", "SHELVED_OFFLOADED"),
            "the server is put away",
        )


def _bring_back(cloud: KilledCloud, server: str) -> Answer:
    _put_away(cloud, server)
    return _act(cloud, server, "unshelve")


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


def _shows(cloud: KilledCloud, path: str, key: str, status: str) -> bool:
    shown = cloud.ask("GET", path)
    return shown.status != 200 or shown.body[key]["status"] in {status, "ERROR"}
