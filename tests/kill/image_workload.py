"""Images that are made of servers while a process dies."""

from __future__ import annotations

from collections.abc import Callable

from tests.kill.harness import Answer, KilledCloud

Act = Callable[[], Answer]


def image_operations(cloud: KilledCloud, server: str) -> dict[str, list[Act]]:
    """Return, by saga, what to do besides with a server whose root disk lies on its host."""
    path = f"/compute/v2.1/servers/{server}/action"
    return {
        "compute.create_image": [
            lambda: cloud.ask("POST", path, {"createImage": {"name": "picture"}})
        ]
    }
