"""Deleting a server, whatever it is doing."""

from __future__ import annotations

import pytest

from mooring.errors import Conflict
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio


async def delete(cloud: ComputeCloud, server_id: str, user: str = "member") -> int:
    return (await cloud.ask("DELETE", f"/servers/{server_id}", user=user)).status


async def held(cloud: ComputeCloud) -> int:
    providers = await cloud.compute.placement.providers()
    claims = [await cloud.compute.placement.provider_allocations(one.uuid) for one in providers]
    return sum(len(one) for one in claims)


async def is_gone(cloud: ComputeCloud, server_id: str) -> bool:
    guests = await cloud.known_agents["host1"].list_servers()
    return (
        (await cloud.server(server_id))["status"] == "gone"
        and [guest.server_id for guest in guests] == []
        and await cloud.connections() == []
        and await held(cloud) == 0
    )


async def test_deleted_server_leaves_nothing_and_frees_its_volumes(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_attached()
    assert await delete(cloud, server_id) == 204
    await cloud.settle()
    assert await is_gone(cloud, server_id)
    assert await cloud.volume_status(volume_id) == "available"
    assert await delete(cloud, server_id) == 404


async def test_second_delete_while_the_first_runs_is_accepted(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    cloud.hypervisor().knobs.hold("remove")
    assert await delete(cloud, server_id) == 204
    assert (await cloud.server(server_id))["OS-EXT-STS:task_state"] == "deleting"
    assert await delete(cloud, server_id) == 204
    cloud.hypervisor().knobs.release("remove")
    await cloud.settle()
    assert await is_gone(cloud, server_id)
    path = f"/servers/{server_id}/os-instance-actions"
    listed = (await cloud.ask("GET", path, user="admin")).body["instanceActions"]
    assert [one["action"] for one in listed] == ["delete", "create"]


async def test_locked_server_stays(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    await cloud.act(server_id, "lock")
    assert await delete(cloud, server_id) == 409
    assert await delete(cloud, server_id, user="admin") == 204
    await cloud.settle()


async def test_delete_in_the_middle_of_an_attach_ends_both(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    cloud.hypervisor().knobs.hold("plug")
    await cloud.attach(server_id, volume_id)
    assert await delete(cloud, server_id) == 204
    cloud.hypervisor().knobs.release("plug")
    await cloud.settle()
    assert await is_gone(cloud, server_id)
    assert await cloud.volume_status(volume_id) == "available"


async def test_delete_in_the_middle_of_a_create_ends_both(cloud: ComputeCloud) -> None:
    cloud.hypervisor().knobs.hold("define")
    answer = await cloud.ask(
        "POST",
        "/servers",
        {
            "server": {
                "name": "s",
                "flavorRef": "1",
                "imageRef": cloud.image_id,
                "networks": "none",
                "block_device_mapping_v2": [
                    {
                        "source_type": "blank",
                        "destination_type": "volume",
                        "volume_size": 1,
                        "boot_index": -1,
                    }
                ],
            }
        },
    )
    server_id = answer.body["server"]["id"]
    assert await delete(cloud, server_id) == 204
    cloud.hypervisor().knobs.release("define")
    await cloud.settle()
    assert await is_gone(cloud, server_id)
    assert (await cloud.volume_api("GET", "/volumes"))["volumes"] == []


async def test_delete_takes_over_a_clean_up_that_does_not_end(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_attached()
    cloud.driver().knobs.fail("unexport", Conflict("The export is in use."), times=5)
    await cloud.detach(server_id, volume_id)
    await cloud.compute.sagas.settle(1.0)
    assert (await cloud.server(server_id))["status"] == "ERROR"
    assert await delete(cloud, server_id) == 204
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] in ("ERROR", "gone")
    if (await cloud.server(server_id))["status"] == "ERROR":
        assert await delete(cloud, server_id) == 204
        await cloud.settle()
    assert await is_gone(cloud, server_id)
    assert await cloud.volume_status(volume_id) == "available"


async def test_server_that_never_had_a_host_is_deleted(cloud: ComputeCloud) -> None:
    body = {"flavor": {"name": "vast", "ram": 10**8, "vcpus": 1, "disk": 1, "id": "vast"}}
    await cloud.ask("POST", "/flavors", body, user="admin")
    path = f"/os-quota-sets/{cloud.project_id}"
    await cloud.ask("PUT", path, {"quota_set": {"ram": -1}}, user="admin")
    server_id = await cloud.make_server(flavorRef="vast")
    assert await delete(cloud, server_id) == 204
    await cloud.settle()
    assert await is_gone(cloud, server_id)


async def test_host_that_was_forced_down_pays_its_debts_when_it_is_back(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await cloud.make_attached()
    cloud.silent = ("PUT", "/")
    services = (await cloud.ask("GET", "/os-services", user="admin")).body["services"]
    service = next(one for one in services if one["binary"] == "nova-compute")
    path = f"/os-services/{service['id']}"
    await cloud.ask("PUT", path, {"forced_down": True}, user="admin")
    assert await delete(cloud, server_id) == 204
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "gone"
    assert await cloud.volume_status(volume_id) == "available"
    assert len(await cloud.known_agents["host1"].list_servers()) == 1
    cloud.silent = None
    await cloud.look_at_hosts()
    assert await is_gone(cloud, server_id)
