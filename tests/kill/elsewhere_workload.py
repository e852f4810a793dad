"""A new server with a volume whose first host cannot build it, so that it goes to another one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.kill.harness import Answer, KilledCloud
from tests.kill.move_workload import await_other

CREATE = "compute.create_server"
ELSEWHERE = {f"{CREATE}/reserve_again", f"{CREATE}/save_again"}
"""What is only passed on the way to a second host, where the first one refuses. A move goes there
by the steps that it went by before, and every one of them is passed on the way to the first."""
Act = Callable[[], Answer]


def elsewhere_operations(cloud: KilledCloud, create: Act) -> dict[str, list[Act]]:
    """Return, by step, what to do besides. `create` makes one of an image and a free volume."""
    return {step: [partial(_create, cloud, create)] for step in ELSEWHERE}


def _create(cloud: KilledCloud, create: Act) -> Answer:
    """Make it, once there are two hosts for it: the other one, with more room, is first."""
    await_other(cloud)
    return create()
