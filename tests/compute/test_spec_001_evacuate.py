"""What specs 001 says of evacuations, sentence by sentence: each test names its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from mooring.agent_api.transport import Forward, Request, Response
from mooring.compute.hosts.loops import watch_hosts
from tests.compute.listening import GUESTS, Listener
from tests.compute.moving import Moving, held, moving_server, named
from tests.compute.verifying import force_down, show
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2")


@pytest.fixture
async def dead(keeper: Keeper) -> AsyncGenerator[Moving]:
    """A server with two volumes, whose host an administrator has fenced and forced down."""
    async with moving_server(keeper, hosts=HOSTS) as moving:
        cloud = moving.cloud
        cloud.hypervisor(moving.source).crash(moving.server_id)
        await force_down(cloud, moving.source, down=True)
        yield moving


async def evacuate(moving: Moving) -> None:
    how = {"user": "admin", "version": "2.94"}
    assert await moving.cloud.act(moving.server_id, "evacuate", {}, **how) == 200
    await moving.cloud.settle()


async def test_nothing_happens_on_the_source(dead: Moving) -> None:
    """(source) It is assumed the administrator has already fenced the host."""
    listener = Listener(dead.cloud, GUESTS)
    await evacuate(dead)
    assert [one for one in listener.heard if one.startswith(dead.source)] == []
    assert await dead.host() == dead.destination


async def test_the_destination_makes_a_second_attachment_and_follows_the_usual_flow(
    dead: Moving,
) -> None:
    """(destination) Create a second attachment for any attached volumes; the usual attach flow.

    Now delete the old attachment: after that, and before the guest starts.
    """
    before = await named(dead)
    listener = Listener(dead.cloud, GUESTS)
    await evacuate(dead)
    attach = [
        "POST attachment with connector",
        f"{dead.destination}: PUT connections",
        "POST attachment complete",
    ]
    deletes = ["DELETE attachment"] * 2
    assert listener.heard == [*attach, *attach, *deletes, f"{dead.destination}: PUT servers"]
    assert listener.ids[-2:] == [before[volume_id] for volume_id in dead.volumes]
    there = [(dead.server_id, dead.destination)]
    assert await held(dead) == dict.fromkeys(dead.volumes, there)


async def test_the_volume_is_always_reserved_to_this_instance(dead: Moving) -> None:
    """The old attachment goes after the new one came, during the whole of the evacuate process."""
    seen = set[str]()
    least: list[int] = []

    async def look(request: Request, forward: Forward) -> Response:
        if request.method != "GET":
            for volume_id in dead.volumes:
                seen.add(await dead.cloud.volume_status(volume_id))
            least.append(min(len(of) for of in (await held(dead)).values()))
        return await forward(request)

    dead.cloud.deliver_to_host = look
    await evacuate(dead)
    assert "available" not in seen
    assert "in-use" in seen
    assert min(least) >= 1
    assert (await show(dead))["status"] == "ACTIVE"


async def test_evacuated_instances_are_detected_by_the_migration_record(dead: Moving) -> None:
    """(operator) Should the source be started, what was evacuated is detected in the usual way."""
    await evacuate(dead)
    (record,) = await dead.migrations(instance_uuid=dead.server_id)
    assert (record["migration_type"], record["status"]) == ("evacuation", "done")
    for _ in range(2):
        await watch_hosts.look_once(dead.cloud.compute)
    await dead.cloud.settle()
    assert await dead.status() == "completed"
    assert await dead.states() == ["absent", "running"]
    assert await dead.connected() == [0, 2]
