"""Servers whose flavor has swap: a disk on their host, made anew wherever their guest starts.

Facts/compute.md 3.4. What both hypervisors promise: tests/contract/test_swap_disks.py.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from mooring import typed
from mooring.agent_api.servers import Guest
from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Conflict
from tests.compute.cloud import IMAGE, ComputeCloud
from tests.compute.moving import Moving
from tests.compute.test_evacuation import come_back
from tests.compute.verifying import ask, force_down, migrate, show

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2")
FLAVORS = {"swapping": 1500, "much": 3000, "none": 0}
"""What each has of swap, in MiB; all have a root disk of 1 GiB."""
OF_USER = b"put aside"


class Swapping(Struct):
    """A server with a swap disk of 1500 MiB on one of two hosts."""

    cloud: ComputeCloud
    moving: Moving

    def swap(self, host: str) -> Path:
        """Where a host keeps the server's swap disk."""
        return self.cloud.hosts[host].state_dir / "guests" / self.moving.server_id / "swap"

    def sizes(self) -> list[int]:
        """Return how large it is at source and destination, in MiB; 0 where none is."""
        both = [self.swap(host) for host in (self.moving.source, self.moving.destination)]
        return [path.stat().st_size >> 20 if path.exists() else 0 for path in both]

    def write(self) -> None:
        """Write at the source what no other swap disk has."""
        with self.swap(self.moving.source).open("r+b") as file:
            file.seek(1 << 20)
            file.write(OF_USER)

    def is_written(self, host: str) -> bool:
        """Whether that is on the swap disk at a host."""
        with self.swap(host).open("rb") as file:
            file.seek(1 << 20)
            return file.read(len(OF_USER)) == OF_USER

    async def held(self) -> list[list[int]]:
        """Return what source and destination have promised of DISK_GB."""
        placement = self.cloud.compute.placement
        known = {one.name: one.uuid for one in await placement.providers()}
        both = (self.moving.source, self.moving.destination)
        found = [await placement.provider_allocations(known[host]) for host in both]
        return [sorted(one.get("DISK_GB", 0) for one in of_host.values()) for of_host in found]

    async def is_well(self) -> None:
        """See that the server runs, and that nobody has anything of it that it does not have."""
        assert (await show(self.moving))["status"] == "ACTIVE"
        assert await self.cloud.complaints() == []


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncGenerator[ComputeCloud]:
    async with ComputeCloud(tmp_path, hosts=HOSTS) as made:
        for name, swap in FLAVORS.items():
            size = {"name": name, "id": name, "vcpus": 1, "ram": 128, "disk": 1, "swap": swap}
            answer = await made.ask("POST", "/flavors", {"flavor": size}, user="admin")
            assert answer.status == 200
        yield made


async def make(cloud: ComputeCloud, **wanted: Any) -> Swapping:
    server_id = await cloud.make_server(flavorRef="swapping", **wanted)
    source = (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"]
    destination = next(host for host in HOSTS if host != source)
    return Swapping(cloud, Moving(cloud, server_id, [], source, destination))


@pytest.fixture
async def swapping(cloud: ComputeCloud) -> Swapping:
    return await make(cloud)


async def on_volume(cloud: ComputeCloud) -> Swapping:
    """Make such a server that boots from a volume."""
    root = await cloud.make_volume(bootable=True)
    item = {"uuid": root, "source_type": "volume", "destination_type": "volume", "boot_index": 0}
    made = await make(cloud, imageRef="", block_device_mapping_v2=[item])
    made.moving.volumes.append(root)
    return made


# -- its life ----------------------------------------------------------------------------------


async def test_a_server_has_what_its_flavor_says_until_it_is_deleted(swapping: Swapping) -> None:
    moving, cloud = swapping.moving, swapping.cloud
    shown = await show(moving)
    assert shown["flavor"]["swap"] == 1500
    assert swapping.sizes() == [1500, 0]
    # MiB are rounded up to GiB: 1 of root, 2 of swap.
    assert await swapping.held() == [[3], []]
    answer = await cloud.attach(moving.server_id, await cloud.make_volume())
    assert answer.body["volumeAttachment"]["device"] == "/dev/vdc"
    await cloud.settle()
    (disk,) = await cloud.attachments(moving.server_id)
    assert disk["device"] == "/dev/vdc"
    swapping.write()
    for action, value in (
        ("os-stop", None),
        ("os-start", None),
        ("reboot", {"type": "HARD"}),
        ("rescue", {}),
        ("unrescue", None),
    ):
        assert await ask(moving, action, value) in {200, 202}, action
        assert swapping.is_written(moving.source)
    await swapping.is_well()
    path = f"/servers/{moving.server_id}"
    assert (await cloud.ask("DELETE", path)).status == 204
    await cloud.settle()
    assert not swapping.swap(moving.source).parent.exists()
    assert await swapping.held() == [[], []]
    assert await cloud.complaints() == []


async def test_one_that_is_rebuilt_or_comes_back_gets_another(swapping: Swapping) -> None:
    moving = swapping.moving
    swapping.write()
    assert await ask(moving, "rebuild", {"imageRef": IMAGE}) == 202
    assert not swapping.is_written(moving.source)
    assert swapping.sizes() == [1500, 0]
    await swapping.is_well()


async def test_one_on_a_volume_is_put_away_and_brought_back(cloud: ComputeCloud) -> None:
    swapping = await on_volume(cloud)
    moving = swapping.moving
    assert (swapping.sizes(), await swapping.held()) == ([1500, 0], [[2], []])
    assert await ask(moving, "shelve") == 202
    assert (swapping.sizes(), await swapping.held()) == ([0, 0], [[], []])
    assert await ask(moving, "unshelve") == 202
    assert sum(swapping.sizes()) == 1500
    await swapping.is_well()


async def test_one_of_a_dead_host_gets_another(swapping: Swapping) -> None:
    moving, cloud = swapping.moving, swapping.cloud
    swapping.write()
    cloud.hypervisor(moving.source).crash(moving.server_id)
    await force_down(cloud, moving.source, down=True)
    assert await ask(moving, "evacuate", {}, user="admin", version="2.94") == 200
    assert not swapping.is_written(moving.destination)
    await come_back(moving)
    assert swapping.sizes() == [0, 1500]
    await swapping.is_well()


# -- moves -------------------------------------------------------------------------------------


async def test_one_that_moves_while_it_is_off_gets_another(swapping: Swapping) -> None:
    moving = swapping.moving
    swapping.write()
    await migrate(moving)
    assert swapping.sizes() == [0, 1500]
    assert not swapping.is_written(moving.destination)
    assert await swapping.held() == [[3], [3]]
    assert await swapping.cloud.complaints() == []
    assert await ask(moving, "revertResize") == 202
    assert (swapping.sizes(), await swapping.held()) == ([1500, 0], [[3], []])
    await migrate(moving)
    assert await ask(moving, "confirmResize") == 204
    assert (swapping.sizes(), await swapping.held()) == ([0, 1500], [[], [3]])
    await swapping.is_well()


@pytest.mark.parametrize("flavor", ["much", "none"])
async def test_another_size_comes_with_another_swap_disk(swapping: Swapping, flavor: str) -> None:
    moving, size_mib = swapping.moving, FLAVORS[flavor]
    room = [3, 4] if size_mib else [1, 3]
    for word, left in (("revertResize", 1500), ("confirmResize", size_mib)):
        assert await ask(moving, "resize", {"flavorRef": flavor}) == 202
        assert (swapping.sizes(), await swapping.held()) == ([size_mib, 0], [room, []])
        assert await ask(moving, word) in {202, 204}
        assert swapping.sizes() == [left, 0]
        await swapping.is_well()
    assert await ask(moving, "resize", {"flavorRef": "swapping"}) == 202
    assert swapping.sizes() == [1500, 0]


async def test_a_size_that_does_not_start_leaves_the_former_swap_disk(swapping: Swapping) -> None:
    moving = swapping.moving
    for point in ("make_swap", "define"):
        knobs = swapping.cloud.hypervisor(moving.source).knobs
        knobs.fail(point, Conflict("The host says no."))
        assert await ask(moving, "resize", {"flavorRef": "much"}) == 202
        assert (swapping.sizes(), await swapping.held()) == ([1500, 0], [[3], []])
        assert (await show(moving))["flavor"]["swap"] == 1500
        await swapping.is_well()


async def test_a_guest_that_runs_on_elsewhere_takes_it_along(swapping: Swapping) -> None:
    moving = swapping.moving
    swapping.write()
    assert await moving.migrate(block_migration=False) == 400
    await moving.move(block_migration="auto")
    assert (await moving.host(), swapping.sizes()) == (moving.destination, [0, 1500])
    assert swapping.is_written(moving.destination)
    assert await swapping.held() == [[], [3]]
    await swapping.is_well()


async def test_one_on_a_volume_goes_along_by_block_migration_only(cloud: ComputeCloud) -> None:
    swapping = await on_volume(cloud)
    moving, body = swapping.moving, {"host": None, "block_migration": False}
    path = f"/servers/{moving.server_id}/action"
    wanted = {"os-migrateLive": body}
    refused = await cloud.ask("POST", path, wanted, user="admin", version="2.90")
    assert refused.status == 400
    assert "has its swap disk on its host" in refused.text
    swapping.write()
    await moving.move(block_migration=True)
    assert (swapping.sizes(), swapping.is_written(moving.destination)) == ([0, 1500], True)
    await migrate(moving)
    assert swapping.sizes() == [1500, 0]
    assert await ask(moving, "revertResize") == 202
    assert (swapping.sizes(), await swapping.held()) == ([0, 1500], [[], [2]])
    await swapping.is_well()


async def test_a_move_in_vain_leaves_nothing(swapping: Swapping) -> None:
    moving, cloud = swapping.moving, swapping.cloud
    cloud.hypervisor(moving.destination).knobs.fail("expect_swap", Conflict("There is no room."))
    await moving.move(block_migration="auto")
    cloud.hypervisor(moving.source).knobs.fail("send_memory", Conflict("It will not go."))
    await moving.move(block_migration="auto")
    cloud.hypervisor(moving.destination).knobs.fail("power_on", Conflict("It will not start."))
    await migrate(moving)
    assert (await moving.host(), swapping.sizes()) == (moving.source, [1500, 0])
    assert await swapping.held() == [[3], []]
    await swapping.is_well()


# -- what is refused ---------------------------------------------------------------------------


async def test_what_is_no_swap_disk_of_the_flavor_is_refused(cloud: ComputeCloud) -> None:
    root = {"uuid": IMAGE, "source_type": "image", "destination_type": "local", "boot_index": 0}
    blank = {"source_type": "blank", "destination_type": "local", "boot_index": -1}
    for item, said in (
        ({**blank, "guest_format": "swap", "volume_size": 1}, "a swap disk is as the flavor says"),
        (blank, "ephemeral disks are not built"),
    ):
        wanted = {"name": "s", "flavorRef": "swapping", "imageRef": IMAGE, "networks": "none"}
        wanted |= {"block_device_mapping_v2": [root, item]}
        refused = await cloud.ask("POST", "/servers", {"server": wanted})
        assert refused.status == 400
        assert said in refused.text
    for swap in (-1, "much", 1 << 40):
        size = {"name": "f", "vcpus": 1, "ram": 128, "disk": 1, "swap": swap}
        answer = await cloud.ask("POST", "/flavors", {"flavor": size}, user="admin")
        assert answer.status == 400


async def test_it_counts_among_the_disks_of_a_server(cloud: ComputeCloud) -> None:
    cloud.compute.settings = replace(cloud.compute.settings, max_disks=2)
    blank = {"source_type": "blank", "destination_type": "volume", "volume_size": 1}
    root = {"uuid": IMAGE, "source_type": "image", "destination_type": "local", "boot_index": 0}
    wanted = {"name": "s", "imageRef": IMAGE, "networks": "none"}
    wanted |= {"block_device_mapping_v2": [root, {**blank, "boot_index": -1}]}
    for flavor, status in (("swapping", 403), ("none", 202)):
        answer = await cloud.ask("POST", "/servers", {"server": {**wanted, "flavorRef": flavor}})
        assert answer.status == status
    await cloud.settle()
    swapping, volume_id = await make(cloud), await cloud.make_volume()
    assert (await cloud.attach(swapping.moving.server_id, volume_id)).status == 403


async def test_a_host_that_makes_none_is_not_left_with_the_server(cloud: ComputeCloud) -> None:
    """An agent of the release before does not know what it is asked for, and says so."""

    async def forget(request: Request, forward: Forward) -> Response:
        answer = await forward(request)
        if request.method != "PUT" or not request.target.startswith("/servers/"):
            return answer
        guest = replace(typed.decode(await answer.whole(), Guest), swap_mib=0)
        return replace(answer, body=msgspec.json.encode(guest), stream=None)

    cloud.deliver_to_host = forget
    server_id = await cloud.make_server(flavorRef="swapping")
    shown = await cloud.server(server_id)
    assert shown["status"] == "ERROR"
    assert "makes no swap disks" in shown["fault"]["message"]
    for host in HOSTS:
        assert await cloud.known_agents[host].list_servers() == []
    assert await cloud.complaints() == []
