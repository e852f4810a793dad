"""A new server with a volume whose first host cannot build it, so that it goes to another one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.kill.harness import Answer, KilledCloud
from tests.kill.move_workload import COMPUTE, await_other

CREATE = "compute.create_server"
ELSEWHERE = {f"{CREATE}/reserve_again", f"{CREATE}/save_again"}
"""What is only passed on the way to a second host, where the first one refuses. A move goes there
by the steps that it went by before, and every one of them is passed on the way to the first."""
Act = Callable[[], Answer]


def elsewhere_operations(cloud: KilledCloud, image: str, volume: str) -> dict[str, list[Act]]:
    """Return, by step, what to do besides: a server is made of an image and a free volume."""
    return {step: [partial(_create, cloud, image, volume)] for step in ELSEWHERE}


def _create(cloud: KilledCloud, image: str, volume: str) -> Answer:
    """Make a server, once there are two hosts for it: the other one, with more room, is first."""
    await_other(cloud)
    root = {"source_type": "image", "destination_type": "local", "uuid": image, "boot_index": 0}
    data = {"source_type": "volume", "destination_type": "volume", "uuid": volume}
    devices = [root, {**data, "boot_index": -1}]
    server = {"name": "tried", "imageRef": image, "flavorRef": "42", "networks": "none"}
    body = {"server": {**server, "block_device_mapping_v2": devices}}
    return cloud.ask("POST", f"{COMPUTE}/servers", body, version="2.79")
