"""A host that is drained loses its servers, and says which ones stay and why."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from mooring.compute.hosts import draining
from mooring.compute.moves import cold_migrating
from mooring.errors import Conflict
from mooring.saga import ownership
from mooring.saga.tables import SagaRow
from mooring.who import Who
from tests.compute.cloud import ComputeCloud
from tests.compute.moving import Moving, server_that_moves
from tests.compute.verifying import ask

pytestmark = pytest.mark.anyio
_SERVICES = "/os-services?binary=nova-compute"
_HOSTS = ("host1", "host2", "host3")


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncGenerator[ComputeCloud]:
    async with ComputeCloud(tmp_path, hosts=_HOSTS) as opened:
        yield opened


@pytest.fixture
async def on_both(tmp_path: Path, database: str) -> AsyncGenerator[ComputeCloud]:
    """The same on each database."""
    async with ComputeCloud(tmp_path, hosts=_HOSTS, database=database) as opened:
        yield opened


async def _ask(cloud: ComputeCloud, method: str, host: str, *, user: str = "admin") -> Any:
    return await cloud.ask(method, f"/mooring/drains/{host}", user=user)


async def _shown(cloud: ComputeCloud, host: str) -> dict[str, Any]:
    return (await _ask(cloud, "GET", host)).body


async def _run(cloud: ComputeCloud, host: str, *, looks: int = 20) -> dict[str, Any]:
    """Look again and again until it is over, as the loop does; return what is shown then."""
    for _ in range(looks):
        await cloud.look_around()
        await cloud.settle()
        if (shown := await _shown(cloud, host))["status"] != "draining":
            return shown
        cloud.clock.advance(11.0)
    raise AssertionError(await _shown(cloud, host))


async def _switch(cloud: ComputeCloud, host: str, status: str) -> None:
    body = {"host": host, "binary": "nova-compute"}
    path = f"/os-services/{status}"
    assert (await cloud.ask("PUT", path, body, user="admin", version="2.1")).status == 200


async def take_over(cloud: ComputeCloud) -> None:
    """Have what a dead predecessor left, whose leases run out, as 5 s without renewal would."""
    past = cloud.clock.now() - timedelta(days=3650)
    ended = update(SagaRow).values(lease_until=past)
    for service in (cloud.compute, cloud.volume):
        if ownership.is_shared(service.store):
            await service.store.write(lambda tx: tx.execute(ended) and None)
            await service.sagas.schedule.share()


async def _on_one_host(cloud: ComputeCloud, count: int) -> list[Moving]:
    """Make servers on host1."""
    for host in _HOSTS[1:]:
        await _switch(cloud, host, "disable")
    made = [await server_that_moves(cloud, volumes=1) for _ in range(count)]
    for host in _HOSTS[1:]:
        await _switch(cloud, host, "enable")
    return made


async def test_a_host_that_is_drained_has_no_servers_left(on_both: ComputeCloud) -> None:
    cloud = on_both
    made = await _on_one_host(cloud, 3)
    begun = await _ask(cloud, "PUT", "host1")
    assert (begun.status, begun.body["status"], begun.body["waiting"]) == (202, "draining", 3)
    shown = await _run(cloud, "host1")
    assert (shown["status"], shown["moved"], shown["left"]) == ("drained", 3, [])
    for one in made:
        assert await one.host() != "host1"
        assert await one.status() == "completed"
    services = (await cloud.ask("GET", _SERVICES, user="admin")).body["services"]
    [service] = [one for one in services if one["host"] == "host1"]
    assert (service["status"], service["disabled_reason"]) == ("disabled", "It is being drained.")


async def test_stopped_servers_move_stopped_and_nobody_has_to_confirm_that(
    on_both: ComputeCloud,
) -> None:
    cloud = on_both
    [runs, stopped, gone] = await _on_one_host(cloud, 3)
    await _stop(stopped)
    await _stop(gone)
    await _ask(cloud, "PUT", "host1")
    await draining.advance_all(cloud.compute)
    shown = await _shown(cloud, "host1")
    assert (shown["moving"], shown["waiting"]) == (2, 1)
    assert shown["moving_stopped"] >= 1
    shown = await _run(cloud, "host1")
    assert (shown["status"], shown["left"]) == ("drained", [])
    assert (shown["moved"], shown["moved_stopped"]) == (3, 2)
    assert await runs.status() == "completed"
    assert (await runs.connected())[0] == 0
    assert (await runs.claims())[0] == set()
    for one in (stopped, gone):
        one.destination = await one.host()
        assert await one.states() == ["absent", "stopped"]
        assert (await one.status(), await one.attachments()) == ("confirmed", 1)
        assert (await cloud.server(one.server_id))["status"] == "SHUTOFF"


async def test_what_a_user_has_to_confirm_is_left_to_the_user(cloud: ComputeCloud) -> None:
    [moving] = await _on_one_host(cloud, 1)
    await _stop(moving)
    await _act(moving, "migrate", {"host": "host2"})
    await cloud.settle()
    reasons = {"host1": "It is on host2, and may still go back", "host2": "It waits for its user"}
    for host, reason in reasons.items():
        await _ask(cloud, "PUT", host)
        shown = await _run(cloud, host)
        assert (shown["status"], shown["moved"]) == ("drained", 0)
        [left] = shown["left"]
        assert left["reason"].startswith(reason)
    assert (await cloud.server(moving.server_id))["status"] == "VERIFY_RESIZE"
    assert await moving.status() == "finished"
    assert await ask(moving, "confirmResize") == 204
    await _ask(cloud, "PUT", "host1")
    assert (await _run(cloud, "host1"))["left"] == []


async def test_a_server_that_was_started_meanwhile_is_not_taken_down(cloud: ComputeCloud) -> None:
    [moving] = await _on_one_host(cloud, 1)
    await _stop(moving)
    assert await moving.cloud.act(moving.server_id, "os-start") == 202
    await cloud.settle()
    who = Who(user_id="admin", project_id="p", is_admin=True)
    with pytest.raises(Conflict, match="vm_state active"):
        await cold_migrating.migrate(cloud.compute, who, moving.server_id, None, by_drain=True)
    assert await moving.states() == ["running", "absent"]
    assert await moving.migrations() == []


async def test_what_a_drain_has_moved_is_confirmed_though_the_host_was_enabled(
    cloud: ComputeCloud,
) -> None:
    [moving] = await _on_one_host(cloud, 1)
    await _stop(moving)
    await _ask(cloud, "PUT", "host1")
    await draining.advance_all(cloud.compute)
    await cloud.settle()
    assert await moving.status() == "finished"
    assert (await _ask(cloud, "DELETE", "host1")).status == 204
    await draining.advance_all(cloud.compute)
    await cloud.settle()
    assert await moving.status() == "confirmed"


async def test_a_stopped_server_whose_user_takes_it_back_moves_again(cloud: ComputeCloud) -> None:
    [moving] = await _on_one_host(cloud, 1)
    await _stop(moving)
    await _ask(cloud, "PUT", "host1")
    await draining.advance_all(cloud.compute)
    await cloud.settle()
    assert await ask(moving, "revertResize") == 202
    assert (await moving.host(), await moving.status()) == ("host1", "reverted")
    shown = await _run(cloud, "host1")
    assert (shown["moved"], shown["moved_stopped"]) == (1, 1)
    assert [one["status"] for one in await moving.migrations()] == ["confirmed", "reverted"]


async def test_a_stopped_server_that_starts_nowhere_else_is_left_after_three_moves(
    cloud: ComputeCloud,
) -> None:
    [moving] = await _on_one_host(cloud, 1)
    await _stop(moving)
    for host in _HOSTS[1:]:
        cloud.hypervisor(host).knobs.fail("define", Conflict("It is too small here."), times=9)
    await _ask(cloud, "PUT", "host1")
    [left] = (await _run(cloud, "host1"))["left"]
    assert left["reason"] == "3 moves came to nothing. It is too small here."
    assert len(await moving.migrations()) == 3
    assert (await cloud.server(moving.server_id))["status"] == "SHUTOFF"
    assert await moving.states() == ["stopped", "absent"]


async def test_a_drain_confirms_what_its_dead_predecessor_moved(on_both: ComputeCloud) -> None:
    cloud = on_both
    [moving] = await _on_one_host(cloud, 1)
    await _stop(moving)
    await _ask(cloud, "PUT", "host1")
    await draining.advance_all(cloud.compute)
    await cloud.restart()
    await take_over(cloud)
    await cloud.settle()
    assert await moving.status() == "finished"
    await draining.advance_all(cloud.compute)
    await cloud.restart()
    await take_over(cloud)
    shown = await _run(cloud, "host1")
    assert (shown["moved"], shown["moved_stopped"], shown["left"]) == (1, 1, [])
    assert [one["status"] for one in await moving.migrations()] == ["confirmed"]


async def test_nothing_is_confirmed_while_the_host_that_is_left_is_silent(
    cloud: ComputeCloud,
) -> None:
    [moving] = await _on_one_host(cloud, 1)
    await _stop(moving)
    await _ask(cloud, "PUT", "host1")
    await draining.advance_all(cloud.compute)
    await cloud.settle()
    cloud.clock.advance(61.0)
    await draining.advance_all(cloud.compute)
    await cloud.settle()
    shown = await _shown(cloud, "host1")
    assert (shown["status"], shown["moving"]) == ("draining", 1)
    assert await moving.status() == "finished"
    assert (await _run(cloud, "host1"))["moved"] == 1


async def _stop(moving: Moving) -> None:
    assert await ask(moving, "os-stop") == 202
    assert (await moving.cloud.server(moving.server_id))["status"] == "SHUTOFF"


async def test_only_some_servers_leave_a_host_at_a_time(cloud: ComputeCloud) -> None:
    await _on_one_host(cloud, 3)
    await _ask(cloud, "PUT", "host1")
    await draining.advance_all(cloud.compute)
    shown = await _shown(cloud, "host1")
    assert (shown["moving"], shown["waiting"]) == (2, 1)
    await draining.advance_all(cloud.compute)
    assert (await _shown(cloud, "host1"))["moving"] == 2
    assert (await _run(cloud, "host1"))["moved"] == 3


async def test_servers_that_cannot_move_stay_each_with_the_reason(cloud: ComputeCloud) -> None:
    [moving, broken] = await _on_one_host(cloud, 2)
    for host in _HOSTS[1:]:
        await _switch(cloud, host, "disable")
    local = await cloud.make_server(name="local")
    for host in _HOSTS[1:]:
        await _switch(cloud, host, "enable")
    path = f"/servers/{broken.server_id}/action"
    assert (
        await cloud.ask("POST", path, {"os-resetState": {"state": "error"}}, user="admin")
    ).status == 202
    await cloud.settle()
    await _ask(cloud, "PUT", "host1")
    shown = await _run(cloud, "host1")
    assert (shown["status"], shown["moved"]) == ("drained", 2)
    reasons = {one["id"]: one["reason"] for one in shown["left"]}
    assert reasons.keys() == {broken.server_id}
    assert reasons[broken.server_id].startswith("It is error")
    assert await moving.host() != "host1"
    assert (await cloud.server(local))["OS-EXT-SRV-ATTR:host"] != "host1"
    assert await broken.host() == "host1"


async def test_a_server_whose_moves_come_to_nothing_is_left_after_three(
    cloud: ComputeCloud,
) -> None:
    [moving] = await _on_one_host(cloud, 1)
    for host in _HOSTS[1:]:
        cloud.hypervisor(host).knobs.fail("expect", Conflict("It is too hot here."), times=9)
    await _ask(cloud, "PUT", "host1")
    shown = await _run(cloud, "host1")
    [left] = shown["left"]
    assert left["id"] == moving.server_id
    assert left["reason"] == "3 moves came to nothing. It is too hot here."
    assert len(await moving.migrations()) == 3
    assert (await cloud.server(moving.server_id))["status"] == "ACTIVE"


async def test_a_host_is_not_drained_while_a_server_that_is_off_comes_to_it(
    cloud: ComputeCloud,
) -> None:
    moving = await server_that_moves(cloud)
    cloud.silent = ("PUT", "/servers/")
    await _act(moving, "migrate", {"host": moving.destination})
    await _ask(cloud, "PUT", moving.destination)
    await cloud.look_around()
    assert (await _shown(cloud, moving.destination))["waiting"] == 1
    cloud.silent = None
    shown = await _run(cloud, moving.destination)
    [left] = shown["left"]
    assert (shown["status"], left["id"]) == ("drained", moving.server_id)
    cloud.silent = ("PUT", "/servers/")
    await _act(moving, "revertResize", None)
    await _ask(cloud, "PUT", moving.source)
    await cloud.look_around()
    assert (await _shown(cloud, moving.source))["waiting"] == 1
    cloud.silent = None
    assert (await _run(cloud, moving.source))["moved"] == 1


async def _act(moving: Moving, action: str, value: Any) -> None:
    how = {"user": "admin", "version": "2.90"}
    assert await moving.cloud.act(moving.server_id, action, value, **how) == 202
    await moving.cloud.compute.sagas.settle(5.0)


async def test_a_drain_goes_on_after_the_control_plane_has_died(on_both: ComputeCloud) -> None:
    cloud = on_both
    made = await _on_one_host(cloud, 3)
    await _ask(cloud, "PUT", "host1")
    await draining.advance_all(cloud.compute)
    await cloud.restart()
    await take_over(cloud)
    again = await _ask(cloud, "PUT", "host1")
    assert (again.status, again.body["status"]) == (202, "draining")
    assert (await _run(cloud, "host1"))["moved"] == 3
    for one in made:
        assert len(await one.migrations(instance_uuid=one.server_id)) == 1


async def test_a_drain_is_not_over_before_its_last_move_is(cloud: ComputeCloud) -> None:
    [one] = await _on_one_host(cloud, 1)
    await _ask(cloud, "PUT", "host1")
    cloud.silent = ("DELETE", "/connections")
    await draining.advance_all(cloud.compute)
    await cloud.settle(1.0)
    assert await one.host() != "host1"
    await draining.advance_all(cloud.compute)
    shown = await _shown(cloud, "host1")
    assert (shown["status"], shown["moving"], shown["moved"]) == ("draining", 1, 0)
    cloud.silent = None
    assert (await _run(cloud, "host1"))["moved"] == 1


@pytest.mark.parametrize("how", ["DELETE", "enable"])
async def test_a_host_that_is_enabled_is_drained_no_further(cloud: ComputeCloud, how: str) -> None:
    made = await _on_one_host(cloud, 3)
    await _ask(cloud, "PUT", "host1")
    await draining.advance_all(cloud.compute)
    if how == "DELETE":
        assert (await _ask(cloud, "DELETE", "host1")).status == 204
    else:
        await _switch(cloud, "host1", "enable")
    shown = await _run(cloud, "host1")
    assert (shown["status"], shown["moved"]) == ("stopped", 2)
    assert [await one.host() for one in made].count("host1") == 1
    services = (await cloud.ask("GET", _SERVICES, user="admin")).body["services"]
    assert {one["status"] for one in services} == {"enabled"}


async def test_a_host_that_comes_back_after_its_removal_was_never_drained(
    cloud: ComputeCloud,
) -> None:
    await _ask(cloud, "PUT", "host1")
    assert (await _run(cloud, "host1"))["status"] == "drained"
    services = (await cloud.ask("GET", _SERVICES, user="admin")).body["services"]
    [service] = [one["id"] for one in services if one["host"] == "host1"]
    cloud.clock.advance(61.0)
    removed = await cloud.ask("DELETE", f"/os-services/{service}", user="admin")
    assert removed.status == 204
    await cloud.look_at_hosts()
    assert (await _ask(cloud, "GET", "host1")).status == 404


async def test_a_drain_waits_for_a_host_that_is_silent(cloud: ComputeCloud) -> None:
    await _on_one_host(cloud, 1)
    await _ask(cloud, "PUT", "host1")
    cloud.clock.advance(61.0)
    await draining.advance_all(cloud.compute)
    shown = await _shown(cloud, "host1")
    assert (shown["status"], shown["waiting"]) == ("draining", 1)
    assert shown["note"] == "The host does not answer."
    assert (await _run(cloud, "host1"))["moved"] == 1


async def test_what_is_asked_of_the_wrong_host_or_by_the_wrong_user_is_refused(
    cloud: ComputeCloud,
) -> None:
    assert (await _ask(cloud, "GET", "host1")).status == 404
    assert (await _ask(cloud, "PUT", "host9")).status == 404
    assert (await _ask(cloud, "DELETE", "host9")).status == 404
    for method in ("GET", "PUT", "DELETE"):
        assert (await _ask(cloud, method, "host1", user="member")).status == 403
    body = {"host": "host1", "binary": "nova-compute", "forced_down": True}
    down = await cloud.ask("PUT", "/os-services/force-down", body, user="admin", version="2.11")
    assert down.status == 200
    answer = await _ask(cloud, "PUT", "host1")
    assert (answer.status, "forced down" in answer.text) == (409, True)
    services = (await cloud.ask("GET", _SERVICES, user="admin")).body["services"]
    assert {one["status"] for one in services} == {"enabled"}
