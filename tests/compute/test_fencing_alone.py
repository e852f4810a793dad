"""Hosts that are silent for long are fenced by themselves, and no others."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent.settings import PoolSettings
from mooring.agent_api.transport import Forward, Request, Response
from mooring.compute.hosts import fencing
from mooring.compute.hosts.silence import Silence
from mooring.limits import FENCE_POLL_S
from tests.compute.cloud import ComputeCloud
from tests.compute.fenced import make_server_on, say_down, show_fence

pytestmark = pytest.mark.anyio
_HOSTS = ("host1", "host2", "host3")
_PROOF = "fence: exit 0 of switch-off host1"


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncGenerator[ComputeCloud]:
    """A cloud whose silent hosts are fenced by themselves."""
    async with ComputeCloud(tmp_path, hosts=_HOSTS, evacuate_after_s=120) as opened:
        opened.fence.ends = opened.end_host
        yield opened


class _Watch:
    """What fences silent hosts, looked through again and again as its loop does."""

    def __init__(self, cloud: ComputeCloud) -> None:
        self.cloud, self._silence = cloud, Silence(cloud.clock.monotonic())

    async def pass_time(self, seconds: float, *, hosts_answer: bool = True) -> None:
        """Let time pass while this watches, and those hosts answer that can."""
        for _ in range(round(seconds / FENCE_POLL_S)):
            self.cloud.clock.advance(FENCE_POLL_S)
            if hosts_answer:
                await self.cloud.look_at_hosts()
            await self.look()

    async def look(self, *, rests: bool = True) -> None:
        """Look once, and let what comes of that rest."""
        await fencing.fence_silent(self.cloud.compute, self._silence)
        if rests:
            await self.cloud.compute.sagas.settle(0.5)


async def test_a_host_that_is_silent_for_long_is_fenced_by_itself_once(
    watched: ComputeCloud,
) -> None:
    cloud, watch = watched, _Watch(watched)
    await watch.pass_time(30.0)
    cloud.ended_hosts.add("host1")
    await watch.pass_time(115.0)
    assert cloud.fence.asked == []
    await watch.pass_time(15.0)
    assert cloud.fence.asked == ["host1"]
    shown = await show_fence(cloud, "host1")
    assert (shown["status"], shown["forced_down_by"], shown["silent_s"]) == (
        "fenced",
        "compute",
        120,
    )
    assert shown["forced_down_why"] == f"silent for 120 s; {_PROOF}"
    found = await cloud.compute.store.read(fencing.find_fenced_automatically)
    assert found == ["host1"]
    await say_down(cloud, "host1", down=False)
    await watch.pass_time(600.0)
    assert cloud.fence.asked == ["host1"]
    assert await cloud.compute.store.read(fencing.find_fenced_automatically) == []


async def test_a_host_that_came_back_is_fenced_again_when_it_is_silent_again(
    watched: ComputeCloud,
) -> None:
    cloud, watch = watched, _Watch(watched)
    for times in (1, 2):
        cloud.ended_hosts.add("host1")
        await watch.pass_time(150.0)
        assert cloud.fence.asked == ["host1"] * times
        cloud.ended_hosts.clear()
        await watch.pass_time(10.0)
        assert (await say_down(cloud, "host1", down=False)).status == 200


async def test_a_fence_that_fails_by_itself_is_tried_again_ever_more_rarely(
    watched: ComputeCloud, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud, watch = watched, _Watch(watched)
    cloud.fence.refusal = "switch-off host1 ended with exit code 1", "No route to it."
    cloud.ended_hosts.add("host1")
    await watch.pass_time(130.0)
    assert len(cloud.fence.asked) == 1
    await watch.pass_time(50.0)
    assert len(cloud.fence.asked) == 1
    await watch.pass_time(20.0)
    assert len(cloud.fence.asked) == 2
    await watch.pass_time(100.0)
    assert len(cloud.fence.asked) == 2
    await watch.pass_time(30.0)
    assert len(cloud.fence.asked) == 3
    assert "No route to it." in capsys.readouterr().out
    cloud.fence.refusal = None
    await watch.pass_time(250.0)
    assert (await show_fence(cloud, "host1"))["status"] == "fenced"


async def test_nobody_is_fenced_while_the_control_plane_may_be_cut_off(
    watched: ComputeCloud,
) -> None:
    cloud, watch = watched, _Watch(watched)
    cloud.ended_hosts |= {*_HOSTS}
    await watch.pass_time(600.0)
    assert cloud.fence.asked == []
    # One that answers may be on its own machine.
    cloud.ended_hosts -= {"host2"}
    await watch.pass_time(10.0)
    assert cloud.fence.asked == []
    cloud.ended_hosts -= {"host3"}
    await watch.pass_time(10.0)
    assert cloud.fence.asked == ["host1"]


async def test_a_host_that_answers_again_before_its_turn_is_not_fenced(
    watched: ComputeCloud,
) -> None:
    cloud, watch = watched, _Watch(watched)
    server = await make_server_on(cloud, "host1")
    cloud.fence.turn.clear()
    cloud.ended_hosts.add("host1")
    await watch.pass_time(110.0)
    while (await show_fence(cloud, "host1"))["status"] != "fencing":
        cloud.clock.advance(FENCE_POLL_S)
        await cloud.look_at_hosts()
        await watch.look(rests=False)
    cloud.ended_hosts.clear()
    cloud.fence.turn.set()
    await cloud.settle()
    shown = await show_fence(cloud, "host1")
    assert (shown["status"], shown["forced_down"], cloud.fence.asked) == ("failed", False, [])
    assert "answers again" in shown["error"]
    guest = await cloud.hypervisor("host1").guest(server)
    assert guest is not None
    assert guest.state == "running"


async def test_a_host_of_which_somebody_says_that_it_is_up_is_left_to_him(
    watched: ComputeCloud,
) -> None:
    cloud, watch = watched, _Watch(watched)
    cloud.ended_hosts.add("host1")
    await watch.pass_time(60.0)
    await say_down(cloud, "host1", down=True)
    await watch.pass_time(300.0)
    await say_down(cloud, "host1", down=False)
    await watch.pass_time(300.0)
    assert cloud.fence.asked == []
    cloud.ended_hosts.clear()
    await watch.pass_time(10.0)
    cloud.ended_hosts.add("host1")
    await watch.pass_time(150.0)
    assert cloud.fence.asked == ["host1"]


async def test_what_nobody_has_watched_is_no_silence(watched: ComputeCloud) -> None:
    cloud, watch = watched, _Watch(watched)
    # The process stood still, or its clock was set forward: the hosts answered, for all it knows.
    for leap in (cloud.clock.advance, cloud.clock.step):
        await watch.pass_time(10.0)
        leap(7200.0)
        cloud.ended_hosts.add("host1")
        await watch.pass_time(60.0)
        cloud.ended_hosts.clear()
    assert cloud.fence.asked == []


@pytest.mark.parametrize("lacks", ["setting", "command"])
async def test_no_host_is_fenced_by_itself_unless_that_is_wanted(
    tmp_path: Path, lacks: str
) -> None:
    after_s = 0 if lacks == "setting" else 120
    async with ComputeCloud(tmp_path, hosts=_HOSTS, evacuate_after_s=after_s) as cloud:
        cloud.fence.is_set = lacks != "command"
        cloud.ended_hosts.add("host1")
        await _Watch(cloud).pass_time(300.0)
        assert cloud.fence.asked == []


async def test_a_host_whose_agent_answers_badly_is_not_fenced(watched: ComputeCloud) -> None:
    cloud, watch = watched, _Watch(watched)
    await watch.pass_time(30.0)
    well = cloud.deliver_to_host

    async def fail_on_host1(request: Request, forward: Forward) -> Response:
        answer = await forward(request)
        if request.target == "/host" and b"host1" in answer.body:
            return Response(500, b"{}", {})
        return answer

    cloud.deliver_to_host = fail_on_host1
    await watch.pass_time(300.0)
    assert cloud.fence.asked == []
    path = "/os-services?binary=nova-compute&host=host1"
    [service] = (await cloud.ask("GET", path, user="admin")).key("services")
    assert service["state"] == "down"
    cloud.deliver_to_host = well
    cloud.ended_hosts.add("host1")
    await watch.pass_time(30.0)
    assert cloud.fence.asked == ["host1"]


async def test_a_host_with_a_pool_that_cannot_be_read_is_not_silent(tmp_path: Path) -> None:
    made = ComputeCloud(tmp_path, hosts=_HOSTS, evacuate_after_s=120)
    pool = PoolSettings(name="files", driver="directory", format="raw")
    made.hosts["host1"] = replace(made.hosts["host1"], pools=(pool,))
    async with made as cloud:
        watch = _Watch(cloud)
        await watch.pass_time(30.0)
        # As a file system leaves a file after a power loss, or a disk that failed.
        records = cloud.hosts["host1"].state_dir / "volumes" / ".mooring"
        (records / "volume-0f9a1f3e-54f4-4b1a-9d1a-6b1f0d9f7c11.json").write_bytes(b'{"form')
        await watch.pass_time(150.0)
        assert cloud.fence.asked == []
        path = "/os-services?binary=nova-compute&host=host1"
        [service] = (await cloud.ask("GET", path, user="admin")).key("services")
        assert service["state"] == "up"
