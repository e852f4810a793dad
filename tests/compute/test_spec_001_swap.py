"""What specs 001 says of swapping volumes, sentence by sentence: each test names its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.clients import transport
from mooring.errors import Conflict
from tests.compute.cloud import ComputeCloud
from tests.compute.listening import GUESTS, Listener
from tests.compute.moving_volumes import FAST, SLOW, MovingVolumes
from tests.compute.swapping import Stand, prepare, swap

pytestmark = pytest.mark.anyio
COMPLETION = "volume os-migrate_volume_completion"
_REFUSAL = b'{"badRequest": {"message": "No.", "code": 400}}'


@pytest.fixture
async def pools(tmp_path: Path) -> AsyncIterator[MovingVolumes]:
    async with MovingVolumes(tmp_path) as opened:
        yield opened


async def test_a_swap_that_a_user_asks_for_calls_in_the_order_of_the_specification(
    cloud: ComputeCloud,
) -> None:
    """New attachment; connector; connect and copy; detach the old; disconnect; delete the old."""
    ids = server_id, _, _ = await prepare(cloud)
    (before,) = await cloud.attachments(server_id)
    listener = Listener(cloud, GUESTS)
    await swap(cloud, *ids)
    await cloud.settle()
    assert listener.heard == [
        "volume os-begin_detaching",
        "POST attachment",
        "PUT attachment with connector",
        "host1: PUT mirror",
        "host1: PUT switch",
        "POST attachment complete",
        "host1: DELETE connections",
        "DELETE attachment",
    ]
    assert listener.ids[-1] == before["attachment_id"]


async def test_a_user_s_swap_makes_no_completion_call(cloud: ComputeCloud) -> None:
    """For a Nova initiated swap we don't call cinder's migrate_volume_completion callback.

    We get back uuid-new, and update the block device to reflect the change.
    """
    ids = server_id, _, new = await prepare(cloud)
    listener = Listener(cloud)
    await swap(cloud, *ids)
    await cloud.settle()
    assert COMPLETION not in listener.heard
    assert [one["volumeId"] for one in await cloud.attachments(server_id)] == [new]
    await Stand(cloud, ids).check_done()


async def test_a_swap_that_the_volume_service_asks_for_is_completed_there(
    pools: MovingVolumes,
) -> None:
    """It will have deleted the old volume, but renamed the new volume to have the old uuid."""
    server_id, volume_id = await pools.prepare()
    (before,) = await pools.attachments(server_id)
    listener = Listener(pools, GUESTS)
    assert (await pools.migrate(volume_id, FAST)).status == 202
    await pools.settle()
    assert listener.heard == [
        "volume os-migrate_volume",
        "POST attachment",
        "PUT attachment with connector",
        "host1: PUT mirror",
        "host1: PUT switch",
        "POST attachment complete",
        "host1: DELETE connections",
        "DELETE attachment",
        COMPLETION,
    ]
    (after,) = await pools.attachments(server_id)
    assert after["volumeId"] == volume_id
    assert listener.ids[-1] == before["attachment_id"] != after["attachment_id"]
    await pools.check(server_id, volume_id, "success", FAST)


@pytest.mark.parametrize("way", ["migrate", "retype"])
async def test_the_volume_service_asks_while_a_migration_status_is_set(
    pools: MovingVolumes, way: str
) -> None:
    """A real Nova answers a swap only then, as `swap_volume` is refused to users otherwise.

    Facts/block_storage.md 6.4: the old volume is `migrating` and its copy `target:` of it.
    """
    server_id, volume_id = await pools.prepare()
    seen: list[tuple[str | None, str]] = []

    async def note(request: transport.Request, forward: transport.Forward) -> transport.Response:
        if request.method == "PUT" and "/os-volume_attachments/" in request.path:
            status = (await pools.stands(volume_id))[1]
            seen.append((status, await pools.copy_of(volume_id)))
            assert seen[-1][1] in request.content.decode()
            assert request.path.endswith(f"/os-volume_attachments/{volume_id}")
        return await forward(request)

    pools.deliver = note
    if way == "migrate":
        assert (await pools.migrate(volume_id, FAST)).status == 202
    else:
        specs = {"name": "quick", "extra_specs": {"volume_backend_name": "fast"}}
        await pools.volume_api("POST", "/types", {"volume_type": specs}, user="admin")
        value = {"new_type": "quick", "migration_policy": "on-demand"}
        assert (await pools.act_on(volume_id, "os-retype", value)).status == 202
    await pools.settle()
    assert [status for status, _ in seen] == ["migrating"]
    await pools.check(server_id, volume_id, "success", FAST)


@pytest.mark.parametrize("way", ["migrate", "retype"])
async def test_a_user_s_swap_checks_that_the_volume_is_not_retyping_or_migrating(
    pools: MovingVolumes, way: str
) -> None:
    """We check the state of the volume in this one case to ensure it's not that."""
    server_id, volume_id = await pools.prepare()
    other = await pools.make_volume()
    pools.hypervisor().lagging.add(volume_id)
    if way == "migrate":
        await pools.migrate(volume_id, FAST)
    else:
        specs = {"name": "quick", "extra_specs": {"volume_backend_name": "fast"}}
        await pools.volume_api("POST", "/types", {"volume_type": specs}, user="admin")
        value = {"new_type": "quick", "migration_policy": "on-demand"}
        await pools.act_on(volume_id, "os-retype", value)
    await pools.pass_time(10.0)
    answer = await swap(pools, server_id, volume_id, other)
    assert answer.status == 409
    assert f"Volume {volume_id} is in migration_status migrating" in answer.text
    assert await pools.volume_status(other) == "available"
    pools.hypervisor().lagging.clear()
    await pools.settle()
    assert (await pools.stands(volume_id))[::2] == ("in-use", FAST)


async def test_a_user_s_swap_checks_that_neither_volume_is_retyping(pools: MovingVolumes) -> None:
    """Also where no migration is under way for that: we check the state of the volume."""
    server_id, volume_id = await pools.prepare()
    other = await pools.make_volume()
    for one in (volume_id, other):
        reset = {"status": "retyping"}
        assert (await pools.act_on(one, "os-reset_status", reset, user="admin")).status == 202
        answer = await swap(pools, server_id, volume_id, other)
        assert answer.status == 409
        assert f"Volume {one} is retyping" in answer.text
        back = {"status": "in-use" if one == volume_id else "available"}
        await pools.act_on(one, "os-reset_status", back, user="admin")
    assert (await swap(pools, server_id, volume_id, other)).status == 202
    await pools.settle()
    assert [one["volumeId"] for one in await pools.attachments(server_id)] == [other]


async def test_the_api_call_fails_if_we_can_t_create_that_attachment(cloud: ComputeCloud) -> None:
    """(api) create new attachment for the volume uuid-new, fail API call if we can't."""
    ids = server_id, _, new = await prepare(cloud)
    deliver = cloud.deliver

    async def refuse(request: transport.Request, forward: transport.Forward) -> transport.Response:
        if (request.method, request.path) == ("POST", "/volume/v3/attachments"):
            return transport.Response(400, _REFUSAL, {"content-type": "application/json"})
        return await deliver(request, forward)

    cloud.deliver = refuse
    assert (await swap(cloud, *ids)).status == 400
    cloud.deliver = deliver
    await cloud.settle()
    assert await cloud.volume_status(new) == "available"
    assert len(await cloud.attachments(server_id)) == 1


async def test_the_new_attachment_is_there_before_the_answer(cloud: ComputeCloud) -> None:
    """There is one host, one instance, one device path, but multiple volumes."""
    server_id, old, new = await prepare(cloud)
    cloud.hypervisor().lagging.add(new)
    assert (await swap(cloud, server_id, old, new)).status == 202
    (kept,) = (await cloud.volume_api("GET", f"/attachments?volume_id={new}"))["attachments"]
    assert kept["instance"] == server_id
    await cloud.compute.sagas.settle(3.0)
    assert sorted(await cloud.connections()) == sorted([old, new])
    (disk,) = await cloud.disks(server_id)
    assert disk == old
    cloud.hypervisor().lagging.clear()
    await cloud.settle()
    await Stand(cloud, (server_id, old, new)).check_done()


async def test_a_connection_that_fails_is_dealt_with_like_a_failure_during_attach(
    cloud: ComputeCloud,
) -> None:
    """And delete the attachment to the new volume."""
    ids = _, _, new = await prepare(cloud)
    cloud.hypervisor().knobs.fail("mirror_disk", Conflict("It does not connect."))
    listener = Listener(cloud, GUESTS)
    await swap(cloud, *ids)
    await cloud.settle()
    assert listener.heard[3:] == [
        "host1: PUT mirror",
        "host1: DELETE mirror",
        "DELETE attachment",
        "volume os-roll_detaching",
    ]
    listed = await cloud.volume_api("GET", f"/attachments?volume_id={new}")
    assert listed["attachments"] == []
    await Stand(cloud, ids).check_undone()


async def test_the_block_device_points_to_the_new_attachment_before_the_old_one_is_disconnected(
    cloud: ComputeCloud,
) -> None:
    """Update BDM so the attachment_id now points to uuid-new; then an os-brick disconnect."""
    ids = server_id, _, new = await prepare(cloud)
    named: list[tuple[Any, Any]] = []
    heard = Listener(cloud)

    async def look(request: Any, forward: Any) -> Any:
        if request.method == "DELETE" and request.target.startswith("/connections/"):
            found = {one["volumeId"]: one["attachment_id"] for one in await listed()}
            named.append((found.get(new), request.target))
        return await heard.hear_host(request, forward)

    async def listed() -> list[dict[str, Any]]:
        return await cloud.attachments(server_id)

    cloud.deliver_to_host = look
    await swap(cloud, *ids)
    await cloud.settle()
    (after,) = await cloud.attachments(server_id)
    assert [one for one, _ in named] == [after["attachment_id"]]
    assert after["attachment_id"] not in named[0][1]


async def test_on_success_there_is_a_new_attachment_and_none_to_the_old_volume(
    cloud: ComputeCloud,
) -> None:
    """So on success we have created a new attachment and deleted the one to the old volume."""
    ids = server_id, old, new = await prepare(cloud)
    await swap(cloud, *ids)
    await cloud.settle()
    of_old = await cloud.volume_api("GET", f"/attachments?volume_id={old}")
    (of_new,) = (await cloud.volume_api("GET", f"/attachments?volume_id={new}"))["attachments"]
    assert of_old["attachments"] == []
    assert (of_new["instance"], of_new["status"]) == (server_id, "attached")


@pytest.mark.parametrize("caller", ["user", "volume service"])
async def test_if_a_volume_is_multi_attach_the_swap_is_not_allowed(
    pools: MovingVolumes, caller: str
) -> None:
    """That will be true in either the Cinder or Nova started case."""
    server_id, shared = await pools.make_server(), await pools.make_shared_volume()
    await pools.attach(server_id, shared)
    await pools.settle()
    if caller == "user":
        answer = await swap(pools, server_id, shared, await pools.make_volume())
    else:
        answer = await pools.migrate(shared, FAST)
    assert answer.status == 400
    assert (await pools.stands(shared))[::2] == ("in-use", SLOW)


async def test_a_swap_of_a_multi_attach_volume_is_refused_to_the_volume_service_too(
    pools: MovingVolumes,
) -> None:
    """It is assumed the swap operation will fail: also where Cinder begins to migrate such one.

    Another volume service may: ours refuses that before it asks. The volume stays as it is.
    """
    server_id, volume_id = await pools.prepare()
    answers: list[int] = []

    async def share(request: transport.Request, forward: transport.Forward) -> transport.Response:
        answer = await forward(request)
        if request.method == "PUT" and "/os-volume_attachments/" in request.path:
            answers.append(answer.status)
        if (request.method, request.path) != ("GET", f"/volume/v3/volumes/{volume_id}"):
            return answer
        shown = json.loads(await answer.whole())
        shown["volume"]["multiattach"] = True
        return transport.Response(answer.status, json.dumps(shown).encode(), answer.headers)

    pools.deliver = share
    assert (await pools.migrate(volume_id, FAST)).status == 202
    await pools.settle()
    assert answers == [400]
    await pools.check(server_id, volume_id, "error", SLOW)


async def test_the_volume_service_s_call_fails_as_well_if_we_can_t_create_that_attachment(
    pools: MovingVolumes,
) -> None:
    """(api) fail API call: the volume stays where it was, and the volume service hears of it."""
    server_id, volume_id = await pools.prepare()
    (before,) = await pools.attachments(server_id)
    heard: list[tuple[str, int]] = []

    async def refuse(request: transport.Request, forward: transport.Forward) -> transport.Response:
        if (request.method, request.path) == ("POST", "/volume/v3/attachments"):
            return transport.Response(400, _REFUSAL, {"content-type": "application/json"})
        answer = await forward(request)
        if request.method == "PUT" and "/os-volume_attachments/" in request.path:
            heard.append((request.path, answer.status))
        return answer

    pools.deliver = refuse
    assert (await pools.migrate(volume_id, FAST)).status == 202
    await pools.settle()
    path = f"/compute/v2.1/servers/{server_id}/os-volume_attachments/{volume_id}"
    assert heard == [(path, 400)]
    await pools.check(server_id, volume_id, "error", SLOW)
    assert await pools.attachments(server_id) == [before]
