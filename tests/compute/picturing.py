"""What tests of images of servers ask for, through the whole cloud."""

from __future__ import annotations

import json
from typing import Any

from tests.answers import Answer
from tests.cloud import SimulatedCloud

SERVERS, IMAGES, VOLUME = "/compute/v2.1/servers", "/image/v2/images", "/volume/v3"
BASE = {
    "name": "base",
    "disk_format": "raw",
    "container_format": "bare",
    "hw_disk_bus": "virtio",
    "img_signature": "of the base alone",
}


async def make_base(cloud: SimulatedCloud, data: bytes = b"\0" * 512) -> str:
    """Make an image that servers are made of."""
    image_id = (await cloud.ask("POST", IMAGES, BASE)).key("id")
    await cloud.ask("PUT", f"{IMAGES}/{image_id}/file", data)
    return image_id


async def make_server(cloud: SimulatedCloud, **wanted: Any) -> str:
    """Make a server, and wait until it runs or does not."""
    body = {"server": {"name": "s", "flavorRef": "1", **wanted}}
    made = await cloud.do("POST", SERVERS, body)
    assert made is not None
    assert made.status == 202, made.fault
    await cloud.settle()
    return made.key("server")["id"]


async def make_booted(cloud: SimulatedCloud, *, data_gib: int = 0) -> str:
    """Make a server that boots from a volume, and has another one of `data_gib` beside."""
    root = {"source_type": "image", "destination_type": "volume", "boot_index": 0}
    root |= {"volume_size": 1, "uuid": await make_base(cloud), "delete_on_termination": True}
    blank = {"source_type": "blank", "destination_type": "volume", "boot_index": -1}
    disks = [root, *([{**blank, "volume_size": data_gib}] if data_gib else [])]
    return await make_server(cloud, block_device_mapping_v2=disks)


async def show(cloud: SimulatedCloud, server_id: str) -> dict[str, Any]:
    """Return a server."""
    return (await cloud.ask("GET", f"{SERVERS}/{server_id}")).key("server")


async def act(cloud: SimulatedCloud, server_id: str, action: str, value: Any, **how: Any) -> Answer:
    """Ask for an action, whatever the answer."""
    answer = await cloud.do("POST", f"{SERVERS}/{server_id}/action", {action: value}, **how)
    assert answer is not None
    return answer


async def picture(cloud: SimulatedCloud, server_id: str, **how: Any) -> Answer:
    """Ask for an image."""
    value = {"name": "picture", "metadata": {"role": "db", "hw_disk_bus": "scsi"}}
    return await act(cloud, server_id, "createImage", value, version="2.45", **how)


async def snapshots(cloud: SimulatedCloud) -> list[dict[str, Any]]:
    """Return all snapshots of the project."""
    listed = await cloud.ask("GET", f"{VOLUME}/snapshots/detail")
    return listed.key("snapshots")


async def volumes_of(cloud: SimulatedCloud, server_id: str) -> list[str]:
    """Return the volumes of a server, the root first."""
    listed = await cloud.ask("GET", f"{SERVERS}/{server_id}/os-volume_attachments")
    return [one["volumeId"] for one in listed.key("volumeAttachments")]


async def mapping_of(cloud: SimulatedCloud, image_id: str) -> list[dict[str, Any]]:
    """Return the disks that an image names."""
    return json.loads((await cloud.ask("GET", f"{IMAGES}/{image_id}")).body["block_device_mapping"])
