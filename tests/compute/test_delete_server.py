"""Deleting a server, whatever it is doing."""

from __future__ import annotations

import pytest

from mooring.errors import Conflict
from tests.compute.yard import Yard

pytestmark = pytest.mark.anyio


async def delete(yard: Yard, server_id: str, who: str = "member") -> int:
    return (await yard.ask("DELETE", f"/servers/{server_id}", who=who)).status_code


async def held(yard: Yard) -> int:
    providers = await yard.compute.placement.providers()
    claims = [await yard.compute.placement.provider_allocations(one.uuid) for one in providers]
    return sum(len(one) for one in claims)


async def is_gone(yard: Yard, server_id: str) -> bool:
    guests = await yard.agents["host1"].list_servers()
    return (
        (await yard.server(server_id))["status"] == "gone"
        and [guest.server_id for guest in guests] == []
        and await yard.connections() == []
        and await held(yard) == 0
    )


async def test_deleted_server_leaves_nothing_and_frees_its_volumes(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    await yard.attach(server_id, volume_id)
    await yard.settle()
    assert await delete(yard, server_id) == 204
    await yard.settle()
    assert await is_gone(yard, server_id)
    assert await yard.volume_status(volume_id) == "available"
    assert await delete(yard, server_id) == 404


async def test_second_delete_while_the_first_runs_is_accepted(yard: Yard) -> None:
    server_id = await yard.make_server()
    yard.hypervisor().knobs.hold("remove")
    assert await delete(yard, server_id) == 204
    assert (await yard.server(server_id))["OS-EXT-STS:task_state"] == "deleting"
    assert await delete(yard, server_id) == 204
    yard.hypervisor().knobs.release("remove")
    await yard.settle()
    assert await is_gone(yard, server_id)
    path = f"/servers/{server_id}/os-instance-actions"
    listed = (await yard.ask("GET", path, who="admin")).json()["instanceActions"]
    assert [one["action"] for one in listed] == ["delete", "create"]


async def test_locked_server_stays(yard: Yard) -> None:
    server_id = await yard.make_server()
    await yard.act(server_id, "lock")
    assert await delete(yard, server_id) == 409
    assert await delete(yard, server_id, who="admin") == 204
    await yard.settle()


async def test_delete_in_the_middle_of_an_attach_ends_both(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    yard.hypervisor().knobs.hold("plug")
    await yard.attach(server_id, volume_id)
    assert await delete(yard, server_id) == 204
    yard.hypervisor().knobs.release("plug")
    await yard.settle()
    assert await is_gone(yard, server_id)
    assert await yard.volume_status(volume_id) == "available"


async def test_delete_in_the_middle_of_a_create_ends_both(yard: Yard) -> None:
    yard.hypervisor().knobs.hold("define")
    answer = await yard.ask(
        "POST",
        "/servers",
        {
            "server": {
                "name": "s",
                "flavorRef": "1",
                "imageRef": yard.image,
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
    server_id = answer.json()["server"]["id"]
    assert await delete(yard, server_id) == 204
    yard.hypervisor().knobs.release("define")
    await yard.settle()
    assert await is_gone(yard, server_id)
    assert (await yard.volume_api("GET", "/volumes"))["volumes"] == []


async def test_delete_takes_over_a_clean_up_that_does_not_end(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    await yard.attach(server_id, volume_id)
    await yard.settle()
    yard.driver().knobs.fail("unexport", Conflict("The export is in use."), times=5)
    await yard.detach(server_id, volume_id)
    await yard.compute.sagas.settle(1.0)
    assert (await yard.server(server_id))["status"] == "ERROR"
    assert await delete(yard, server_id) == 204
    await yard.settle()
    assert (await yard.server(server_id))["status"] in ("ERROR", "gone")
    if (await yard.server(server_id))["status"] == "ERROR":
        assert await delete(yard, server_id) == 204
        await yard.settle()
    assert await is_gone(yard, server_id)
    assert await yard.volume_status(volume_id) == "available"


async def test_server_that_never_had_a_host_is_deleted(yard: Yard) -> None:
    body = {"flavor": {"name": "vast", "ram": 10**8, "vcpus": 1, "disk": 1, "id": "vast"}}
    await yard.ask("POST", "/flavors", body, who="admin")
    path = f"/os-quota-sets/{yard.compute_project}"
    await yard.ask("PUT", path, {"quota_set": {"ram": -1}}, who="admin")
    server_id = await yard.make_server(flavorRef="vast")
    assert await delete(yard, server_id) == 204
    await yard.settle()
    assert await is_gone(yard, server_id)


async def test_host_that_was_forced_down_pays_its_debts_when_it_is_back(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    await yard.attach(server_id, volume_id)
    await yard.settle()
    yard.silent = ("PUT", "/")
    services = (await yard.ask("GET", "/os-services", who="admin")).json()["services"]
    service = next(one for one in services if one["binary"] == "nova-compute")
    path = f"/os-services/{service['id']}"
    await yard.ask("PUT", path, {"forced_down": True}, who="admin")
    assert await delete(yard, server_id) == 204
    await yard.settle()
    assert (await yard.server(server_id))["status"] == "gone"
    assert await yard.volume_status(volume_id) == "available"
    assert len(await yard.agents["host1"].list_servers()) == 1
    yard.silent = None
    await yard.look()
    assert await is_gone(yard, server_id)
