"""What is left of evacuations when their host is gone, or when their new one failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.compute.moves import evacuating
from mooring.errors import Conflict
from mooring.who import Who
from tests.compute.cloud import ComputeCloud
from tests.compute.fenced import forget
from tests.compute.local_disks import make_local
from tests.compute.moving import moving_server
from tests.compute.test_evacuation import HOSTS, come_back, die, evacuate, is_there
from tests.compute.verifying import ask, force_down, show
from tests.kept import Keeper

pytestmark = pytest.mark.anyio


async def test_a_host_that_was_deleted_ends_the_records_when_it_is_back(
    keeper: Keeper, database: str
) -> None:
    async with moving_server(keeper, hosts=HOSTS, database=database) as moving:
        cloud = moving.cloud
        await die(moving)
        await evacuate(moving, host=moving.destination)
        listed = await cloud.ask("GET", "/os-services", user="admin", version="2.100")
        [mine] = [one for one in listed.body["services"] if one["host"] == moving.source]
        path = f"/os-services/{mine['id']}"
        answer = await cloud.ask("DELETE", path, user="admin", version="2.100")
        assert answer.status == 204
        assert await moving.status() == "done"
        await come_back(moving)
        assert await moving.states() == ["absent", "running"]
        await cloud.look_at_hosts()
        assert await moving.status() == "completed"
        await is_there(moving)


async def test_what_a_host_still_owes_is_nothing_that_the_doctor_finds(
    keeper: Keeper, database: str
) -> None:
    async with moving_server(keeper, hosts=HOSTS, database=database) as moving:
        cloud = moving.cloud
        await force_down(cloud, moving.source, down=True)
        await evacuate(moving, host=moving.destination)
        # Its agent was not asked yet, and has guest and volumes.
        assert await moving.connected() == [2, 2]
        assert await cloud.complaints() == []
        await come_back(moving)
        assert await moving.connected() == [0, 2]
        assert await cloud.complaints() == []


async def test_nor_is_a_volume_that_it_was_to_let_go_of(keeper: Keeper, database: str) -> None:
    async with moving_server(keeper, hosts=HOSTS, database=database) as moving:
        cloud = moving.cloud
        cloud.silent = ("DELETE", f"/servers/{moving.server_id}/disks")
        answer = await cloud.detach(moving.server_id, moving.volumes[1])
        assert answer.status == 202
        await cloud.settle(20.0)
        await force_down(cloud, moving.source, down=True)
        await cloud.settle(3000.0)
        assert len(await cloud.attachments(moving.server_id)) == 1
        assert await moving.connected() == [2, 0]
        assert await cloud.complaints() == []


async def test_a_host_that_is_gone_for_good_is_forgotten_with_what_it_owes(
    keeper: Keeper, database: str
) -> None:
    async with moving_server(keeper, hosts=HOSTS, database=database) as moving:
        cloud = moving.cloud
        source = moving.source
        with pytest.raises(Conflict, match="not known to be dead"):
            await forget(cloud, source, gone=True)
        await die(moving)
        with pytest.raises(Conflict, match="still has 1 servers"):
            await forget(cloud, source, gone=True)
        await evacuate(moving, host=moving.destination)
        with pytest.raises(Conflict, match="that it owes"):
            await forget(cloud, source, gone=False)
        assert await moving.status() == "done"
        await forget(cloud, source, gone=True)
        assert await moving.status() == "completed"
        cloud.compute.agents.remove(source)
        listed = await cloud.ask("GET", "/os-services", user="admin", version="2.100")
        assert source not in {one["host"] for one in listed.body["services"]}
        assert (await show(moving))["status"] == "ACTIVE"
        assert (await cloud.ask("DELETE", f"/servers/{moving.server_id}")).status == 204
        await cloud.settle()


async def test_one_whose_new_root_disk_was_never_made_is_brought_up_by_a_rebuild(
    tmp_path: Path,
) -> None:
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        moving = (await make_local(cloud)).moving
        await die(moving)
        knobs = cloud.hypervisor(moving.destination).knobs
        knobs.fail("define", Conflict("It will not go."))
        await evacuate(moving, host=moving.destination)
        shown = await show(moving)
        assert shown["status"] == "ERROR"
        assert "or rebuild it where its new root disk was not made" in shown["fault"]["message"]
        assert await ask(moving, "reboot", {"type": "HARD"}) == 202
        shown = await show(moving)
        assert shown["status"] == "ERROR"
        assert "Rebuild the server" in shown["fault"]["message"]
        assert await ask(moving, "rebuild", {"imageRef": cloud.image_id}) == 202
        assert (await show(moving))["status"] == "ACTIVE"
        assert (await moving.states())[1] == "running"


async def test_one_that_has_left_the_host_is_evacuated_from_it_no_more(keeper: Keeper) -> None:
    async with moving_server(keeper, hosts=HOSTS) as moving:
        cloud = moving.cloud
        await die(moving)
        await evacuate(moving, host=moving.destination)
        moving.source, moving.destination = moving.destination, moving.source
        await die(moving)
        who = Who(user_id="u", project_id="p", is_admin=True)
        with pytest.raises(Conflict, match="no more"):
            await evacuating.evacuate(
                cloud.compute,
                who,
                moving.server_id,
                host=None,
                is_left_off=False,
                only_from=moving.destination,
            )
        assert await moving.host() == moving.source
