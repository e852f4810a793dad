"""A host that is fenced is ended for certain, and forced down with the proof; else nothing is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import pytest

from mooring.compute.app import SERVICE as COMPUTE
from mooring.compute.hosts.sagas.fence_host import FENCE_HOST
from mooring.compute.power.sagas.power import STOP_SERVER
from mooring.limits import FENCE_ANSWER_S
from tests.cloud import SimulatedCloud
from tests.compute.cloud import ComputeCloud
from tests.compute.fenced import fence, make_server_on, say_down, show_fence
from tests.waiting import until

pytestmark = pytest.mark.anyio
_HOSTS = ("host1", "host2", "host3")
_PROOF = "fence: exit 0 of switch-off host1"
_DOWN = {"forced_down": True, "forced_down_by": "admin"}


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncGenerator[ComputeCloud]:
    async with ComputeCloud(tmp_path, hosts=_HOSTS) as opened:
        opened.fence.ends = opened.end_host
        yield opened


@pytest.fixture
async def on_both(tmp_path: Path, database: str) -> AsyncGenerator[ComputeCloud]:
    """The same on each database."""
    async with ComputeCloud(tmp_path, hosts=_HOSTS, database=database) as opened:
        yield opened


async def _silence(cloud: ComputeCloud, *hosts: str) -> None:
    """Let hosts be silent for so long that they are shown as down, and the others not."""
    cloud.ended_hosts |= {*hosts}
    cloud.clock.advance(20.0)
    await cloud.look_at_hosts()


async def _at_work(cloud: ComputeCloud, name: str) -> list[str]:
    listed = (await cloud.ask("GET", "/mooring/operations", user="admin")).body["operations"]
    return [one["id"] for one in listed if one["name"] == name]


async def _is_forced_down(cloud: ComputeCloud, host: str) -> bool:
    listed = (await cloud.ask("GET", "/os-services", user="admin")).body["services"]
    [shown] = [one["forced_down"] for one in listed if one["host"] == host]
    return shown


async def test_a_silent_host_is_ended_and_forced_down_with_the_proof(cloud: ComputeCloud) -> None:
    made = {host: await make_server_on(cloud, host) for host in ("host1", "host2")}
    await _silence(cloud, "host1")
    answer = await fence(cloud, "host1")
    assert (answer.status, answer.body["status"]) == (200, "fenced"), answer.text
    assert answer.body["forced_down_why"] == _PROOF
    assert answer.body["forced_down_at"] == answer.body["ended_at"]
    assert _DOWN.items() <= answer.body.items()
    assert cloud.fence.asked == ["host1"]
    assert await _is_forced_down(cloud, "host1")
    assert await show_fence(cloud, "host1") == answer.body
    for host, server in made.items():
        guest = await cloud.hypervisor(host).guest(server)
        assert guest is not None
        assert guest.state == ("stopped" if host == "host1" else "running")
    assert await cloud.complaints() == ["host host1: it cannot be asked: The agent gave no answer."]


async def test_a_fence_that_fails_changes_nothing_and_says_why(cloud: ComputeCloud) -> None:
    await _silence(cloud, "host1")
    cloud.fence.refusal = "switch-off host1 ended with exit code 3", "The power supply is silent."
    answer = await fence(cloud, "host1")
    assert answer.status == 409
    assert "exit code 3. It said: The power supply is silent." in answer.text
    assert "Nothing was changed" in answer.text
    shown = await show_fence(cloud, "host1")
    assert (shown["status"], shown["failures"], shown["forced_down"]) == ("failed", 1, False)
    assert "The power supply is silent." in shown["error"]
    assert not await _is_forced_down(cloud, "host1")
    await cloud.settle()
    cloud.ended_hosts.clear()
    assert await cloud.complaints() == []


async def test_without_a_command_it_is_told_what_to_do(cloud: ComputeCloud) -> None:
    await _silence(cloud, "host1")
    cloud.fence.is_set = False
    answer = await fence(cloud, "host1")
    assert answer.status == 409
    assert "fence_command" in answer.text
    assert "openstack compute service set --down host1 nova-compute" in answer.text
    assert (await show_fence(cloud, "host1"))["status"] == "never"


async def test_a_host_that_answers_is_fenced_only_when_that_is_meant(cloud: ComputeCloud) -> None:
    answer = await fence(cloud, "host1")
    assert answer.status == 409
    assert "is up and answers" in answer.text
    assert cloud.fence.asked == []
    answer = await fence(cloud, "host1", force=True)
    assert (answer.status, answer.body["status"]) == (200, "fenced")
    assert cloud.fence.asked == ["host1"]


async def test_a_host_that_is_down_already_is_ended_again_and_recorded_anew(
    cloud: ComputeCloud,
) -> None:
    assert (await say_down(cloud, "host1", down=True)).status == 200
    said = await show_fence(cloud, "host1")
    assert _DOWN.items() <= said.items()
    assert (said["forced_down_why"], said["status"]) == ("an administrator said so", "never")
    cloud.clock.advance(5.0)
    assert (await fence(cloud, "host1")).status == 200
    first = await show_fence(cloud, "host1")
    assert first["forced_down_why"] == _PROOF
    assert first["forced_down_at"] > said["forced_down_at"]
    cloud.clock.advance(5.0)
    assert (await fence(cloud, "host1")).status == 200
    assert (await show_fence(cloud, "host1"))["forced_down_at"] > first["forced_down_at"]
    assert cloud.fence.asked == ["host1", "host1"]


async def test_a_fence_that_fails_leaves_the_proof_of_the_one_before(cloud: ComputeCloud) -> None:
    assert (await fence(cloud, "host1", force=True)).status == 200
    cloud.fence.refusal = "switch-off host1 ended with exit code 1", "No answer."
    assert (await fence(cloud, "host1")).status == 409
    shown = await show_fence(cloud, "host1")
    assert (shown["status"], shown["forced_down_why"]) == ("failed", _PROOF)
    assert await _is_forced_down(cloud, "host1")


async def test_only_administrators_fence_hosts_that_there_are(cloud: ComputeCloud) -> None:
    for user, host, status in (("member", "host1", 403), ("admin", "nowhere", 404)):
        assert (await fence(cloud, host, user=user)).status == status
        path = f"/mooring/fences/{host}"
        assert (await cloud.ask("GET", path, user=user)).status == status
    assert (await cloud.ask("GET", "/mooring/fences", user="member")).status == 403
    assert cloud.fence.asked == []


async def test_what_is_forced_down_is_listed_until_that_is_lifted(cloud: ComputeCloud) -> None:
    async def listed() -> list[str]:
        answer = await cloud.ask("GET", "/mooring/fences", user="admin")
        return [f"{one['host']}: {one['forced_down_why']}" for one in answer.body["fences"]]

    assert await listed() == []
    await fence(cloud, "host1", force=True)
    await say_down(cloud, "host2", down=True)
    # Saying it of a host that was fenced does not take the better proof away.
    await say_down(cloud, "host1", down=True)
    assert await listed() == [f"host1: {_PROOF}", "host2: an administrator said so"]
    for host in ("host1", "host2"):
        assert (await say_down(cloud, host, down=False)).status == 200
    assert await listed() == []
    shown = await show_fence(cloud, "host1")
    assert (shown["forced_down"], shown["forced_down_why"], shown["status"]) == (
        False,
        "",
        "fenced",
    )
    assert shown["forced_down_at"] is None


async def test_a_fence_that_takes_long_is_answered_and_waited_for_by_the_next(
    cloud: ComputeCloud,
) -> None:
    cloud.fence.opens.clear()
    asking = await cloud.meanwhile(fence(cloud, "host1", force=True))
    cloud.clock.advance(FENCE_ANSWER_S)
    answer = await asking
    assert (answer.status, answer.body["status"]) == (202, "fencing")
    assert await cloud.complaints() == ["compute.fence_host is ready at end_host (forward)"]
    again = await cloud.meanwhile(fence(cloud, "host1"))
    removed = await cloud.ask("DELETE", f"/os-services/{await _service(cloud)}", user="admin")
    assert removed.status == 409
    assert "is being fenced" in removed.text
    cloud.fence.opens.set()
    assert (await again).body["status"] == "fenced"
    assert cloud.fence.asked == ["host1"]


async def _service(cloud: ComputeCloud) -> str:
    listed = (await cloud.ask("GET", "/os-services", user="admin")).body["services"]
    return next(one["id"] for one in listed if one["host"] == "host1")


async def _all_asked(cloud: ComputeCloud, count: int) -> bool:
    return len(cloud.fence.asked) == count


async def test_fences_that_take_long_keep_nobody_else_from_working(tmp_path: Path) -> None:
    async with ComputeCloud(tmp_path, hosts=[f"host{number}" for number in range(18)]) as cloud:
        server = await make_server_on(cloud, "host0")
        cloud.fence.opens.clear()
        fencing_all = [
            await cloud.meanwhile(fence(cloud, f"host{number}", force=True))
            for number in range(1, 18)
        ]
        await until(partial(_all_asked, cloud, 17), "every fence is at work")
        assert await cloud.act(server, "os-stop") == 202
        async with asyncio.timeout(20.0):
            for stopping in await _at_work(cloud, STOP_SERVER.name):
                await cloud.compute.sagas.ended(stopping)
        assert (await cloud.server(server))["status"] == "SHUTOFF"
        cloud.fence.opens.set()
        assert {(await one).status for one in fencing_all} == {200}


async def test_a_fence_goes_on_after_the_control_plane_has_died(on_both: ComputeCloud) -> None:
    cloud = on_both
    cloud.fence.opens.clear()
    asking = await cloud.meanwhile(fence(cloud, "host1", force=True))
    await cloud.fence.begun.wait()
    await cloud.take_over()
    cloud.fence.opens.set()
    await cloud.settle()
    cloud.wake()
    await asyncio.gather(asking, return_exceptions=True)
    shown = await show_fence(cloud, "host1")
    assert (shown["status"], shown["forced_down"]) == ("fenced", True)
    assert set(cloud.fence.asked) == {"host1"}


async def test_a_fence_that_is_aborted_leaves_the_host_as_it_was(cloud: ComputeCloud) -> None:
    cloud.fence.opens.clear()
    asking = await cloud.meanwhile(fence(cloud, "host1", force=True))
    [operation] = await _at_work(cloud, FENCE_HOST.name)
    path = f"/mooring/operations/{operation}/action"
    aborting = await cloud.ask("POST", path, {"abort": None}, user="admin")
    assert aborting.status < 300, aborting.text
    assert (await asking).status == 409
    shown = await show_fence(cloud, "host1")
    assert (shown["status"], shown["forced_down"]) == ("failed", False)
    assert shown["error"] == "The operation was aborted."


async def test_the_service_s_own_user_is_that_of_identity(tmp_path: Path) -> None:
    async with SimulatedCloud(tmp_path) as whole:
        path = "/identity/v3/users?name=compute"
        [user] = (await whole.ask("GET", path, user="admin")).body["users"]
        assert await whole.cloud[COMPUTE].own_user_id() == user["id"]
