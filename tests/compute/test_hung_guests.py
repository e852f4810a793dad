"""A volume grows under a guest whose emulator hangs: the server is its owner's all the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mooring.saga.engine import VISIBLE_WAIT_S
from tests.compute.yard import Yard

pytestmark = pytest.mark.anyio
SOON_S = 0.01
SECONDS = 300.0
"""Longer than anybody rests, and shorter than the deadline of an extend."""
HARD = {"type": "HARD"}


async def hanging(yard: Yard) -> tuple[str, str]:
    """Make a server with a volume of 1 GiB, let its guest hang, and order 2 GiB."""
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    await yard.attach(server_id, volume_id)
    await yard.settle()
    emulators = yard.hypervisor().emulators
    emulators.calls.answer_s = SOON_S
    emulators.hang(server_id)
    body = {"os-extend": {"new_size": 2}}
    await yard.volume_api("POST", f"/volumes/{volume_id}/action", body)
    await go_on(yard, 2.0)
    assert await at_work(yard, "compute") == ["compute.extend_volume"]
    return server_id, volume_id


async def go_on(yard: Yard, seconds: float) -> None:
    """Let everybody work for so long."""
    begun_at = yard.clock.now()
    while (yard.clock.now() - begun_at).total_seconds() < seconds:
        await yard.compute.sagas.settle(1.0)
        await yard.volume.sagas.settle(1.0)
        yard.clock.advance(0.5)


async def at_work(yard: Yard, service: str) -> Sequence[str]:
    how: dict[str, Any] = {"who": "admin", "service": service}
    how["version"] = "3.67" if service == "volume" else "2.100"
    listed = await yard.ask("GET", "/mooring/operations", **how)
    return [one["name"] for one in listed.json()["operations"]]


async def require_end(yard: Yard, volume_id: str, status: str, gib: int) -> None:
    """See that the growth has ended as its file says, and nothing goes on."""
    await go_on(yard, SECONDS)
    shown = await yard.volume_api("GET", f"/volumes/{volume_id}")
    assert (shown["volume"]["status"], shown["volume"]["size"]) == (status, gib)
    for service in ("compute", "volume"):
        assert await at_work(yard, service) == []
    size = await yard.running["host1"].agent.drivers["local"].find(volume_id)
    assert size is not None
    assert size.virtual_bytes == gib << 30


async def insist(yard: Yard, server_id: str, action: str, value: Any = None) -> int:
    """Act on the server, and let the time pass that a healthy growth would need."""
    asked = await yard.meanwhile(yard.act(server_id, action, value), turns=1000)
    assert not asked.done()
    yard.clock.advance(VISIBLE_WAIT_S)
    return await asked


async def test_the_server_is_deleted(yard: Yard) -> None:
    server_id, volume_id = await hanging(yard)
    assert (await yard.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    await require_end(yard, volume_id, "available", 1)
    assert (await yard.server(server_id))["status"] == "gone"


async def test_the_server_is_stopped(yard: Yard) -> None:
    server_id, volume_id = await hanging(yard)
    assert await insist(yard, server_id, "os-stop") == 202
    await require_end(yard, volume_id, "in-use", 2)
    assert (await yard.server(server_id))["status"] == "SHUTOFF"
    await yard.look()
    assert await yard.act(server_id, "os-start") == 202
    await yard.settle()
    assert (await yard.server(server_id))["status"] == "ACTIVE"


async def test_the_server_is_rebooted_hard(yard: Yard) -> None:
    server_id, volume_id = await hanging(yard)
    assert await insist(yard, server_id, "reboot", HARD) == 202
    await require_end(yard, volume_id, "in-use", 2)
    assert (await yard.server(server_id))["status"] == "ACTIVE"


async def test_who_insists_does_not_push_aside_others_who_came_meanwhile(yard: Yard) -> None:
    free = await yard.make_volume()
    server_id, _ = await hanging(yard)
    stopping = await yard.meanwhile(yard.act(server_id, "os-stop"), turns=1000)
    attaching = await yard.meanwhile(yard.attach(server_id, free), turns=1000)
    yard.clock.advance(VISIBLE_WAIT_S)
    assert await stopping == 409
    yard.hypervisor().emulators.go_on(server_id)
    await attaching
    await yard.settle()
    assert free in await yard.disks(server_id)


async def test_what_does_not_end_a_guest_is_refused_while_it_hangs(yard: Yard) -> None:
    server_id, _ = await hanging(yard)
    assert await yard.act(server_id, "reboot", {"type": "SOFT"}) == 409
    yard.hypervisor().emulators.go_on(server_id)
    await yard.settle()


async def test_the_volume_has_grown_once_the_guest_goes_on(yard: Yard) -> None:
    server_id, volume_id = await hanging(yard)
    yard.hypervisor().emulators.go_on(server_id)
    await yard.settle()
    shown = await yard.volume_api("GET", f"/volumes/{volume_id}")
    assert (shown["volume"]["status"], shown["volume"]["size"]) == ("in-use", 2)
    assert (await yard.server(server_id))["status"] == "ACTIVE"


async def test_another_guest_of_the_host_is_served(yard: Yard) -> None:
    other, volume_id = await yard.make_server(), await yard.make_volume()
    server_id, _ = await hanging(yard)
    await yard.attach(other, volume_id)
    await go_on(yard, 5.0)
    assert await yard.disks(other) == [volume_id]
    yard.hypervisor().emulators.go_on(server_id)
    await yard.settle()


async def test_a_plug_into_a_guest_that_hangs_says_so_and_is_given_up(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    yard.hypervisor().emulators.calls.answer_s = SOON_S
    yard.hypervisor().emulators.hang(server_id)
    await yard.attach(server_id, volume_id)
    await go_on(yard, 5.0)
    listed = await yard.ask("GET", "/mooring/operations", who="admin")
    (operation,) = listed.json()["operations"]
    shown = await yard.ask("GET", f"/mooring/operations/{operation['id']}", who="admin")
    assert "does not answer" in shown.text
    assert (await yard.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    await go_on(yard, SECONDS)
    assert await at_work(yard, "compute") == []
    assert await yard.volume_status(volume_id) == "available"
