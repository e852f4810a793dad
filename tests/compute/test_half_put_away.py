"""Servers that were put away, or brought back, by half: what gives them all their volumes again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from mooring.agent_api import wire
from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Conflict
from tests.compute.cloud import IMAGE
from tests.compute.elsewhere import refuse
from tests.compute.moving import Moving, moving_server
from tests.compute.verifying import force_down, show
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2")
LATEST = "2.94"


@pytest.fixture
async def moving(keeper: Keeper, database: str) -> AsyncGenerator[Moving]:
    async with moving_server(keeper, hosts=HOSTS, database=database) as made:
        yield made


@pytest.fixture
async def half(keeper: Keeper, database: str) -> AsyncGenerator[Moving]:
    """A server whose host let go of its root volume, and kept the other one."""
    opened = moving_server(keeper, hosts=HOSTS, database=database, then=put_half_away)
    async with opened as made:
        yield made


async def put_half_away(moving: Moving) -> None:
    deliver, seen = moving.cloud.deliver_to_host, set[str]()

    async def keep_the_second(request: Request, forward: Forward) -> Response:
        if request.method == "DELETE" and request.target.startswith("/connections/"):
            seen.add(request.target)
            if len(seen) == 2:
                body = wire.body_of(Conflict("It will not go."))
                return Response(409, body, {"content-type": "application/json"})
        return await deliver(request, forward)

    moving.cloud.deliver_to_host = keep_the_second
    assert await act(moving, "shelve") == 202
    moving.cloud.deliver_to_host = deliver
    assert (await show(moving))["status"] == "ERROR"
    assert await statuses(moving) == ["reserved", "in-use"]


async def act(moving: Moving, action: str, value: Any = None, **how: Any) -> int:
    await moving.cloud.look_at_hosts()
    how = {"user": "admin", "version": LATEST} | how
    status = await moving.cloud.act(moving.server_id, action, value, **how)
    await moving.cloud.settle()
    return status


async def statuses(moving: Moving) -> list[str]:
    return [await moving.cloud.volume_status(volume_id) for volume_id in moving.volumes]


async def has_everything(moving: Moving, host: str = "") -> None:
    """See that the server runs at a host with its volumes, and that these are nowhere else."""
    cloud, host = moving.cloud, host or moving.source
    assert (await show(moving))["status"] == "ACTIVE"
    assert await moving.host() == host
    assert await statuses(moving) == ["in-use"] * len(moving.volumes)
    assert sorted(await cloud.disks(moving.server_id, host)) == sorted(moving.volumes)
    assert len(await cloud.connections(host)) == len(moving.volumes)
    assert await moving.attachments() == len(moving.volumes)
    assert await cloud.complaints() == []


async def is_left_by_all(moving: Moving) -> None:
    """See that the server is put away with all its volumes, and that deleting it frees them."""
    assert await act(moving, "shelve") == 202
    assert (await show(moving))["status"] == "SHELVED_OFFLOADED"
    assert await statuses(moving) == ["reserved"] * 2
    assert (await moving.attachments(), await moving.connected()) == (2, [0, 0])
    assert (await moving.cloud.ask("DELETE", f"/servers/{moving.server_id}")).status == 204
    await moving.cloud.settle()
    assert await statuses(moving) == ["available"] * 2
    assert await moving.attachments() == 0
    assert await moving.cloud.complaints() == []


async def reboot_hard(moving: Moving) -> None:
    assert await act(moving, "reboot", {"type": "HARD"}) == 202


async def rebuild(moving: Moving) -> None:
    assert await act(moving, "rebuild", {"imageRef": IMAGE}, user="member") == 202


_WAYS = [reboot_hard, rebuild]


@pytest.mark.parametrize("give", _WAYS)
async def test_every_volume_of_one_that_was_put_away_by_half_is_given_back(
    half: Moving, give: Any
) -> None:
    await give(half)
    await has_everything(half)
    await is_left_by_all(half)


async def test_also_by_an_evacuation(half: Moving) -> None:
    await force_down(half.cloud, half.source, down=True)
    assert await act(half, "evacuate", {}) == 200
    assert (await show(half))["status"] == "ACTIVE"
    assert await half.host() == half.destination
    assert await statuses(half) == ["in-use"] * 2
    disks = await half.cloud.disks(half.server_id, half.destination)
    assert sorted(disks) == sorted(half.volumes)
    assert await half.attachments() == 2
    assert (await half.cloud.ask("DELETE", f"/servers/{half.server_id}")).status == 204
    await half.cloud.settle()
    assert await statuses(half) == ["available"] * 2


async def test_a_hard_reboot_that_the_storage_refuses_leaves_it_to_the_next_one(
    half: Moving,
) -> None:
    deliver = half.cloud.deliver_to_host
    asked = refuse(half.cloud, half.cloud.hosts, ".*/exports/")
    await reboot_hard(half)
    assert asked
    half.cloud.deliver_to_host = deliver
    assert (await show(half))["status"] == "ERROR"
    assert await statuses(half) == ["reserved", "in-use"]
    await reboot_hard(half)
    await has_everything(half)


async def test_one_that_was_to_be_rebooted_hard_by_a_host_that_refuses_is_evacuated(
    half: Moving,
) -> None:
    asked = refuse(half.cloud, [half.source], f"/servers/{half.server_id}")
    await reboot_hard(half)
    assert asked
    await force_down(half.cloud, half.source, down=True)
    assert await act(half, "evacuate", {}) == 200
    assert (await show(half))["status"] == "ACTIVE"
    assert await statuses(half) == ["in-use"] * 2
    assert await half.attachments() == 2


@pytest.mark.parametrize("kept", ["both", "root"])
@pytest.mark.parametrize("give", _WAYS)
async def test_every_volume_of_one_that_was_brought_back_by_half_is_given_back(
    moving: Moving, give: Any, kept: str
) -> None:
    await bring_back_by_half(moving, kept)
    await give(moving)
    await has_everything(moving)
    await is_left_by_all(moving)


@pytest.mark.parametrize("give", _WAYS)
async def test_so_is_one_that_was_attached_while_it_was_away(moving: Moving, give: Any) -> None:
    moving.volumes.append(await moving.cloud.make_volume())
    await bring_back_by_half(moving, "root", waiting=moving.volumes[-1])
    await give(moving)
    await has_everything(moving)
    names = {one["device"] for one in await moving.cloud.attachments(moving.server_id)}
    assert len(names) == len(moving.volumes)
    assert all(names)


@pytest.mark.parametrize("kept", ["both", "root"])
async def test_one_that_was_brought_back_by_half_keeps_no_attachment_that_nobody_knows(
    moving: Moving, kept: str
) -> None:
    await bring_back_by_half(moving, kept)
    assert await moving.attachments() == 2
    assert await statuses(moving) == ["in-use", "in-use" if kept == "both" else "reserved"]
    assert await moving.cloud.complaints() == []
    await reboot_hard(moving)
    other = moving.volumes[1]
    assert (await moving.cloud.detach(moving.server_id, other)).status == 202
    await moving.cloud.settle()
    assert await moving.cloud.volume_status(other) == "available"


async def bring_back_by_half(moving: Moving, kept: str, *, waiting: str = "") -> None:
    """Put a server away, and let a host neither start its guest nor let go of all its volumes.

    Volumes are taken back in the order in which they were not given: the root volume last.
    """
    assert await act(moving, "shelve") == 202
    cloud, forward_to, taken = moving.cloud, moving.cloud.deliver_to_host, set[str]()
    if waiting:
        assert (await cloud.attach(moving.server_id, waiting, version=LATEST)).status == 200
        await cloud.settle()
    refusal = Response(
        409, wire.body_of(Conflict("It will not.")), {"content-type": "application/json"}
    )

    async def keep_some(request: Request, forward: Forward) -> Response:
        if request.method == "PUT" and request.target == f"/servers/{moving.server_id}":
            return refusal
        if request.method == "DELETE" and request.target.startswith("/connections/"):
            taken.add(request.target)
            if kept == "both" or len(taken) == len(moving.volumes):
                return refusal
        return await forward_to(request, forward)

    cloud.deliver_to_host = keep_some
    assert await act(moving, "unshelve", {"host": moving.source}) == 202
    cloud.deliver_to_host = forward_to
    assert (await show(moving))["status"] == "ERROR"
    assert await moving.host() == moving.source
