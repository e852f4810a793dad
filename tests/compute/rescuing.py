"""Servers that are rescued, and steps of tests with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mooring.agent_api.servers import Guest
from tests.compute.cloud import ComputeCloud

HARD = {"type": "HARD"}


async def guest_of(cloud: ComputeCloud, server_id: str, host: str = "host1") -> Guest:
    """Return a server's guest, which is there."""
    guest = await cloud.known_agents[host].show_server(server_id)
    assert guest is not None
    return guest


async def rescue(cloud: ComputeCloud, server_id: str, value: Any = None, **how: Any) -> None:
    """Rescue a server, and wait for it."""
    assert await cloud.act(server_id, "rescue", value, **how) == 200
    await cloud.settle()


async def unrescue(cloud: ComputeCloud, server_id: str) -> None:
    """Unrescue it, likewise."""
    assert await cloud.act(server_id, "unrescue") == 202
    await cloud.settle()


async def make_from_volume(cloud: ComputeCloud) -> tuple[str, str]:
    """Make a server that boots from a volume; return both ids."""
    volume_id = await cloud.make_volume(bootable=True)
    root = {
        "boot_index": 0,
        "source_type": "volume",
        "destination_type": "volume",
        "uuid": volume_id,
    }
    wanted = {"name": "s", "flavorRef": "1", "networks": "none", "block_device_mapping_v2": [root]}
    answer = await cloud.ask("POST", "/servers", {"server": wanted})
    assert answer.status == 202, answer.text
    await cloud.settle()
    return answer.body["server"]["id"], volume_id


def rescue_files(cloud: ComputeCloud, host: str = "host1") -> list[Path]:
    """Return what a host has of rescues."""
    return list(cloud.hypervisor(host).guest_directory.glob("*/rescue*"))
