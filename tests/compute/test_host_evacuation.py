"""All servers of a dead host go to others, at an administrator's word or by themselves."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from mooring import typed
from mooring.compute.hosts import draining, fencing
from mooring.compute.hosts.drain_views import Drain
from mooring.compute.hosts.silence import Silence
from mooring.errors import Conflict
from mooring.host_command import exit_code
from tests.answers import Answer
from tests.compute.cloud import ComputeCloud
from tests.compute.test_drain import take_over
from tests.compute.test_server_groups import make_group
from tests.compute.verifying import force_down

pytestmark = pytest.mark.anyio
_HOSTS = ("host1", "host2", "host3")
DEAD = "host3"
SILENT_S = 120


@pytest.fixture
async def cloud(tmp_path: Path, database: str) -> AsyncGenerator[ComputeCloud]:
    async with ComputeCloud(tmp_path, hosts=_HOSTS, database=database) as opened:
        opened.fence.ends = opened.end_host
        yield opened


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncGenerator[ComputeCloud]:
    """A cloud whose silent hosts are fenced and evacuated by themselves."""
    async with ComputeCloud(tmp_path, hosts=_HOSTS, evacuate_after_s=SILENT_S) as opened:
        opened.fence.ends = opened.end_host
        yield opened


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """How many servers are evacuated at once: fewer than a project may have."""
    monkeypatch.setattr(draining, "EVACUATED_AT_ONCE", 4)
    return 4


async def make(cloud: ComputeCloud, group: str = "") -> str:
    """Make a server on the host that is to die, as a member of a group."""
    wanted = {"name": "s", "flavorRef": "1", "imageRef": cloud.image_id, "networks": "none"}
    hints = {"os:scheduler_hints": {"group": group}} if group else {}
    body = {"server": {**wanted, "host": DEAD}, **hints}
    cloud.clock.advance(1.0)
    answer = await cloud.ask("POST", "/servers", body, user="admin")
    await cloud.settle()
    return answer.body["server"]["id"]


async def evacuate(cloud: ComputeCloud, method: str = "PUT", *, user: str = "admin") -> Answer:
    return await cloud.ask(method, f"/mooring/evacuations/{DEAD}", user=user)


async def follow(cloud: ComputeCloud, looks: int = 20) -> dict[str, Any]:
    """Look again and again until it is over, as the loop does; return what is shown then."""
    for _ in range(looks):
        await draining.advance_all(cloud.compute)
        await cloud.settle()
        if (shown := (await evacuate(cloud, "GET")).body)["status"] != "draining":
            return shown
        cloud.clock.advance(11.0)
        await cloud.look_at_hosts()
    raise AssertionError((await evacuate(cloud, "GET")).body)


async def die(cloud: ComputeCloud) -> None:
    await cloud.end_host(DEAD)
    await force_down(cloud, DEAD, down=True)


async def fall_silent(cloud: ComputeCloud) -> None:
    """Let the host say nothing until it is to be fenced by itself."""
    silence = Silence(cloud.clock.monotonic())
    cloud.ended_hosts.add(DEAD)
    for _ in range(2 + SILENT_S // 10):
        cloud.clock.advance(10.0)
        await cloud.look_at_hosts()
        await fencing.fence_silent(cloud.compute, silence)
        await cloud.settle()


async def test_all_servers_of_a_dead_host_go_to_others(cloud: ComputeCloud) -> None:
    made = [await make(cloud) for _ in range(3)]
    await cloud.act(made[1], "os-stop")
    await cloud.settle()
    await die(cloud)
    begun = await evacuate(cloud)
    assert (begun.status, begun.body["waiting"]) == (202, 3)
    shown = await follow(cloud)
    assert (shown["status"], shown["moved"], shown["left"]) == ("drained", 3, [])
    assert shown["note"] == ""
    found = [await cloud.server(server_id) for server_id in made]
    assert [one["status"] for one in found] == ["ACTIVE", "SHUTOFF", "ACTIVE"]
    assert DEAD not in {one["OS-EXT-SRV-ATTR:host"] for one in found}


async def test_so_many_go_at_once_and_those_of_one_group_after_each_other(
    cloud: ComputeCloud, few: int
) -> None:
    group = await make_group(cloud, "soft-affinity")
    first = await make(cloud, group)
    others = [await make(cloud) for _ in range(few)]
    last = await make(cloud, group)
    await die(cloud)
    await evacuate(cloud)
    await draining.advance_all(cloud.compute)
    listed = await cloud.ask("GET", "/os-migrations", user="admin", version="2.59")
    begun = [one["instance_uuid"] for one in reversed(listed.body["migrations"])]
    assert begun == [first, last, *others[:-2]]
    assert (await follow(cloud))["left"] == []


async def test_who_cannot_go_stays_and_it_is_said_why(cloud: ComputeCloud) -> None:
    broken, resized, paused = [await make(cloud) for _ in range(3)]
    await cloud.act(broken, "os-resetState", {"state": "error"}, user="admin")
    await cloud.act(resized, "resize", {"flavorRef": "84"}, version="2.90")
    await cloud.act(paused, "pause")
    await cloud.settle()
    for verb in ("power_on", "remove"):
        cloud.hypervisor(DEAD).knobs.fail(verb, Conflict("It will not go."), times=9)
    unborn = await make(cloud)
    await die(cloud)
    await evacuate(cloud)
    shown = await follow(cloud)
    assert (shown["status"], shown["moved"]) == ("drained", 1)
    reasons = {left["id"]: left["reason"] for left in shown["left"]}
    assert reasons.keys() == {resized, paused, unborn}
    assert reasons[resized].startswith("It waits for its user")
    assert "Reset its state to error" in reasons[paused]
    assert reasons[unborn].startswith("It never ran")


async def test_a_host_that_is_not_known_to_be_dead_is_refused(cloud: ComputeCloud) -> None:
    await make(cloud)
    answer = await evacuate(cloud)
    assert answer.status == 409
    assert "mooring host fence" in answer.text
    await die(cloud)
    drained = await cloud.ask("PUT", f"/mooring/drains/{DEAD}", user="admin")
    assert drained.status == 409
    assert "mooring host evacuate" in drained.text


async def test_members_may_not(cloud: ComputeCloud) -> None:
    await die(cloud)
    assert (await evacuate(cloud, user="member")).status == 403
    assert (await evacuate(cloud, "GET")).status == 404


async def test_a_drain_from_before_its_death_is_no_evacuation_of_a_host(
    cloud: ComputeCloud,
) -> None:
    path = f"/mooring/drains/{DEAD}"
    await cloud.ask("PUT", path, user="admin")
    await draining.advance_all(cloud.compute)
    assert (await cloud.ask("GET", path, user="admin")).body["status"] == "drained"
    answer = await evacuate(cloud, "GET")
    assert (answer.status, f"mooring host drain {DEAD} --status" in answer.text) == (404, True)
    await die(cloud)
    assert (await evacuate(cloud, "GET")).status == 404
    await evacuate(cloud)
    assert (await follow(cloud))["status"] == "drained"
    answer = await cloud.ask("GET", path, user="admin")
    assert (answer.status, f"mooring host evacuate {DEAD} --status" in answer.text) == (404, True)


async def test_a_host_that_dies_again_with_servers_is_not_shown_as_evacuated(
    cloud: ComputeCloud,
) -> None:
    await die(cloud)
    await evacuate(cloud)
    shown = await follow(cloud)
    assert (shown["note"], exit_code(typed.convert(shown, Drain))) == ("", 0)
    cloud.ended_hosts.clear()
    await cloud.look_at_hosts()
    await force_down(cloud, DEAD, down=False)
    assert (await cloud.ask("DELETE", f"/mooring/drains/{DEAD}", user="admin")).status == 204
    shown = (await evacuate(cloud, "GET")).body
    assert shown["note"] == "The host was enabled since, and may have servers again."
    assert exit_code(typed.convert(shown, Drain)) == 1
    await make(cloud)
    await die(cloud)
    shown = (await evacuate(cloud, "GET")).body
    assert shown["note"] == "The host has a server again."
    assert exit_code(typed.convert(shown, Drain)) == 1


async def test_it_goes_on_after_a_restart(cloud: ComputeCloud, few: int) -> None:
    made = [await make(cloud) for _ in range(few + 1)]
    await die(cloud)
    await evacuate(cloud)
    await draining.advance_all(cloud.compute)
    await cloud.restart()
    await take_over(cloud)
    assert (await follow(cloud))["moved"] == len(made)


async def test_a_silent_host_is_fenced_and_its_servers_go_by_themselves(
    watched: ComputeCloud,
) -> None:
    made = await make(watched)
    await fall_silent(watched)
    assert watched.fence.asked == [DEAD]
    shown = await follow(watched)
    assert (shown["status"], shown["moved"]) == ("drained", 1)
    server = await watched.server(made)
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"] != DEAD) == ("ACTIVE", True)
    await draining.advance_all(watched.compute)
    assert (await evacuate(watched, "GET")).body["started_at"] == shown["started_at"]


async def test_a_fence_that_fails_evacuates_nothing(watched: ComputeCloud) -> None:
    made = await make(watched)
    watched.fence.refusal = "switch-off ended with exit code 3", "No."
    await fall_silent(watched)
    await draining.advance_all(watched.compute)
    assert watched.fence.asked
    assert (await evacuate(watched, "GET")).status == 404
    assert (await watched.server(made))["OS-EXT-SRV-ATTR:host"] == DEAD
