"""A host that is fenced while a process dies. Its fence ends nothing: it goes on, forced down."""

from __future__ import annotations

from collections.abc import Callable

from mooring.compute.hosts.sagas.fence_host import FENCE_HOST
from tests.kill.harness import OTHER, Answer, KilledCloud
from tests.kill.move_workload import COMPUTE, await_other

FENCE = FENCE_HOST.name


def fence_operations(cloud: KilledCloud) -> dict[str, list[Callable[[], Answer]]]:
    """Return what to do besides: fence the other host, which has nothing."""
    return {FENCE: [lambda: _fence(cloud)]}


def _fence(cloud: KilledCloud) -> Answer:
    await_other(cloud)
    path = f"{COMPUTE}/mooring/fences/{OTHER}"
    return cloud.ask("PUT", path, {"force": True}, user="admin")
