"""A volume grows under a guest whose emulator hangs: the server is its owner's all the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mooring.saga.engine import VISIBLE_WAIT_S
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio
SOON_S = 0.01
SECONDS = 300.0
"""Longer than anybody rests, and shorter than the deadline of an extend."""
HARD = {"type": "HARD"}


async def hanging(cloud: ComputeCloud) -> tuple[str, str]:
    """Make a server with a volume of 1 GiB, let its guest hang, and order 2 GiB."""
    server_id, volume_id = await cloud.make_attached()
    emulators = cloud.hypervisor().emulators
    emulators.calls.answer_s = SOON_S
    emulators.hang(server_id)
    body = {"os-extend": {"new_size": 2}}
    await cloud.volume_api("POST", f"/volumes/{volume_id}/action", body)
    await go_on(cloud, 2.0)
    assert await at_work(cloud, "compute") == ["compute.extend_volume"]
    return server_id, volume_id


async def go_on(cloud: ComputeCloud, seconds: float) -> None:
    """Let everybody work for so long."""
    begun_at = cloud.clock.now()
    while (cloud.clock.now() - begun_at).total_seconds() < seconds:
        await cloud.compute.sagas.settle(1.0)
        await cloud.volume.sagas.settle(1.0)
        cloud.clock.advance(0.5)


async def at_work(cloud: ComputeCloud, service: str) -> Sequence[str]:
    roots = {"compute": ("/compute/v2.1", "2.100"), "volume": ("/volume/v3", "3.67")}
    root, version = roots[service]
    path = f"{root}/mooring/operations"
    listed = await cloud.ask("GET", path, user="admin", version=version)
    return [one["name"] for one in listed.body["operations"]]


async def require_end(cloud: ComputeCloud, volume_id: str, status: str, gib: int) -> None:
    """See that the growth has ended as its file says, and nothing goes on."""
    await go_on(cloud, SECONDS)
    shown = await cloud.volume_api("GET", f"/volumes/{volume_id}")
    assert (shown["volume"]["status"], shown["volume"]["size"]) == (status, gib)
    for service in ("compute", "volume"):
        assert await at_work(cloud, service) == []
    size = await cloud.agents["host1"].agent.drivers["local"].find(volume_id)
    assert size is not None
    assert size.virtual_bytes == gib << 30


async def insist(cloud: ComputeCloud, server_id: str, action: str, value: Any = None) -> int:
    """Act on the server, and let the time pass that a healthy growth would need."""
    asked = await cloud.meanwhile(cloud.act(server_id, action, value), turns=1000)
    assert not asked.done()
    cloud.clock.advance(VISIBLE_WAIT_S)
    return await asked


async def test_the_server_is_deleted(cloud: ComputeCloud) -> None:
    server_id, volume_id = await hanging(cloud)
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await require_end(cloud, volume_id, "available", 1)
    assert (await cloud.server(server_id))["status"] == "gone"


async def test_the_server_is_stopped(cloud: ComputeCloud) -> None:
    server_id, volume_id = await hanging(cloud)
    assert await insist(cloud, server_id, "os-stop") == 202
    await require_end(cloud, volume_id, "in-use", 2)
    assert (await cloud.server(server_id))["status"] == "SHUTOFF"
    await cloud.look_at_hosts()
    assert await cloud.act(server_id, "os-start") == 202
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ACTIVE"


async def test_the_server_is_rebooted_hard(cloud: ComputeCloud) -> None:
    server_id, volume_id = await hanging(cloud)
    assert await insist(cloud, server_id, "reboot", HARD) == 202
    await require_end(cloud, volume_id, "in-use", 2)
    assert (await cloud.server(server_id))["status"] == "ACTIVE"


async def test_who_insists_does_not_push_aside_others_who_came_meanwhile(
    cloud: ComputeCloud,
) -> None:
    free = await cloud.make_volume()
    server_id, _ = await hanging(cloud)
    stopping = await cloud.meanwhile(cloud.act(server_id, "os-stop"), turns=1000)
    attaching = await cloud.meanwhile(cloud.attach(server_id, free), turns=1000)
    cloud.clock.advance(VISIBLE_WAIT_S)
    assert await stopping == 409
    cloud.hypervisor().emulators.go_on(server_id)
    await attaching
    await cloud.settle()
    assert free in await cloud.disks(server_id)


async def test_what_does_not_end_a_guest_is_refused_while_it_hangs(cloud: ComputeCloud) -> None:
    server_id, _ = await hanging(cloud)
    assert await cloud.act(server_id, "reboot", {"type": "SOFT"}) == 409
    cloud.hypervisor().emulators.go_on(server_id)
    await cloud.settle()


async def test_the_volume_has_grown_once_the_guest_goes_on(cloud: ComputeCloud) -> None:
    server_id, volume_id = await hanging(cloud)
    cloud.hypervisor().emulators.go_on(server_id)
    await cloud.settle()
    shown = await cloud.volume_api("GET", f"/volumes/{volume_id}")
    assert (shown["volume"]["status"], shown["volume"]["size"]) == ("in-use", 2)
    assert (await cloud.server(server_id))["status"] == "ACTIVE"


async def test_another_guest_of_the_host_is_served(cloud: ComputeCloud) -> None:
    other, volume_id = await cloud.make_server(), await cloud.make_volume()
    server_id, _ = await hanging(cloud)
    await cloud.attach(other, volume_id)
    await go_on(cloud, 5.0)
    assert await cloud.disks(other) == [volume_id]
    cloud.hypervisor().emulators.go_on(server_id)
    await cloud.settle()


async def test_a_plug_into_a_guest_that_hangs_says_so_and_is_given_up(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    cloud.hypervisor().emulators.calls.answer_s = SOON_S
    cloud.hypervisor().emulators.hang(server_id)
    await cloud.attach(server_id, volume_id)
    await go_on(cloud, 5.0)
    listed = await cloud.ask("GET", "/mooring/operations", user="admin")
    (operation,) = listed.body["operations"]
    shown = await cloud.ask("GET", f"/mooring/operations/{operation['id']}", user="admin")
    assert "does not answer" in shown.text
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await go_on(cloud, SECONDS)
    assert await at_work(cloud, "compute") == []
    assert await cloud.volume_status(volume_id) == "available"
