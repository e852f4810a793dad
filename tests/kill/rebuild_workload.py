"""Servers that are rebuilt while a process dies: one with a disk of its own, one on a volume."""

from __future__ import annotations

from collections.abc import Callable

from tests.kill.harness import Answer, KilledCloud

COMPUTE = "/compute/v2.1"
REBUILD, RENEW = "compute.rebuild_server", "compute.renew_server"
LEFT_RESERVED = f"!{REBUILD}/begin_mapping/forward/before"
"""What `kill_at` must say so that a rebuild fails and leaves the root volume reserved."""
Act = Callable[[], Answer]


def rebuild_operations(
    cloud: KilledCloud, local: str, booted: str, image: str
) -> dict[str, list[Act]]:
    """Return, by saga, what to do besides: `local` has its root disk on its host."""
    return {
        REBUILD: [lambda: _rebuild(cloud, booted, image, "2.93")],
        RENEW: [
            lambda: _rebuild(cloud, local, image, "2.93"),
            lambda: _rebuild_and_keep(cloud, booted, image),
        ],
    }


def _rebuild(cloud: KilledCloud, server: str, image: str, version: str) -> Answer:
    path, body = f"{COMPUTE}/servers/{server}/action", {"rebuild": {"imageRef": image}}
    return cloud.ask("POST", path, body, version=version)


def _rebuild_and_keep(cloud: KilledCloud, server: str, image: str) -> Answer:
    """Rebuild twice: the second time the volume has the image already, and keeps it."""
    _rebuild(cloud, server, image, "2.93")
    cloud.until(lambda: _rests(cloud, server), "the first rebuild has ended")
    return _rebuild(cloud, server, image, "2.92")


def _rests(cloud: KilledCloud, server: str) -> bool:
    shown = cloud.ask("GET", f"{COMPUTE}/servers/{server}")
    return shown.status == 0 or shown.body["server"]["status"] != "REBUILD"
