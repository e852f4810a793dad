"""A server with a volume of each flow, wherever it goes (specs 001).

One came by an attachment, the other by the old calls. Where the server goes the second one gets an
attachment, too; the host that is left gives it back by the old calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from mooring.compute.hosts.loops import watch_hosts
from mooring.errors import Conflict
from tests.compute.moving import Moving, begun, moving_server
from tests.compute.verifying import (
    ask,
    force_down,
    is_confirmed,
    is_to_be_verified,
    migrate,
    show,
)
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2")


@pytest.fixture
async def mixed(keeper: Keeper, database: str) -> AsyncGenerator[Moving]:
    opened = moving_server(
        keeper, hosts=HOSTS, volumes=1, database=database, then=attach_by_old_calls
    )
    async with opened as made:
        yield made


async def attach_by_old_calls(moving: Moving) -> None:
    moving.volumes.append(await moving.cloud.make_volume())
    await moving.cloud.make_legacy(moving.server_id, moving.volumes[1], moving.source)
    await moving.stays_whole()


async def attachments(moving: Moving) -> list[str | None]:
    """Return the attachments of the server's two volumes; from 2.89 on others are not listed."""
    path = f"/servers/{moving.server_id}/os-volume_attachments"
    listed = (await moving.cloud.ask("GET", path, version="2.89")).body["volumeAttachments"]
    named = {one["volumeId"]: one["attachment_id"] for one in listed}
    return [named.get(volume_id) for volume_id in moving.volumes]


async def is_by_attachments(moving: Moving) -> None:
    """See that the server has both volumes by an attachment, and that nobody owes anything."""
    assert all(await attachments(moving))
    for volume_id in moving.volumes:
        assert await moving.cloud.volume_status(volume_id) == "in-use"
    assert await moving.cloud.complaints() == []


async def is_as_it_was(moving: Moving) -> None:
    """See that the server is where it was, with the second volume by the old calls."""
    await moving.stays_whole()
    first, second = await attachments(moving)
    assert (bool(first), second) == (True, None)
    assert await moving.cloud.complaints() == []


async def frees(moving: Moving) -> None:
    """Detach the volume that came by the old calls: nothing of it is left."""
    volume_id = moving.volumes.pop()
    assert (await moving.cloud.detach(moving.server_id, volume_id)).status == 202
    await moving.cloud.settle()
    assert await moving.cloud.volume_status(volume_id) == "available"
    assert await moving.attachments() == 1
    assert sum(await moving.connected()) == 1
    assert await moving.cloud.complaints() == []


async def test_it_moves_live_and_has_attachments_then(mixed: Moving) -> None:
    await mixed.move()
    assert await mixed.status() == "completed"
    assert await mixed.states() == ["absent", "running"]
    assert (await mixed.connected(), await mixed.attachments()) == ([0, 2], 2)
    await is_by_attachments(mixed)
    await frees(mixed)


async def test_one_that_stays_after_all_keeps_both_as_they_were(mixed: Moving) -> None:
    mixed.cloud.hypervisor(mixed.source).knobs.fail("send_memory", Conflict("It broke off."))
    await mixed.move()
    assert await mixed.status() == "error"
    await is_as_it_was(mixed)
    await frees(mixed)


async def test_it_moves_while_it_is_off_and_is_confirmed(mixed: Moving) -> None:
    await migrate(mixed)
    await is_to_be_verified(mixed)
    assert await ask(mixed, "confirmResize") == 204
    await is_confirmed(mixed)
    await is_by_attachments(mixed)


async def test_it_moves_while_it_is_off_and_goes_back(mixed: Moving) -> None:
    await migrate(mixed)
    await is_to_be_verified(mixed)
    assert await ask(mixed, "revertResize") == 202
    await is_as_it_was(mixed)
    await frees(mixed)


async def test_before_its_user_s_word_a_volume_leaves_both_hosts(mixed: Moving) -> None:
    await migrate(mixed)
    await is_to_be_verified(mixed)
    volume_id = mixed.volumes[1]
    assert (await mixed.cloud.detach(mixed.server_id, volume_id)).status == 202
    await mixed.cloud.settle()
    assert await mixed.cloud.volume_status(volume_id) == "available"
    assert (await mixed.connected(), await mixed.attachments()) == ([1, 1], 2)
    assert await mixed.cloud.complaints() == []


@pytest.mark.parametrize("state", ["as it is", "off", "put away", "in error"])
async def test_it_is_deleted_with_nothing_left(mixed: Moving, state: str) -> None:
    if state == "off":
        assert await ask(mixed, "os-stop") == 202
    elif state == "put away":
        assert await ask(mixed, "shelve") == 202
    elif state == "in error":
        assert await ask(mixed, "os-resetState", {"state": "error"}, user="admin") == 202
    assert (await mixed.cloud.ask("DELETE", f"/servers/{mixed.server_id}")).status == 204
    await mixed.cloud.settle()
    assert [await mixed.cloud.volume_status(one) for one in mixed.volumes] == ["available"] * 2
    assert (await mixed.connected(), await mixed.attachments()) == ([0, 0], 0)
    assert await mixed.cloud.complaints() == []


async def test_before_its_user_s_word_it_is_deleted_with_nothing_left(mixed: Moving) -> None:
    await migrate(mixed)
    await is_to_be_verified(mixed)
    assert (await mixed.cloud.ask("DELETE", f"/servers/{mixed.server_id}")).status == 204
    await mixed.cloud.settle()
    assert [await mixed.cloud.volume_status(one) for one in mixed.volumes] == ["available"] * 2
    assert (await mixed.connected(), await mixed.attachments()) == ([0, 0], 0)
    assert await mixed.cloud.complaints() == []


async def test_its_dead_host_owes_both(mixed: Moving) -> None:
    cloud = mixed.cloud
    cloud.hypervisor(mixed.source).crash(mixed.server_id)
    await force_down(cloud, mixed.source, down=True)
    assert await cloud.act(mixed.server_id, "evacuate", {}, user="admin", version="2.94") == 200
    await cloud.settle()
    assert await mixed.host() == mixed.destination
    assert (await show(mixed))["status"] == "ACTIVE"
    assert (await mixed.states())[1] == "running"
    assert ((await mixed.connected())[1], await mixed.attachments()) == (2, 2)
    assert all(await attachments(mixed))
    for _ in range(2):
        await watch_hosts.look_once(cloud.compute)
    await cloud.settle()
    assert await mixed.connected() == [0, 2]
    await force_down(cloud, mixed.source, down=False)
    await is_by_attachments(mixed)


async def test_it_is_put_away_and_comes_back(mixed: Moving) -> None:
    how: dict[str, Any] = {"version": "2.90"}
    assert await ask(mixed, "shelve", **how) == 202
    assert (await show(mixed))["status"] == "SHELVED_OFFLOADED"
    assert [await mixed.cloud.volume_status(one) for one in mixed.volumes] == ["reserved"] * 2
    assert (await mixed.connected(), await mixed.attachments()) == ([0, 0], 2)
    assert await ask(mixed, "unshelve", **how) == 202
    assert (await show(mixed))["status"] == "ACTIVE"
    assert (sum(await mixed.connected()), await mixed.attachments()) == (2, 2)
    await is_by_attachments(mixed)


async def test_a_reset_in_the_middle_of_a_move_leaves_no_attachment_that_nobody_knows(
    mixed: Moving,
) -> None:
    settling = await begun(mixed)
    path, reset = f"/servers/{mixed.server_id}/action", {"os-resetState": {"state": "active"}}
    resetting = asyncio.create_task(mixed.cloud.ask("POST", path, reset, user="admin"))
    mixed.cloud.hypervisor(mixed.source).knobs.release("send_memory")
    await settling
    assert (await resetting).status == 202
    await mixed.cloud.settle()
    assert await mixed.attachments() == 2
    assert sum(await mixed.connected()) == 2
    assert await mixed.cloud.complaints() == []
