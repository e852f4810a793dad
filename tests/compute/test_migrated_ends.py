"""Volumes under guests whose migration ends in an unusual way: none loses what its guest wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest

from mooring.clients.transport import Forward, Request, Response
from mooring.errors import Conflict, Unavailable
from tests.answers import Answer
from tests.compute.elsewhere import events
from tests.compute.moving_volumes import FAR, FAST, SLOW, MovingVolumes, prepared_volumes
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
REFUSALS, HANGS, JSON = 3, 6, {"content-type": "application/json"}


@pytest.fixture
async def cloud(keeper: Keeper, database: str) -> AsyncIterator[MovingVolumes]:
    async with prepared_volumes(keeper, database=database) as opened:
        yield opened


async def complete(cloud: MovingVolumes, volume_id: str, *, error: bool) -> Answer:
    value = {"new_volume": await cloud.copy_of(volume_id), "error": error}
    return await cloud.act_on(volume_id, "os-migrate_volume_completion", value, user="admin")


async def until_copied(cloud: MovingVolumes) -> None:
    """Return once the guest's emulator copies, and compute has asked how far that is."""
    while not cloud.hypervisor().knobs.passed.get("mirroring"):
        await cloud.pass_time(5.0)


async def attachment_of_copy(cloud: MovingVolumes, volume_id: str) -> str:
    path = f"/attachments?all_tenants=1&volume_id={await cloud.copy_of(volume_id)}"
    [made] = (await cloud.volume_api("GET", path, user="admin"))["attachments"]
    return made["id"]


async def test_nobody_completes_it_before_the_guest_has_the_copy(cloud: MovingVolumes) -> None:
    server_id, volume_id = await cloud.prepare()
    cloud.hypervisor().lagging.add(volume_id)
    await cloud.migrate(volume_id, FAST)
    await until_copied(cloud)
    answer = await complete(cloud, volume_id, error=False)
    assert answer.status == 400
    assert b"no server has its copy yet" in answer.content
    assert await cloud.stands(volume_id) == ("in-use", "migrating", SLOW)
    cloud.hypervisor().lagging.clear()
    await cloud.settle()
    await cloud.check(server_id, volume_id, "success", FAST)


async def test_a_guest_that_kept_its_volume_keeps_it_when_its_server_is_reset(
    cloud: MovingVolumes,
) -> None:
    server_id, volume_id = await cloud.prepare()
    cloud.hypervisor().knobs.fail("switch_disk", Conflict("The copy has ended."))
    pool = cloud.pool(FAST)
    pool.knobs.fail("unexport", Unavailable("The pool is silent."), times=40)
    await cloud.migrate(volume_id, FAST)
    while pool.knobs.passed.get("unexport", 0) < 5:
        await cloud.pass_time(5.0)
    # Its host has said that the guest keeps it, and the copy's pool does not answer.
    path, body = f"/servers/{server_id}/action", {"os-resetState": {"state": "active"}}
    answer = await cloud.do("POST", path, body, user="admin")
    assert answer is not None
    assert answer.status == 202, answer.text
    await cloud.settle()
    await cloud.check(server_id, volume_id, "error", SLOW)


async def test_what_ends_an_attachment_of_the_copy_ends_before_it_is_the_volume(
    cloud: MovingVolumes,
) -> None:
    server_id, volume_id = await cloud.prepare()
    cloud.hypervisor().lagging.add(volume_id)
    await cloud.migrate(volume_id, FAST)
    await until_copied(cloud)
    made = await attachment_of_copy(cloud, volume_id)
    path, mine = (
        f"/volume/v3/attachments/{made}",
        partial(cloud.ask, user="compute", version="3.67"),
    )
    completed = await mine("POST", f"{path}/action", {"os-complete": None})
    assert completed.status == 204, completed.text
    knobs = cloud.pool(FAST).knobs
    knobs.hold("unexport")
    deleting = await cloud.meanwhile(mine("DELETE", path))
    await knobs.held("unexport")
    answer = await complete(cloud, volume_id, error=False)
    knobs.release("unexport")
    assert (await deleting).status == 200
    assert answer.status == 409, answer.text
    assert (await complete(cloud, volume_id, error=True)).status == 200
    await cloud.settle()
    await cloud.check(server_id, volume_id, "error", SLOW)


async def test_a_token_for_no_project_shows_no_copy(cloud: MovingVolumes) -> None:
    server_id, volume_id = await cloud.prepare()
    cloud.hypervisor().lagging.add(volume_id)
    await cloud.migrate(volume_id, FAST)
    await until_copied(cloud)
    copy_id = await cloud.copy_of(volume_id)
    made = await attachment_of_copy(cloud, volume_id)
    shown = ("volumes", "volumes/detail", "attachments", f"volumes/{copy_id}")
    paths = [("GET", path) for path in (*shown, f"attachments/{made}")]
    for method, path in (*paths, ("DELETE", f"attachments/{made}")):
        answer = await cloud.ask(method, f"/volume/v3/{path}", user="domain", version="3.67")
        assert answer.status == 403, answer.text
    cloud.hypervisor().lagging.clear()
    await cloud.settle()
    await cloud.check(server_id, volume_id, "success", FAST)


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("status", [400, 403, 409])
async def test_a_word_that_the_volume_service_does_not_take_is_said_again(
    cloud: MovingVolumes, status: int, *, fails: bool
) -> None:
    server_id, volume_id = await cloud.prepare()
    if fails:
        cloud.hypervisor().knobs.fail("switch_disk", Conflict("The copy has ended."))
    forward, refused = cloud.deliver, list[str]()

    async def deliver(request: Request, onward: Forward) -> Response:
        if len(refused) < REFUSALS and b"os-migrate_volume_completion" in request.content:
            refused.append(request.path)
            return Response(status, b'{"refused": {"message": "No."}}', JSON)
        return await forward(request, onward)

    cloud.deliver = deliver
    await cloud.migrate(volume_id, FAST)
    await cloud.settle()
    assert len(refused) == REFUSALS
    assert await cloud.unfinished() == []
    ends = ("error", SLOW) if fails else ("success", FAST)
    await cloud.check(server_id, volume_id, *ends)


async def test_a_copy_leaves_a_guest_from_which_its_volume_was_detached_meanwhile(
    cloud: MovingVolumes,
) -> None:
    server_id, volume_id = await cloud.prepare()
    hypervisor, pool = cloud.hypervisor(), cloud.pool(FAST)
    hypervisor.knobs.fail("switch_disk", Conflict("The copy has ended."))
    pool.knobs.fail("unexport", Unavailable("The pool is silent."), times=40)
    await cloud.migrate(volume_id, FAST)
    while pool.knobs.passed.get("unexport", 0) < 5:
        await cloud.pass_time(5.0)
    # The reset goes on freeing the copy, which its host does not take from the guest at first.
    hypervisor.knobs.fail("unplug", Unavailable("The guest is slow."), times=HANGS)
    path, body = f"/servers/{server_id}/action", {"os-resetState": {"state": "active"}}
    answer = await cloud.do("POST", path, body, user="admin")
    assert answer is not None
    assert answer.status == 202, answer.text
    while hypervisor.knobs.passed.get("unplug", 0) < HANGS:
        await cloud.pass_time(1.0)
    await cloud.look_at_hosts()
    detaching = f"/servers/{server_id}/os-volume_attachments/{volume_id}"
    answer = await cloud.do("DELETE", detaching)
    assert answer is not None
    assert answer.status == 202, answer.text
    await cloud.settle()
    assert await cloud.unfinished() == []
    assert await cloud.stands(volume_id) == ("available", "error", SLOW)
    assert await cloud.connections() == []
    assert await cloud.there() == {SLOW: [volume_id]}


@pytest.mark.parametrize("refusals", [1, 2, 3, 4])
@pytest.mark.parametrize("pool", [FAST, FAR])
async def test_a_server_is_deleted_while_its_storage_keeps_the_copy_of_its_volume(
    cloud: MovingVolumes, pool: str, refusals: int
) -> None:
    server_id, volume_id = await cloud.prepare()
    cloud.silent = ("GET", f"/servers/{server_id}/disks/{volume_id}/mirror")
    await cloud.migrate(volume_id, pool)
    for _ in range(10):
        await cloud.pass_time(2.0)
    cloud.silent = None
    # The copying that the deletion ends leaves the copy to a clean-up, which that knows nothing of.
    # Which of the two is refused is chance; a deletion that is has failed, and may be asked again.
    cloud.pool(pool).knobs.fail("unexport", Conflict("It is in use."), times=refusals)
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.settle()
    assert await cloud.unfinished() == []
    assert await cloud.there() == {SLOW: [volume_id]}
    if (await cloud.server(server_id))["status"] == "ERROR":
        assert refusals > 1
        assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
        await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "gone"
    assert await cloud.stands(volume_id) == ("available", "error", SLOW)
    assert await cloud.complaints() == []


async def test_a_volume_that_is_called_otherwise_from_then_on_is_said_to_be(
    cloud: MovingVolumes,
) -> None:
    """Specs 001: the volume is what migrate_volume_completion has returned.

    The guest's disk has the id that the volume had, and keeps it; so the other one is told.
    """
    server_id, volume_id = await cloud.prepare()
    forward, copies = cloud.deliver, list[str]()

    async def rename(request: Request, onward: Forward) -> Response:
        if copies or b"os-migrate_volume_completion" not in request.content:
            return await forward(request, onward)
        copies.append(await cloud.copy_of(volume_id))
        answer = await forward(request, onward)
        content = (await answer.whole()).replace(volume_id.encode(), copies[0].encode())
        return Response(answer.status, content, JSON)

    cloud.deliver = rename
    await cloud.migrate(volume_id, FAST)
    await cloud.settle()
    [*_, (event, result, said)] = await events(cloud, server_id)
    assert (event, result) == ("compute_swap_volume", "Error")
    assert f"The volume service calls volume {volume_id} {copies[0]} from now on" in str(said)
    assert await cloud.unfinished() == []
    await cloud.check(server_id, volume_id, "success", FAST)
