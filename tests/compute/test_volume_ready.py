"""A volume that a server is to have is waited for until it has its data, and no longer."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.compute.yard import Yard

pytestmark = pytest.mark.anyio


async def begin(yard: Yard) -> str:
    """Begin to make a server with a new volume, whose storage takes its time; return its id."""
    yard.driver().knobs.hold("create")
    blank = {"source_type": "blank", "destination_type": "volume", "volume_size": 1}
    local = {"source_type": "image", "destination_type": "local", "boot_index": 0}
    disks: list[dict[str, Any]] = [{**local, "uuid": yard.image}, blank]
    server = {"name": "s", "flavorRef": "1", "imageRef": yard.image, "networks": "none"}
    body = {"server": {**server, "block_device_mapping_v2": disks}}
    answer = await yard.ask("POST", "/servers", body)
    assert answer.status_code == 202, answer.text
    return answer.json()["server"]["id"]


async def test_a_server_waits_until_its_new_volume_is_ready(yard: Yard) -> None:
    server_id = await begin(yard)
    await yard.compute.sagas.settle(60.0)
    assert (await yard.server(server_id))["status"] == "BUILD"
    yard.driver().knobs.release("create")
    await yard.settle()
    assert (await yard.server(server_id))["status"] == "ACTIVE"
    assert len(await yard.disks(server_id)) == 1


async def test_a_server_waits_for_a_volume_no_longer_than_volume_ready_s(yard: Yard) -> None:
    yard.compute.settings = replace(yard.compute.settings, volume_ready_s=100.0)
    server_id = await begin(yard)
    await yard.compute.sagas.settle(80.0)
    assert (await yard.server(server_id))["status"] == "BUILD"
    await yard.compute.sagas.settle(100.0)
    yard.driver().knobs.release("create")
    await yard.settle()
    assert (await yard.server(server_id))["status"] == "ERROR"
    left = await yard.volume_api("GET", "/volumes")
    assert left["volumes"] == []
