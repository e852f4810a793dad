"""What a reset of a server's state frees of an operation that it ends, and what it leaves.

A live server keeps every volume that the operation had not begun to give or to take.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.compute.test_owed_to_volumes import attached, require_peace
from tests.compute.yard import Yard

pytestmark = pytest.mark.anyio


async def reset_while_silent(yard: Yard, server_id: str, state: str = "active") -> None:
    """Reset a server's state as an administrator, and let the host answer again."""
    await yard.compute.sagas.settle(5.0)
    action, body = f"/servers/{server_id}/action", {"os-resetState": {"state": state}}
    asking = asyncio.create_task(yard.ask("POST", action, body, who="admin"))
    while not asking.done():
        await asyncio.wait([asking], timeout=0.01)
        # The request waits a minute of this clock, so it is turned in small steps.
        await yard.compute.sagas.settle(1.0)
    assert asking.result().status_code == 202
    yard.silent = None
    await require_peace(yard)
    await yard.look()


async def test_a_deletion_given_up_before_the_guest_ended_leaves_the_server_its_volumes(
    yard: Yard,
) -> None:
    server_id, volume_id = await attached(yard)
    yard.silent = ("DELETE", f"/servers/{server_id}")
    assert (await yard.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    await reset_while_silent(yard, server_id)
    assert (await yard.server(server_id))["status"] == "ACTIVE"
    assert await yard.volume_status(volume_id) == "in-use"
    assert await yard.disks(server_id) == [volume_id]
    assert (await yard.detach(server_id, volume_id)).status_code == 202
    await require_peace(yard)
    assert await yard.volume_status(volume_id) == "available"


async def test_a_deletion_given_up_behind_the_end_of_the_guest_still_frees_the_volumes(
    yard: Yard,
) -> None:
    server_id, volume_id = await attached(yard)
    yard.silent = ("DELETE", "/connections/")
    assert (await yard.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    await reset_while_silent(yard, server_id, "error")
    assert (await yard.server(server_id))["status"] == "ERROR"
    assert await yard.volume_status(volume_id) == "available"
    assert await yard.connections() == []


async def test_a_server_whose_deletion_was_given_up_can_be_deleted_again(yard: Yard) -> None:
    server_id, volume_id = await attached(yard)
    yard.silent = ("DELETE", f"/servers/{server_id}")
    await yard.ask("DELETE", f"/servers/{server_id}")
    await reset_while_silent(yard, server_id)
    assert (await yard.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    await require_peace(yard)
    assert (await yard.server(server_id))["status"] == "gone"
    assert await yard.volume_status(volume_id) == "available"
