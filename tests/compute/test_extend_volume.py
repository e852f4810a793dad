"""Growing a volume under its guest: what is told, to whom, and what becomes of it (specs 000)."""

from __future__ import annotations

import json

import pytest

from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Conflict, NoCapacity
from tests.compute.extending import (
    GIB,
    Extending,
    attached,
    event_of,
    faults,
    noted_gib,
    sizes_gib,
)
from tests.compute.yard import Yard

pytestmark = pytest.mark.anyio
FAILED = ("extend_volume", "Error")


async def require_failed(yard: Yard, server_id: str, volume: Extending) -> None:
    """See that everybody was told, and that nothing else was changed."""
    assert volume.completions == [True]
    assert (await yard.actions(server_id))[-1] == FAILED
    assert len(await faults(yard, server_id)) == 1
    assert (await yard.server(server_id))["status"] == "ACTIVE"
    assert await sizes_gib(yard, server_id, volume.volume_id) == (1, 1)


async def test_volume_grows_in_guest_and_image_and_the_volume_service_hears_of_it(
    yard: Yard,
) -> None:
    server_id, volume = await attached(yard)
    answer = await volume.send(server_id)
    assert (answer.status_code, answer.json()["events"][0]["code"]) == (200, 200)
    await yard.settle()
    assert (volume.completions, volume.versions) == ([False], {"volume 3.71"})
    assert await sizes_gib(yard, server_id, volume.volume_id) == (2, 2)
    assert await noted_gib(yard, volume.volume_id) == 2
    assert (await yard.actions(server_id))[-1] == ("extend_volume", None)
    event = await event_of(yard, server_id)
    assert (event["event"], event["result"]) == ("compute_extend_volume", "Success")


@pytest.mark.parametrize("size", ["", "1", "0", "-3", "2.5", "two", "²", " 2"])
async def test_extending_without_a_larger_size_is_completed_with_error(
    yard: Yard, size: str
) -> None:
    server_id, volume = await attached(yard, extend_new_size=size)
    await volume.send(server_id)
    await yard.settle()
    await require_failed(yard, server_id, volume)


async def test_extending_that_names_no_size_is_completed_with_error(yard: Yard) -> None:
    server_id, volume = await attached(yard, something="else")
    await volume.send(server_id)
    await yard.settle()
    await require_failed(yard, server_id, volume)
    assert "names no larger size" in (await faults(yard, server_id))[0]


@pytest.mark.parametrize("version", ["2.51", "2.104", "2.105"])
async def test_any_other_status_tells_the_guest_its_size_and_completes_nothing(
    yard: Yard, version: str
) -> None:
    server_id, volume = await attached(yard)
    volume.status, volume.size_gib = "in-use", 3
    assert (await volume.send(server_id, version=version)).status_code == 200
    await yard.settle()
    assert volume.completions == []
    assert await sizes_gib(yard, server_id, volume.volume_id) == (3, 3)
    assert await noted_gib(yard, volume.volume_id) == 3
    assert (await yard.actions(server_id))[-1] == ("extend_volume", None)


async def test_an_old_event_completes_nothing_whatever_the_status(yard: Yard) -> None:
    server_id, volume = await attached(yard)
    await volume.send(server_id, version="2.104")
    await yard.settle()
    assert (volume.completions, volume.status) == ([], "extending")
    assert await sizes_gib(yard, server_id, volume.volume_id) == (1, 1)


async def test_a_guest_that_stopped_meanwhile_has_its_file_grown(yard: Yard) -> None:
    server_id, volume = await attached(yard)
    yard.hypervisor().shut_down_inside(server_id)
    await volume.send(server_id)
    await yard.settle()
    assert volume.completions == [False]
    assert await sizes_gib(yard, server_id, volume.volume_id) == (2, 2)


@pytest.mark.parametrize("error", [Conflict("No."), NoCapacity("No room.")])
async def test_a_host_that_cannot_is_completed_with_error(yard: Yard, error: Conflict) -> None:
    server_id, volume = await attached(yard)
    yard.hypervisor().knobs.fail("resize_disk", error)
    await volume.send(server_id)
    await yard.settle()
    await require_failed(yard, server_id, volume)
    assert (await event_of(yard, server_id))["result"] == "Error"


async def test_a_guest_that_sees_less_than_it_should_is_completed_with_error(yard: Yard) -> None:
    server_id, volume = await attached(yard)
    yard.hypervisor().knobs.fail("resize_disk", Conflict("Nothing is grown."))

    async def lie(request: Request, forward: Forward) -> Response:
        answer = await forward(request)
        if request.method == "PUT" and request.target.endswith("/size"):
            body = json.dumps({"guest_bytes": GIB, "image_bytes": 2 * GIB}).encode()
            return Response(200, body)
        return answer

    yard.agents.deliver = lie
    await volume.send(server_id)
    await yard.settle()
    await require_failed(yard, server_id, volume)
    assert f"sees {GIB}" in (await faults(yard, server_id))[0]


async def test_a_volume_that_the_server_does_not_have_is_completed_with_error(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    volume = Extending(yard, volume_id)
    assert (await volume.send(server_id)).json()["events"][0]["code"] == 200
    await yard.settle()
    assert volume.completions == [True]
    assert (await yard.actions(server_id))[-1] == FAILED


async def test_a_volume_that_is_detached_meanwhile_is_completed_with_error(yard: Yard) -> None:
    server_id, volume = await attached(yard)
    volume.status = "in-use"
    yard.hypervisor().knobs.hold("unplug")
    assert (await yard.detach(server_id, volume.volume_id)).status_code == 202
    volume.status = "extending"
    await volume.send(server_id)
    assert volume.completions == []
    yard.hypervisor().knobs.release("unplug")
    await yard.settle()
    assert volume.completions == [True]
    assert await yard.disks(server_id) == []


async def test_deleting_the_server_ends_the_extend_with_error(yard: Yard) -> None:
    server_id, volume = await attached(yard)
    yard.hypervisor().knobs.hold("resize_disk")
    await volume.send(server_id)
    assert (await yard.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    yard.hypervisor().knobs.release("resize_disk")
    await yard.settle()
    assert volume.completions == [True]
    assert (await yard.server(server_id))["status"] == "gone"
    assert (
        await yard.compute.store.read(
            lambda tx: yard.compute.sagas.holders(tx, f"volume:{volume.volume_id}")
        )
        == []
    )


async def test_a_host_of_version_73_is_completed_with_error(yard: Yard) -> None:
    await yard.close()
    yard.versions["host1"] = 73
    await yard.open()
    server_id, volume = await attached(yard)
    answer = await volume.send(server_id)
    assert (answer.status_code, answer.json()["events"][0]["code"]) == (200, 200)
    await yard.settle()
    assert volume.completions == [True]
    assert yard.hypervisor().knobs.passed.get("resize_disk") is None
    assert "older than service version 74" in (await faults(yard, server_id))[0]
    await volume.send(server_id, version="2.51", fenced=False)
    await yard.settle()
    assert (volume.completions, (await yard.actions(server_id))[-1]) == ([True], FAILED)


@pytest.mark.parametrize("status", [400, 404])
async def test_a_volume_service_that_has_finished_by_itself_is_fine(
    yard: Yard, status: int
) -> None:
    server_id, volume = await attached(yard)
    volume.refusals = [status]
    await volume.send(server_id)
    await yard.settle()
    assert volume.completions == [False]
    assert (await yard.actions(server_id))[-1] == ("extend_volume", None)


@pytest.mark.parametrize("fails", [False, True])
async def test_the_completion_is_told_until_it_is_taken(yard: Yard, *, fails: bool) -> None:
    server_id, volume = await attached(yard)
    if fails:
        yard.hypervisor().knobs.fail("resize_disk", Conflict("No."))
    volume.refusals = [503] * 30
    await volume.send(server_id)
    await yard.settle()
    assert volume.completions == [fails] * 31
    assert volume.status == ("error_extending" if fails else "in-use")


async def test_a_completion_that_is_forbidden_is_a_fault_of_the_server(yard: Yard) -> None:
    server_id, volume = await attached(yard)
    volume.refusals = [403]
    await volume.send(server_id)
    await yard.settle()
    assert volume.completions == [False]
    assert (await yard.actions(server_id))[-1] == FAILED
    assert len(await faults(yard, server_id)) == 1
    assert await noted_gib(yard, volume.volume_id) == 2


async def test_a_failure_that_nobody_may_hear_of_is_a_fault_of_the_server(yard: Yard) -> None:
    server_id, volume = await attached(yard)
    yard.hypervisor().knobs.fail("resize_disk", Conflict("No."))
    volume.refusals = [403]
    await volume.send(server_id)
    await yard.settle()
    await require_failed(yard, server_id, volume)


async def test_what_has_grown_although_no_answer_came_is_told_as_grown(yard: Yard) -> None:
    server_id, volume = await attached(yard)

    async def lose_answers(request: Request, forward: Forward) -> Response:
        answer = await forward(request)
        if request.method == "PUT" and request.target.endswith("/size"):
            raise Conflict("The answer is lost, and nothing will bring it back.")
        return answer

    yard.agents.deliver = lose_answers
    await volume.send(server_id)
    await yard.settle()
    assert volume.completions == [False]
    assert await sizes_gib(yard, server_id, volume.volume_id) == (2, 2)
    assert await noted_gib(yard, volume.volume_id) == 2
