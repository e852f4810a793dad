"""Growing a volume under its guest: what is told, to whom, and what becomes of it (specs 000)."""

from __future__ import annotations

import json

import pytest
from structlog.testing import capture_logs

from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Conflict, NoCapacity
from tests.compute.cloud import ComputeCloud
from tests.compute.extending import (
    GIB,
    Extending,
    attached,
    event_of,
    faults,
    noted_gib,
    sizes_gib,
)

pytestmark = pytest.mark.anyio
FAILED = ("extend_volume", "Error")


async def require_failed(cloud: ComputeCloud, server_id: str, volume: Extending) -> None:
    """See that everybody was told, and that nothing else was changed."""
    assert volume.completions == [True]
    assert (await cloud.actions(server_id))[-1] == FAILED
    assert len(await faults(cloud, server_id)) == 1
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert await sizes_gib(cloud, server_id, volume.volume_id) == (1, 1)


async def test_volume_grows_in_guest_and_image_and_the_volume_service_hears_of_it(
    cloud: ComputeCloud,
) -> None:
    server_id, volume = await attached(cloud)
    answer = await volume.send(server_id)
    assert (answer.status, answer.body["events"][0]["code"]) == (200, 200)
    await cloud.settle()
    assert (volume.completions, volume.versions) == ([False], {"volume 3.71"})
    assert await sizes_gib(cloud, server_id, volume.volume_id) == (2, 2)
    assert await noted_gib(cloud, volume.volume_id) == 2
    assert (await cloud.actions(server_id))[-1] == ("extend_volume", None)
    event = await event_of(cloud, server_id)
    assert (event["event"], event["result"]) == ("compute_extend_volume", "Success")


@pytest.mark.parametrize("why", ["the host", "the size"])
async def test_what_goes_wrong_is_logged_and_completed_with_error(
    cloud: ComputeCloud, why: str
) -> None:
    """Compute will log the error and call the extend volume completion action."""
    server_id, volume = await attached(cloud)
    if why == "the host":
        cloud.hypervisor().knobs.fail("resize_disk", Conflict("No lock to be had."))
    else:
        volume.metadata = {"something": "else"}
    volume.refusals = [503] * 3
    with capture_logs() as logged:
        await volume.send(server_id)
        await cloud.settle()
    assert volume.completions == [True] * 4
    (line,) = [one for one in logged if one["log_level"] == "error"]
    assert (line["server"], line["volume"]) == (server_id, volume.volume_id)
    assert {"the host": "No lock to be had.", "the size": "no larger size"}[why] in line["why"]


@pytest.mark.parametrize("size", ["", "1", "0", "-3", "2.5", "two", "²", " 2"])
async def test_extending_without_a_larger_size_is_completed_with_error(
    cloud: ComputeCloud, size: str
) -> None:
    server_id, volume = await attached(cloud, extend_new_size=size)
    await volume.send(server_id)
    await cloud.settle()
    await require_failed(cloud, server_id, volume)


async def test_extending_that_names_no_size_is_completed_with_error(cloud: ComputeCloud) -> None:
    server_id, volume = await attached(cloud, something="else")
    await volume.send(server_id)
    await cloud.settle()
    await require_failed(cloud, server_id, volume)
    assert "names no larger size" in (await faults(cloud, server_id))[0]


@pytest.mark.parametrize("version", ["2.51", "2.104", "2.105"])
async def test_any_other_status_tells_the_guest_its_size_and_completes_nothing(
    cloud: ComputeCloud, version: str
) -> None:
    server_id, volume = await attached(cloud)
    volume.status, volume.size_gib = "in-use", 3
    assert (await volume.send(server_id, version=version)).status == 200
    await cloud.settle()
    assert volume.completions == []
    assert await sizes_gib(cloud, server_id, volume.volume_id) == (3, 3)
    assert await noted_gib(cloud, volume.volume_id) == 3
    assert (await cloud.actions(server_id))[-1] == ("extend_volume", None)


async def test_an_old_event_completes_nothing_whatever_the_status(cloud: ComputeCloud) -> None:
    server_id, volume = await attached(cloud)
    await volume.send(server_id, version="2.104")
    await cloud.settle()
    assert (volume.completions, volume.status) == ([], "extending")
    assert await sizes_gib(cloud, server_id, volume.volume_id) == (1, 1)


async def test_a_guest_that_stopped_meanwhile_has_its_file_grown(cloud: ComputeCloud) -> None:
    server_id, volume = await attached(cloud)
    cloud.hypervisor().shut_down_inside(server_id)
    await volume.send(server_id)
    await cloud.settle()
    assert volume.completions == [False]
    assert await sizes_gib(cloud, server_id, volume.volume_id) == (2, 2)


@pytest.mark.parametrize("error", [Conflict("No."), NoCapacity("No room.")])
async def test_a_host_that_cannot_is_completed_with_error(
    cloud: ComputeCloud, error: Conflict
) -> None:
    server_id, volume = await attached(cloud)
    cloud.hypervisor().knobs.fail("resize_disk", error)
    await volume.send(server_id)
    await cloud.settle()
    await require_failed(cloud, server_id, volume)
    assert (await event_of(cloud, server_id))["result"] == "Error"


async def test_a_guest_that_sees_less_than_it_should_is_completed_with_error(
    cloud: ComputeCloud,
) -> None:
    server_id, volume = await attached(cloud)
    cloud.hypervisor().knobs.fail("resize_disk", Conflict("Nothing is grown."))

    async def lie(request: Request, forward: Forward) -> Response:
        answer = await forward(request)
        if request.method == "PUT" and request.target.endswith("/size"):
            body = json.dumps({"guest_bytes": GIB, "image_bytes": 2 * GIB}).encode()
            return Response(200, body)
        return answer

    cloud.deliver_to_host = lie
    await volume.send(server_id)
    await cloud.settle()
    await require_failed(cloud, server_id, volume)
    assert f"sees {GIB}" in (await faults(cloud, server_id))[0]


async def test_a_volume_that_the_server_does_not_have_is_completed_with_error(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    volume = Extending(cloud, volume_id)
    assert (await volume.send(server_id)).body["events"][0]["code"] == 200
    await cloud.settle()
    assert volume.completions == [True]
    assert (await cloud.actions(server_id))[-1] == FAILED


@pytest.mark.parametrize("ends", ["", "deleted"])
async def test_a_server_without_the_volume_says_nothing_of_it(
    cloud: ComputeCloud, ends: str
) -> None:
    server_id, volume = await attached(cloud)
    other_id = await cloud.make_server()
    if ends:
        cloud.hypervisor().knobs.hold("power_off")
        await cloud.ask("POST", f"/servers/{other_id}/action", {"os-stop": None})
    assert (await volume.send(other_id)).status == 200
    if ends:
        assert (await cloud.ask("DELETE", f"/servers/{other_id}")).status == 204
        cloud.hypervisor().knobs.release("power_off")
    await cloud.settle()
    assert (volume.completions, volume.status) == ([], "extending")
    await volume.send(server_id, step="again")
    await cloud.settle()
    assert volume.completions == [False]
    assert await sizes_gib(cloud, server_id, volume.volume_id) == (2, 2)


async def test_a_volume_that_is_detached_meanwhile_is_completed_with_error(
    cloud: ComputeCloud,
) -> None:
    server_id, volume = await attached(cloud)
    volume.status = "in-use"
    cloud.hypervisor().knobs.hold("unplug")
    assert (await cloud.detach(server_id, volume.volume_id)).status == 202
    volume.status = "extending"
    await volume.send(server_id)
    assert volume.completions == []
    cloud.hypervisor().knobs.release("unplug")
    await cloud.settle()
    assert volume.completions == [True]
    assert await cloud.disks(server_id) == []


async def test_deleting_the_server_ends_the_extend_with_error(cloud: ComputeCloud) -> None:
    server_id, volume = await attached(cloud)
    cloud.hypervisor().knobs.hold("resize_disk")
    await volume.send(server_id)
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    cloud.hypervisor().knobs.release("resize_disk")
    await cloud.settle()
    assert volume.completions == [True]
    assert (await cloud.server(server_id))["status"] == "gone"
    assert (
        await cloud.compute.store.read(
            lambda tx: cloud.compute.sagas.holders(tx, f"volume:{volume.volume_id}")
        )
        == []
    )


async def test_a_host_of_version_73_is_completed_with_error(cloud: ComputeCloud) -> None:
    await cloud.change_host("host1", version=73)
    server_id, volume = await attached(cloud)
    answer = await volume.send(server_id)
    assert (answer.status, answer.body["events"][0]["code"]) == (200, 200)
    await cloud.settle()
    assert volume.completions == [True]
    assert cloud.hypervisor().knobs.passed.get("resize_disk") is None
    assert "older than service version 74" in (await faults(cloud, server_id))[0]
    await volume.send(server_id, version="2.51", fenced=False)
    await cloud.settle()
    assert (volume.completions, (await cloud.actions(server_id))[-1]) == ([True], FAILED)


@pytest.mark.parametrize("status", [400, 404])
async def test_a_volume_service_that_has_finished_by_itself_is_fine(
    cloud: ComputeCloud, status: int
) -> None:
    server_id, volume = await attached(cloud)
    volume.refusals = [status]
    await volume.send(server_id)
    await cloud.settle()
    assert volume.completions == [False]
    assert (await cloud.actions(server_id))[-1] == ("extend_volume", None)


@pytest.mark.parametrize("fails", [False, True])
async def test_the_completion_is_told_until_it_is_taken(
    cloud: ComputeCloud, *, fails: bool
) -> None:
    server_id, volume = await attached(cloud)
    if fails:
        cloud.hypervisor().knobs.fail("resize_disk", Conflict("No."))
    volume.refusals = [503] * 30
    await volume.send(server_id)
    await cloud.settle()
    assert volume.completions == [fails] * 31
    assert volume.status == ("error_extending" if fails else "in-use")


async def test_a_completion_that_is_forbidden_is_a_fault_of_the_server(cloud: ComputeCloud) -> None:
    server_id, volume = await attached(cloud)
    volume.refusals = [403]
    await volume.send(server_id)
    await cloud.settle()
    assert volume.completions == [False]
    assert (await cloud.actions(server_id))[-1] == FAILED
    assert len(await faults(cloud, server_id)) == 1
    assert await noted_gib(cloud, volume.volume_id) == 2


async def test_a_failure_that_nobody_may_hear_of_is_a_fault_of_the_server(
    cloud: ComputeCloud,
) -> None:
    server_id, volume = await attached(cloud)
    cloud.hypervisor().knobs.fail("resize_disk", Conflict("No."))
    volume.refusals = [403]
    await volume.send(server_id)
    await cloud.settle()
    await require_failed(cloud, server_id, volume)


async def test_what_has_grown_although_no_answer_came_is_told_as_grown(cloud: ComputeCloud) -> None:
    server_id, volume = await attached(cloud)

    async def lose_answers(request: Request, forward: Forward) -> Response:
        answer = await forward(request)
        if request.method == "PUT" and request.target.endswith("/size"):
            raise Conflict("The answer is lost, and nothing will bring it back.")
        return answer

    cloud.deliver_to_host = lose_answers
    await volume.send(server_id)
    await cloud.settle()
    assert volume.completions == [False]
    assert await sizes_gib(cloud, server_id, volume.volume_id) == (2, 2)
    assert await noted_gib(cloud, volume.volume_id) == 2
    assert (await cloud.actions(server_id))[-1] == ("extend_volume", None)
    assert await faults(cloud, server_id) == []
