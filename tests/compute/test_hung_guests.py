"""A volume grows under a guest whose emulator hangs: the server is its owner's all the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.compute.yard import Yard

pytestmark = pytest.mark.anyio
SOON_S = 0.01
SECONDS = 300.0
"""Longer than anybody rests, and shorter than the deadline of an extend."""


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


async def require_end(yard: Yard, volume_id: str, status: str) -> None:
    """See that the growth has ended as its file says, and nothing goes on."""
    await go_on(yard, SECONDS)
    shown = await yard.volume_api("GET", f"/volumes/{volume_id}")
    assert (shown["volume"]["status"], shown["volume"]["size"]) == (status, 1)
    for service in ("compute", "volume"):
        assert await at_work(yard, service) == []
    size = await yard.running["host1"].agent.drivers["local"].find(volume_id)
    assert size is not None
    assert size.virtual_bytes == 1 << 30


async def test_the_server_is_deleted(yard: Yard) -> None:
    server_id, volume_id = await hanging(yard)
    assert (await yard.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    await require_end(yard, volume_id, "available")
    assert (await yard.server(server_id))["status"] == "gone"


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
