"""A new server whose host cannot build it is built by another one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.settings import Role
from mooring.errors import Conflict, Invalid, NotFound, Unavailable
from mooring.limits import COMPUTE_BUILD_HOSTS
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio
_HOSTS = ("host1", "host2", "host3", "host4")
_ROLES: dict[str, tuple[Role, ...]] = {
    "host1": ("compute", "volume"),
    **dict.fromkeys(_HOSTS[1:], ("compute",)),
}


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncGenerator[ComputeCloud]:
    """Four hosts for servers, the first of them with the storage."""
    async with ComputeCloud(tmp_path, hosts=_HOSTS, roles=_ROLES) as opened:
        yield opened


def _break(cloud: ComputeCloud, *hosts: str) -> None:
    for host in hosts:
        error = Conflict(f"The machine of {host} is broken.")
        cloud.hypervisor(host).knobs.fail("power_on", error, times=9)


async def _first(cloud: ComputeCloud) -> str:
    """Return the host that is tried first."""
    server_id = await cloud.make_server()
    host = (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"]
    await cloud.ask("DELETE", f"/servers/{server_id}")
    await cloud.settle()
    return host


async def _events(cloud: ComputeCloud, server_id: str) -> list[tuple[str, str | None, str | None]]:
    """Return host, result and details of each event of the creation, oldest first."""
    path = f"/servers/{server_id}/os-instance-actions"
    [action] = (await cloud.ask("GET", path, user="admin")).body["instanceActions"]
    shown = await cloud.ask("GET", f"{path}/{action['request_id']}", user="admin")
    events = shown.body["instanceAction"]["events"]
    return [(one["host"], one["result"], one["details"]) for one in events[::-1]]


async def _holding(cloud: ComputeCloud) -> list[str]:
    """Return which hosts have a guest, a connection, or room taken from them."""
    found: set[str] = set()
    placement = cloud.compute.placement
    for host in _HOSTS:
        if await cloud.known_agents[host].list_servers() or await cloud.connections(host):
            found.add(host)
    for provider in await placement.providers():
        if await placement.provider_allocations(provider.uuid):
            found.add(provider.name)
    return sorted(found)


async def test_another_host_builds_it_and_the_first_one_has_nothing(cloud: ComputeCloud) -> None:
    first = await _first(cloud)
    _break(cloud, first)
    server_id = await cloud.make_server()
    server = await cloud.server(server_id)
    assert server["status"] == "ACTIVE"
    host = server["OS-EXT-SRV-ATTR:host"]
    assert await _holding(cloud) == [host]
    assert await cloud.actions(server_id) == [("create", None)]
    events = await _events(cloud, server_id)
    assert events == [
        (first, "Error", f"The machine of {first} is broken."),
        (host, "Success", None),
    ]


async def test_its_volumes_go_along(cloud: ComputeCloud) -> None:
    first = await _first(cloud)
    _break(cloud, first)
    named = await cloud.make_volume()
    kept = {"source_type": "volume", "destination_type": "volume", "uuid": named}
    made = {"source_type": "blank", "destination_type": "volume", "volume_size": 1}
    items = [{**kept, "boot_index": -1}, {**made, "boot_index": -1}]
    server_id = await cloud.make_server(block_device_mapping_v2=items)
    server = await cloud.server(server_id)
    assert server["status"] == "ACTIVE"
    host = server["OS-EXT-SRV-ATTR:host"]
    assert host != first
    volumes = (await cloud.volume_api("GET", "/volumes/detail"))["volumes"]
    assert len(volumes) == len(items)
    for volume in volumes:
        [attachment] = volume["attachments"]
        assert (volume["status"], attachment["server_id"]) == ("in-use", server_id)
    assert sorted(await cloud.disks(server_id, host)) == sorted(one["id"] for one in volumes)
    assert await _holding(cloud) == [host]


async def test_a_volume_that_was_made_for_the_first_host_is_not_taken(cloud: ComputeCloud) -> None:
    _break(cloud, await _first(cloud))
    cloud.driver().knobs.fail("delete", Conflict("Somebody holds it."))
    silent = Unavailable("The volume service is silent.")

    def turn() -> Exception:
        cloud.probe.arm("compute.create_server/make_volume/forward/before", lambda: silent)
        return silent

    cloud.probe.arm("compute.create_server/claim_host/back/before", turn)
    made = {"source_type": "blank", "destination_type": "volume", "volume_size": 1}
    server_id = await cloud.make_server(block_device_mapping_v2=[{**made, "boot_index": -1}])
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    volumes = (await cloud.volume_api("GET", "/volumes/detail"))["volumes"]
    assert sorted(volume["status"] for volume in volumes) == ["error_deleting", "in-use"]


async def test_between_two_hosts_it_is_at_none(cloud: ComputeCloud) -> None:
    _break(cloud, await _first(cloud))
    point = "compute.create_server/claim_host/back/before"
    cloud.probe.arm(point, lambda: Unavailable("Placement is silent."))
    wanted = {"name": "s", "flavorRef": "1", "imageRef": cloud.image_id, "networks": "none"}
    answer = await cloud.ask("POST", "/servers", {"server": wanted})
    await cloud.compute.sagas.schedule.quiet()
    server = await cloud.server(answer.body["server"]["id"])
    assert server["OS-EXT-SRV-ATTR:host"] is None
    assert server["OS-EXT-STS:task_state"] == "scheduling"
    await cloud.settle()
    assert (await cloud.server(server["id"]))["status"] == "ACTIVE"


async def test_after_enough_hosts_it_is_in_error_and_says_why(cloud: ComputeCloud) -> None:
    _break(cloud, *_HOSTS)
    server_id = await cloud.make_server()
    server = await cloud.server(server_id)
    assert server["status"] == "ERROR"
    assert await _holding(cloud) == []
    tried = [host for host, _, _ in await _events(cloud, server_id)]
    assert len(tried) == len(set(tried)) == COMPUTE_BUILD_HOSTS
    said = [f"On {host} it failed: The machine of {host} is broken." for host in tried]
    assert server["fault"]["message"] == " ".join(said)


async def test_one_that_was_asked_for_is_the_only_one_tried(cloud: ComputeCloud) -> None:
    _break(cloud, "host2")
    wanted: dict[str, Any] = {"name": "s", "flavorRef": "1", "networks": "none", "host": "host2"}
    wanted["imageRef"] = cloud.image_id
    answer = await cloud.ask("POST", "/servers", {"server": wanted}, user="admin")
    await cloud.settle()
    server = await cloud.server(answer.body["server"]["id"])
    assert (server["status"], server["fault"]["message"]) == (
        "ERROR",
        "The machine of host2 is broken.",
    )
    assert await _holding(cloud) == []


async def test_what_no_host_could_do_better_is_not_tried_elsewhere(cloud: ComputeCloud) -> None:
    cloud.driver().knobs.fail("create", NotFound("The disk of the pool is gone."), times=9)
    made = {"source_type": "blank", "destination_type": "volume", "volume_size": 1}
    server_id = await cloud.make_server(block_device_mapping_v2=[{**made, "boot_index": -1}])
    assert (await cloud.server(server_id))["status"] == "ERROR"
    assert len(await _events(cloud, server_id)) == 1


async def test_what_is_wrong_on_every_host_is_not_tried_elsewhere(cloud: ComputeCloud) -> None:
    for host in _HOSTS:
        cloud.hypervisor(host).knobs.fail("power_on", Invalid("It cannot boot."), times=9)
    server_id = await cloud.make_server()
    assert (await cloud.server(server_id))["fault"]["message"] == "It cannot boot."
    assert len(await _events(cloud, server_id)) == 1


async def test_a_deletion_ends_the_trying(cloud: ComputeCloud) -> None:
    first = await _first(cloud)
    _break(cloud, first)
    cloud.hypervisor(first).knobs.hold("power_on")
    wanted = {"name": "s", "flavorRef": "1", "imageRef": cloud.image_id, "networks": "none"}
    answer = await cloud.ask("POST", "/servers", {"server": wanted})
    server_id = answer.body["server"]["id"]
    deleting = await cloud.meanwhile(cloud.ask("DELETE", f"/servers/{server_id}"))
    cloud.hypervisor(first).knobs.release("power_on")
    assert (await deleting).status == 204
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "gone"
    assert await _holding(cloud) == []
