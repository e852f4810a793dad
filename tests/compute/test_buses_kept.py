"""A server's disks stay on the bus that was found for them, whatever befalls the server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.compute.cloud import ComputeCloud
from tests.compute.moving import Moving
from tests.compute.rescuing import guest_of
from tests.compute.swapping import swap
from tests.compute.test_disk_buses import BLANK, ON, places, put_image, shown
from tests.compute.test_evacuation import come_back
from tests.compute.verifying import ask, force_down, migrate, show

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2")
RESCUE = "0d9c1f0a-1f0f-4a9e-9a51-6f4c0f0f4a11"
ROOT = "/dev/sda"
DISKS = [("/dev/sdb", "scsi"), ("/dev/sdc", "usb"), ("/dev/sdd", "scsi")]
"""Beside the root disk: by the image, by the mapping, and one that came later."""


class Bused(Struct):
    """A server on scsi with three volumes, the second one on usb, on one of two hosts."""

    cloud: ComputeCloud
    moving: Moving

    async def keeps(self, host: str) -> None:
        """See that the server runs at a host, and its guest has each disk where it was."""
        assert (await show(self.moving))["status"] == "ACTIVE"
        assert await self.moving.host() == host
        guest = await guest_of(self.cloud, self.moving.server_id, host)
        assert guest.root_device == ROOT
        assert {*places(guest), (ROOT, "scsi")} == {(ROOT, "scsi"), *DISKS}
        root, names = await shown(self.cloud, self.moving.server_id)
        assert (root, {root, *names}) == (ROOT, {ROOT, *(device for device, _ in DISKS)})
        assert await self.cloud.complaints() == []


@pytest.fixture(params=["on its host", "on a volume"])
async def bused(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[Bused]:
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        image = put_image(cloud, hw_disk_bus="scsi")
        root = {"uuid": image, "source_type": "image", "boot_index": 0}
        if request.param == "on its host":
            root |= {"destination_type": "local"}
        else:
            root |= {"destination_type": "volume", "volume_size": 1}
        disks = [root, BLANK, {**BLANK, "disk_bus": "usb"}]
        server_id = await cloud.make_server(imageRef=image, block_device_mapping_v2=disks)
        assert (await cloud.attach(server_id, await cloud.make_volume())).status == 200
        await cloud.settle()
        source = (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"]
        destination = next(host for host in HOSTS if host != source)
        yield Bused(cloud, Moving(cloud, server_id, [], source, destination))


async def test_by_each_start(bused: Bused) -> None:
    moving = bused.moving
    # One that boots from a volume is rescued with an image that says by which device.
    bused.cloud.shelf.put(RESCUE, b"to rescue" * 8192, hw_rescue_bus="usb")
    for action, value in (
        ("os-stop", None),
        ("os-start", None),
        ("reboot", {"type": "HARD"}),
        ("suspend", None),
        ("resume", None),
        ("rescue", {"rescue_image_ref": RESCUE}),
        ("unrescue", None),
        ("rebuild", {"imageRef": ON}),
    ):
        assert await ask(moving, action, value, version="2.93") in {200, 202}, action
    await bused.keeps(moving.source)


async def test_by_a_move_that_is_taken_back_and_one_that_is_confirmed(bused: Bused) -> None:
    moving = bused.moving
    await migrate(moving)
    assert await ask(moving, "revertResize") == 202
    await bused.keeps(moving.source)
    await migrate(moving)
    assert await ask(moving, "confirmResize") == 204
    await bused.keeps(moving.destination)
    assert await ask(moving, "reboot", {"type": "HARD"}) == 202
    await bused.keeps(moving.destination)


async def test_by_another_size_on_the_same_host(bused: Bused) -> None:
    size = {"name": "more", "id": "more", "vcpus": 2, "ram": 256, "disk": 2}
    made = await bused.cloud.ask("POST", "/flavors", {"flavor": size}, user="admin")
    assert made.status == 200
    assert await ask(bused.moving, "resize", {"flavorRef": "more"}) == 202
    assert await ask(bused.moving, "confirmResize") == 204
    await bused.keeps(bused.moving.source)


async def test_by_a_move_of_the_running_guest(bused: Bused) -> None:
    moving = bused.moving
    await moving.move(block_migration="auto")
    await bused.keeps(moving.destination)
    assert await ask(moving, "reboot", {"type": "HARD"}) == 202
    await bused.keeps(moving.destination)


async def test_by_an_evacuation(bused: Bused) -> None:
    moving, cloud = bused.moving, bused.cloud
    cloud.hypervisor(moving.source).crash(moving.server_id)
    await force_down(cloud, moving.source, down=True)
    assert await ask(moving, "evacuate", {}, user="admin", version="2.94") == 200
    await come_back(moving)
    await bused.keeps(moving.destination)


@pytest.mark.parametrize("bused", ["on a volume"], indirect=True)
async def test_by_being_put_away_and_brought_back(bused: Bused) -> None:
    moving = bused.moving
    assert await ask(moving, "shelve") == 202
    assert await ask(moving, "shelveOffload", user="admin") in {202, 409}
    assert await ask(moving, "unshelve") == 202
    await bused.keeps(await moving.host())


async def test_by_a_swap_of_each_volume(bused: Bused) -> None:
    moving, cloud = bused.moving, bused.cloud
    listed: list[dict[str, Any]] = await cloud.attachments(moving.server_id)
    for one in listed:
        if one["device"] == ROOT:
            continue
        new = await cloud.make_volume()
        answer = await swap(cloud, moving.server_id, one["volumeId"], new)
        assert answer.status == 202
        await cloud.settle()
    await bused.keeps(moving.source)
    assert await ask(moving, "reboot", {"type": "HARD"}) == 202
    await bused.keeps(moving.source)
