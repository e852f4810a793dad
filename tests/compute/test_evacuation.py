"""Servers of hosts that are dead, given to others (specs 001, Evacuate; design section 4)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mooring.agent_api.transport import Forward, Request, Response
from mooring.compute.hosts.loops import watch_hosts
from mooring.errors import Conflict
from tests.answers import Answer
from tests.compute.cloud import ComputeCloud
from tests.compute.elsewhere import events, refuse
from tests.compute.local_disks import make_local
from tests.compute.moving import Moving, moving_server
from tests.compute.shared_moves import server_with_shares, sharing_cloud
from tests.compute.verifying import ask, force_down, migrate, show
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2", "host3")
ANYWHERE: dict[str, dict[str, str]] = {"evacuate": {}}
OLD = "2.94"
"""The last version in which a server that ran runs at once where it is evacuated to."""


@pytest.fixture
async def moving(keeper: Keeper) -> AsyncGenerator[Moving]:
    async with moving_server(keeper, hosts=HOSTS) as made:
        yield made


async def die(moving: Moving, *, is_told: bool = True) -> None:
    """Cut a host's power: its guests end and it says nothing; an administrator says so, or not."""
    moving.cloud.hypervisor(moving.source).crash(moving.server_id)
    if is_told:
        await force_down(moving.cloud, moving.source, down=True)


async def evacuate(moving: Moving, version: str = OLD, **value: Any) -> Answer:
    body = {"evacuate": value}
    path = f"/servers/{moving.server_id}/action"
    answer = await moving.cloud.ask("POST", path, body, user="admin", version=version)
    await moving.cloud.settle()
    return answer


async def come_back(moving: Moving) -> None:
    """Let the old host answer again, until it has paid what it owes."""
    await watch_hosts.look_once(moving.cloud.compute)
    await watch_hosts.look_once(moving.cloud.compute)
    await moving.cloud.settle()


async def is_there(moving: Moving, power: str = "running") -> None:
    """See that the server is at its destination with its volumes, which have no attachment else."""
    assert await moving.host() == moving.destination
    assert (await show(moving))["status"] == ("ACTIVE" if power == "running" else "SHUTOFF")
    assert (await moving.states())[1] == power
    assert (await moving.connected())[1] == 2
    assert await moving.attachments() == 2
    assert await moving.claims() == [set(), {moving.server_id}]
    for volume_id in moving.volumes:
        assert await moving.cloud.volume_status(volume_id) == "in-use"


# -- the flow ----------------------------------------------------------------------------------


async def test_a_server_of_a_dead_host_runs_on_another_one_with_its_volumes(moving: Moving) -> None:
    await die(moving)
    assert (await evacuate(moving, host=moving.destination)).status == 200
    await is_there(moving)
    assert await moving.status() == "done"
    assert (await moving.cloud.actions(moving.server_id))[-1] == ("evacuate", None)


async def test_the_old_attachments_go_once_the_new_ones_are_there_and_before_the_guest_starts(
    moving: Moving,
) -> None:
    await die(moving)
    deliver, seen = moving.cloud.deliver_to_host, list[tuple[str, int]]()

    async def look(request: Request, forward: Forward) -> Response:
        verb = request.target.split("?")[0].split("/")[1]
        if request.method == "PUT" and verb in {"connections", "servers"}:
            seen.append((verb, await moving.attachments()))
        return await deliver(request, forward)

    moving.cloud.deliver_to_host = look
    await evacuate(moving, host=moving.destination)
    assert seen == [("connections", 3), ("connections", 4), ("servers", 2)]
    await is_there(moving)


async def test_the_old_host_pays_before_it_is_up_again(moving: Moving) -> None:
    await die(moving)
    await evacuate(moving, host=moving.destination)
    with pytest.raises(AssertionError):
        await force_down(moving.cloud, moving.source, down=False)
    assert (await moving.states())[0] == "crashed"
    await come_back(moving)
    assert await moving.states() == ["absent", "running"]
    assert await moving.connected() == [0, 2]
    assert await moving.status() == "completed"
    await force_down(moving.cloud, moving.source, down=False)
    await is_there(moving)


async def test_the_old_host_is_not_up_again_while_it_lasts(moving: Moving) -> None:
    await die(moving)
    deliver, answers = moving.cloud.deliver_to_host, list[int]()
    listed = await moving.cloud.ask("GET", "/os-services", user="admin", version="2.100")
    services = {one["host"]: one["id"] for one in listed.body["services"]}
    path, body = f"/os-services/{services[moving.source]}", {"forced_down": False}

    async def say_so(request: Request, forward: Forward) -> Response:
        if request.method == "PUT" and request.target.startswith("/connections/"):
            answer = await moving.cloud.ask("PUT", path, body, user="admin", version="2.100")
            answers.append(answer.status)
        return await deliver(request, forward)

    moving.cloud.deliver_to_host = say_so
    await evacuate(moving, host=moving.destination)
    assert answers == [400, 400]
    await is_there(moving)


async def test_nothing_is_asked_of_the_dead_host(moving: Moving) -> None:
    await die(moving)
    asked: list[str] = []
    deliver = moving.cloud.deliver_to_host

    async def listen(request: Request, forward: Forward) -> Response:
        if request.method != "GET":
            asked.append(f"{request.headers['host']} {request.target}")
        return await deliver(request, forward)

    moving.cloud.deliver_to_host = listen
    await evacuate(moving, host=moving.destination)
    # It may well have the storage, too: there the export to it ends.
    mine = [one for one in asked if one.startswith(moving.source) and "/exports/" not in one]
    assert mine == []
    await is_there(moving)


# -- how it is left ----------------------------------------------------------------------------


async def test_from_2_95_on_it_is_left_off(moving: Moving) -> None:
    await die(moving)
    assert (await evacuate(moving, "2.95")).status == 200
    moving.destination = await moving.host()
    await is_there(moving, "stopped")
    assert await ask(moving, "os-start") == 202
    await is_there(moving)


async def test_a_stopped_server_is_left_off(moving: Moving) -> None:
    assert await ask(moving, "os-stop") == 202
    await force_down(moving.cloud, moving.source, down=True)
    await evacuate(moving, host=moving.destination)
    await is_there(moving, "stopped")


@pytest.mark.parametrize("version", [OLD, "2.95"])
async def test_one_in_error_runs_again(moving: Moving, version: str) -> None:
    await moving.cloud.act(
        moving.server_id, "os-resetState", {"state": "error"}, user="admin", version="2.90"
    )
    await moving.cloud.settle()
    await die(moving)
    await evacuate(moving, version, host=moving.destination)
    await is_there(moving)


async def test_one_with_its_root_disk_on_the_host_gets_a_new_one(tmp_path: Path) -> None:
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        local = await make_local(cloud)
        moving = local.moving
        await die(moving)
        await evacuate(moving, host=moving.destination)
        assert await moving.host() == moving.destination
        assert (await moving.states())[1] == "running"
        assert local.disk(moving.source).exists()
        await come_back(moving)
        assert await moving.states() == ["absent", "running"]
        assert not local.disk(moving.source).exists()


# -- what comes between ------------------------------------------------------------------------


async def test_another_host_takes_it_where_the_first_one_cannot(moving: Moving) -> None:
    await die(moving)
    others = [host for host in moving.cloud.hosts if host != moving.source]
    asked = refuse(moving.cloud, others, one=True)
    await evacuate(moving)
    moving.destination = next(host for host in others if host != asked[0])
    await is_there(moving)


async def test_where_no_host_can_have_it_it_stays_as_it_was(moving: Moving) -> None:
    await die(moving)
    others = [host for host in moving.cloud.hosts if host != moving.source]
    refuse(moving.cloud, others)
    await evacuate(moving)
    assert await moving.host() == moving.source
    assert (await show(moving))["status"] == "ACTIVE"
    assert await moving.attachments() == 2
    assert await moving.claims() == [{moving.server_id}, set()]
    assert await moving.status() == "error"
    await force_down(moving.cloud, moving.source, down=False)


@pytest.mark.parametrize("named", [False, True])
async def test_where_the_hosts_are_full_it_stays_as_it_was(moving: Moving, *, named: bool) -> None:
    known = {one.name: one.uuid for one in await moving.cloud.compute.placement.providers()}
    full = [moving.destination] if named else [one for one in known if one != moving.source]
    for host in full:
        for _ in range(4):
            await moving.cloud.claim(str(uuid4()), {known[host]: {"VCPU": 64}})
    await die(moving)
    await evacuate(moving, **({"host": moving.destination} if named else {}))
    assert await moving.host() == moving.source
    assert await moving.attachments() == 2
    assert [moving.server_id in held for held in await moving.claims()] == [True, False]
    assert await moving.status() == "error"
    [(_, _, details)] = await events(moving.cloud, moving.server_id)
    assert "without room for" in str(details)
    await force_down(moving.cloud, moving.source, down=False)


async def test_a_fence_that_lied_makes_no_second_guest(moving: Moving) -> None:
    # The agent and the daemon are dead, and the guest is not.
    await force_down(moving.cloud, moving.source, down=True)
    await evacuate(moving, host=moving.destination)
    assert await moving.states() == ["running", "stopped"]
    shown = await show(moving)
    assert shown["status"] == "ERROR"
    assert "may be alive" in shown["fault"]["message"]
    assert await moving.host() == moving.destination
    moving.cloud.hypervisor(moving.source).crash(moving.server_id)
    await moving.cloud.look_at_hosts()
    assert await ask(moving, "reboot", {"type": "HARD"}) == 202
    await is_there(moving)


async def test_the_old_host_owes_its_guest_however_it_fails(moving: Moving) -> None:
    await die(moving)
    point = "compute.evacuate/owe_guest/forward/before"
    moving.cloud.probe.arm(point, lambda: Conflict("It will not go."))
    await evacuate(moving, host=moving.destination)
    assert (await show(moving))["status"] == "ERROR"
    assert await moving.states() == ["crashed", "absent"]
    await come_back(moving)
    assert (await moving.states())[0] == "absent"


async def test_a_server_that_was_evacuated_is_deleted_and_its_old_host_pays(moving: Moving) -> None:
    await die(moving)
    await evacuate(moving, host=moving.destination)
    assert (await moving.cloud.ask("DELETE", f"/servers/{moving.server_id}")).status == 204
    await moving.cloud.settle()
    await come_back(moving)
    assert await moving.states() == ["absent", "absent"]
    assert await moving.status() == "completed"


# -- what is refused ---------------------------------------------------------------------------


async def test_a_silent_host_is_no_proof(moving: Moving) -> None:
    await die(moving, is_told=False)
    moving.cloud.clock.advance(3600.0)
    answer = await evacuate(moving)
    assert answer.status == 400
    assert "mooring host fence" in answer.text
    assert await moving.migrations() == []


@pytest.mark.parametrize(
    ("value", "version", "status"),
    [
        ({"host": "nowhere"}, OLD, 404),
        ({"host": "source"}, OLD, 400),
        ({"force": True}, "2.67", 400),
        ({"force": True, "host": "destination"}, "2.68", 400),
        ({"onSharedStorage": False}, "2.14", 400),
        ({}, "2.13", 400),
        ({"onSharedStorage": True, "adminPass": "x"}, "2.13", 400),
        ({"nothing": 1}, OLD, 400),
    ],
)
async def test_what_nova_refuses_is_refused(
    moving: Moving, value: dict[str, Any], version: str, status: int
) -> None:
    await die(moving)
    names = {"source": moving.source, "destination": moving.destination}
    if "host" in value:
        value = {**value, "host": names.get(value["host"], value["host"])}
    assert (await evacuate(moving, version, **value)).status == status
    assert (await show(moving))["status"] == "ACTIVE"


async def test_a_host_that_is_down_is_refused(moving: Moving) -> None:
    await die(moving)
    await force_down(moving.cloud, moving.destination, down=True)
    assert (await evacuate(moving, host=moving.destination)).status == 400


async def test_early_versions_show_a_password(moving: Moving) -> None:
    await die(moving)
    answer = await evacuate(moving, "2.13", onSharedStorage=True, host=moving.destination)
    assert answer.status == 200
    assert answer.body["adminPass"]
    await is_there(moving)


async def test_a_root_disk_on_the_host_is_on_no_shared_storage(tmp_path: Path) -> None:
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        moving = (await make_local(cloud)).moving
        await die(moving)
        answer = await evacuate(moving, "2.13", onSharedStorage=True)
        assert (answer.status, await moving.host()) == (400, moving.source)


async def test_one_that_waits_for_its_user_s_word_is_refused(moving: Moving) -> None:
    await migrate(moving)
    await force_down(moving.cloud, await moving.host(), down=True)
    assert (await evacuate(moving)).status == 409


async def test_a_lock_does_not_keep_it(moving: Moving) -> None:
    assert await ask(moving, "lock") == 202
    await die(moving)
    assert (await evacuate(moving, host=moving.destination)).status == 200
    await is_there(moving)


async def test_a_server_with_a_share_is_refused(tmp_path: Path) -> None:
    async with sharing_cloud(tmp_path) as cloud:
        sharing = await server_with_shares(cloud, await cloud.make_share())
        await force_down(cloud, sharing.source, down=True)
        path = f"/servers/{sharing.server_id}/action"
        answer = await cloud.ask("POST", path, ANYWHERE, user="admin", version=OLD)
        assert answer.status == 409
        assert "shares" in answer.text


async def test_its_owner_may_not(moving: Moving) -> None:
    await die(moving)
    path = f"/servers/{moving.server_id}/action"
    assert (await moving.cloud.ask("POST", path, ANYWHERE, version=OLD)).status == 403


async def test_old_hosts_cannot_leave_it_off(moving: Moving) -> None:
    await moving.cloud.change_host("host3", version=61)
    await die(moving)
    assert (await evacuate(moving, "2.95")).status == 400
    assert (await evacuate(moving, OLD, host=moving.destination)).status == 200


async def test_what_fails_for_good_at_the_end_says_what_to_do(moving: Moving) -> None:
    await die(moving)
    knobs = moving.cloud.hypervisor(moving.destination).knobs
    knobs.fail("power_on", Conflict("It will not go."))
    await evacuate(moving, host=moving.destination)
    told = (await show(moving))["fault"]["message"]
    assert told.startswith(f"The server is on host {moving.destination}, where it may be off. See")
    assert await ask(moving, "reboot", {"type": "HARD"}) == 202
    await is_there(moving)


async def test_one_that_the_new_host_never_had_is_brought_up_by_a_hard_reboot(
    moving: Moving,
) -> None:
    await die(moving)
    knobs = moving.cloud.hypervisor(moving.destination).knobs
    knobs.fail("define", Conflict("It will not go."))
    await evacuate(moving, host=moving.destination)
    assert (await show(moving))["status"] == "ERROR"
    assert await moving.states() == ["crashed", "absent"]
    assert await ask(moving, "reboot", {"type": "HARD"}) == 202
    await is_there(moving)
