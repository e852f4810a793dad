"""Servers that boot from a volume, put away and brought back (specs 001, Shelve and Unshelve)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from mooring.agent_api import wire
from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Conflict, NoCapacity
from tests.compute.elsewhere import refuse
from tests.compute.moving import Moving, moving_server, server_that_moves
from tests.compute.verifying import force_down, show
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2", "host3")
LATEST = "2.100"


@pytest.fixture
async def moving(keeper: Keeper, database: str) -> AsyncGenerator[Moving]:
    async with moving_server(keeper, hosts=HOSTS, database=database) as made:
        yield made


@pytest.fixture
async def away(keeper: Keeper, database: str) -> AsyncGenerator[Moving]:
    """A server that was put away."""
    opened = moving_server(keeper, hosts=HOSTS, database=database, then=put_away)
    async with opened as made:
        yield made


async def put_away(moving: Moving) -> None:
    assert await act(moving, "shelve") == 202
    await is_away(moving)


async def act(moving: Moving, action: str, value: Any = None, **how: Any) -> int:
    status = await moving.cloud.act(moving.server_id, action, value, **({"version": LATEST} | how))
    await moving.cloud.settle()
    return status


async def statuses(moving: Moving) -> list[str]:
    return [await moving.cloud.volume_status(volume_id) for volume_id in moving.volumes]


async def attachment_of(moving: Moving, volume_id: str) -> str:
    """Return the attachment that keeps a volume for the server."""
    path = f"/attachments?volume_id={volume_id}"
    (found,) = (await moving.cloud.volume_api("GET", path))["attachments"]
    return str(found["id"])


async def is_away(moving: Moving, statuses_of: str = "reserved") -> None:
    """See that the server is at no host, and that its volumes wait for it."""
    shown = await show(moving)
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("SHELVED_OFFLOADED", None)
    assert shown["OS-EXT-STS:task_state"] is None
    assert await statuses(moving) == [statuses_of] * len(moving.volumes)
    assert await moving.attachments() == len(moving.volumes)
    assert await moving.connected() == [0, 0]
    assert await moving.states() == ["absent", "absent"]
    assert await moving.claims() == [set(), set()]


async def is_back(moving: Moving) -> None:
    """See that the server runs at some host with its volumes."""
    shown = await show(moving)
    assert shown["status"] == "ACTIVE"
    moving.source = shown["OS-EXT-SRV-ATTR:host"]
    moving.destination = next(host for host in moving.cloud.hosts if host != moving.source)
    await moving.stays_whole()
    assert await statuses(moving) == ["in-use"] * len(moving.volumes)


# -- away and back -----------------------------------------------------------------------------


async def test_a_server_that_is_put_away_takes_no_room_and_keeps_its_volumes(away: Moving) -> None:
    assert (await away.cloud.actions(away.server_id))[-1] == ("shelve", None)


async def test_it_comes_back_with_its_volumes(away: Moving) -> None:
    assert await act(away, "unshelve") == 202
    await is_back(away)
    assert (await away.cloud.actions(away.server_id))[-1] == ("unshelve", None)


async def test_a_volume_is_never_free_meanwhile(moving: Moving) -> None:
    least: list[int] = []
    deliver = moving.cloud.deliver_to_host

    async def count(request: Request, forward: Forward) -> Response:
        least.append(await moving.attachments())
        return await deliver(request, forward)

    moving.cloud.deliver_to_host = count
    await act(moving, "shelve")
    await act(moving, "unshelve")
    assert min(least) >= len(moving.volumes)
    await is_back(moving)


@pytest.mark.parametrize("before", ["os-stop", "pause", "suspend"])
async def test_also_one_that_does_not_run(moving: Moving, before: str) -> None:
    assert await act(moving, before) == 202
    assert await act(moving, "shelve") == 202
    await is_away(moving)
    assert await act(moving, "unshelve") == 202
    await is_back(moving)


async def test_one_that_is_put_away_is_deleted_and_its_volumes_are_free(away: Moving) -> None:
    assert (await away.cloud.ask("DELETE", f"/servers/{away.server_id}")).status == 204
    await away.cloud.settle()
    assert await statuses(away) == ["available"] * 2
    assert await away.attachments() == 0


# -- where it comes back -----------------------------------------------------------------------


async def test_an_administrator_names_its_host(away: Moving) -> None:
    assert await act(away, "unshelve", {"host": "host3"}) == 403
    assert await act(away, "unshelve", {"host": "nowhere"}, user="admin") == 400
    assert await act(away, "unshelve", {"host": "host3"}, user="admin") == 202
    await is_back(away)
    assert away.source == "host3"


@pytest.mark.parametrize("version", ["2.77", LATEST])
async def test_it_comes_back_in_the_zone_that_is_named(away: Moving, version: str) -> None:
    value = {"availability_zone": "east"}
    assert await act(away, "unshelve", value, version=version) == 400
    body = {"aggregate": {"name": "a", "availability_zone": "east"}}
    made = await away.cloud.ask("POST", "/os-aggregates", body, user="admin")
    path = f"/os-aggregates/{made.body['aggregate']['id']}/action"
    await away.cloud.ask("POST", path, {"add_host": {"host": "host2"}}, user="admin")
    assert await act(away, "unshelve", value, version=version) == 202
    await is_back(away)
    assert away.source == "host2"
    assert await act(away, "shelve") == 202
    assert await act(away, "unshelve") == 202
    await is_back(away)
    assert away.source == "host2", "the zone is where it belongs from now on"


@pytest.mark.parametrize(
    ("value", "version", "status"),
    [
        ({"anything": 1}, "2.76", 202),
        ({}, "2.77", 400),
        ({}, LATEST, 400),
        ({"host": "host1"}, "2.90", 400),
        ({"availability_zone": None}, "2.90", 400),
        ({"availability_zone": None}, LATEST, 202),
        (None, "2.77", 202),
    ],
)
async def test_what_the_body_may_say(away: Moving, value: Any, version: str, status: int) -> None:
    assert await act(away, "unshelve", value, version=version) == status


# -- what fails --------------------------------------------------------------------------------


@pytest.mark.parametrize("nth", [1, 2], ids=["first", "second"])
async def test_a_volume_service_that_refuses_leaves_it_running(moving: Moving, nth: int) -> None:
    point = "compute.offload_server/reserve_spare/forward/before"
    moving.cloud.probe.arm(point, lambda: Conflict("No."), nth=nth)
    assert await act(moving, "shelve") == 202
    await moving.stays_whole()


async def test_a_guest_that_cannot_be_switched_off_runs_on(moving: Moving) -> None:
    moving.cloud.hypervisor(moving.source).knobs.fail("power_off", Conflict("It will not."))
    assert await act(moving, "shelve") == 202
    await moving.stays_whole()


async def test_a_host_that_does_not_let_a_volume_go_leaves_it_in_error(moving: Moving) -> None:
    point = "compute.offload_server/disconnect_left/forward/before"
    moving.cloud.probe.arm(point, lambda: Conflict("It will not go."))
    assert await act(moving, "shelve") == 202
    shown = await show(moving)
    told = f"The server is on host {moving.source}, with what that did not let go of. See to that"
    assert (shown["status"], shown["fault"]["message"].startswith(told)) == ("ERROR", True)
    assert await moving.attachments() == 2
    assert await statuses(moving) == ["in-use"] * 2
    reset = {"state": "active"}
    assert await act(moving, "os-resetState", reset, user="admin", version="2.90") == 202
    assert await act(moving, "shelve") == 202
    await is_away(moving)


async def test_what_waits_already_is_left_alone_by_another_try(moving: Moving) -> None:
    deliver, seen = moving.cloud.deliver_to_host, set[str]()

    async def keep_the_second(request: Request, forward: Forward) -> Response:
        if request.method == "DELETE" and request.target.startswith("/connections/"):
            seen.add(request.target)
            if len(seen) == 2:
                body = wire.body_of(Conflict("It will not go."))
                return Response(409, body, {"content-type": "application/json"})
        return await deliver(request, forward)

    moving.cloud.deliver_to_host = keep_the_second
    assert await act(moving, "shelve") == 202
    assert (await show(moving))["status"] == "ERROR"
    assert sorted(await statuses(moving)) == ["in-use", "reserved"]
    moving.cloud.deliver_to_host = deliver
    reset = {"state": "active"}
    assert await act(moving, "os-resetState", reset, user="admin", version="2.90") == 202
    assert await act(moving, "shelve") == 202
    await is_away(moving)
    assert await act(moving, "unshelve") == 202
    await is_back(moving)


@pytest.mark.parametrize("first", [[], ["error"]], ids=["at_once", "out_of_error"])
async def test_one_that_is_reset_while_it_is_away_can_be_brought_back(
    away: Moving, first: list[str]
) -> None:
    for state in [*first, "active"]:
        reset = {"state": state}
        assert await act(away, "os-resetState", reset, user="admin") == 202
        wanted = "ERROR" if state == "error" else "SHELVED_OFFLOADED"
        assert (await show(away))["status"] == wanted
    await is_away(away)
    assert await away.cloud.complaints() == []
    assert await act(away, "unshelve") == 202
    await is_back(away)


async def test_without_room_it_stays_away(away: Moving) -> None:
    for host in HOSTS:
        await force_down(away.cloud, host, down=True)
    assert await act(away, "unshelve") == 202
    await is_away(away)
    assert (await away.cloud.actions(away.server_id))[-1] == ("unshelve", "Error")


async def test_another_host_takes_it_where_the_first_one_cannot(away: Moving) -> None:
    asked = refuse(away.cloud, list(HOSTS), "/servers/", one=True)
    assert await act(away, "unshelve") == 202
    assert asked
    await is_back(away)
    assert away.source != asked[0]


async def test_where_no_host_can_have_it_it_stays_away(away: Moving) -> None:
    for host in HOSTS:
        knobs = away.cloud.hypervisor(host).knobs
        knobs.fail("define", NoCapacity("No room."), times=9)
    assert await act(away, "unshelve") == 202
    await is_away(away)


async def test_nobody_but_an_administrator_takes_a_volume_from_one_that_is_away(
    away: Moving,
) -> None:
    volume_id = away.volumes[1]
    path = f"/volume/v3/attachments/{await attachment_of(away, volume_id)}"
    answer = await away.cloud.ask("DELETE", path, version="3.67")
    assert answer.status == 409, answer.text
    for user, action in (("member", "os-detach"), ("admin", "os-force_delete")):
        path, body = f"/volume/v3/volumes/{volume_id}/action", {action: dict[str, str]()}
        answer = await away.cloud.ask("POST", path, body, version="3.67", user=user)
        assert answer.status in {400, 409}, answer.text
    await is_away(away)


@pytest.mark.parametrize("which", ["root", "other"])
async def test_a_volume_that_an_administrator_deleted_meanwhile_is_forgotten(
    away: Moving, which: str
) -> None:
    gone = away.volumes.pop(0 if which == "root" else 1)
    kept_by = await attachment_of(away, gone)
    await away.cloud.volume_api("DELETE", f"/attachments/{kept_by}", user="admin")
    await away.cloud.volume_api("DELETE", f"/volumes/{gone}", user="admin")
    await away.cloud.settle()
    assert await act(away, "unshelve") == 202
    await is_away(away)
    assert (await away.cloud.actions(away.server_id))[-1] == ("unshelve", "Error")
    if which == "root":
        assert await act(away, "unshelve") == 409
    else:
        assert await act(away, "unshelve") == 202
        await is_back(away)


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "action", ["shelve", "shelveOffload", "reboot", "os-start", "os-stop", "pause", "migrate"]
)
async def test_what_is_away_is_not_acted_on(away: Moving, action: str) -> None:
    value = {"type": "HARD"} if action == "reboot" else None
    assert await act(away, action, value, user="admin") == 409
    await is_away(away)


async def test_what_is_there_is_not_brought_back(moving: Moving) -> None:
    assert await act(moving, "unshelve") == 409
    assert await act(moving, "shelveOffload", user="admin") == 409
    assert await act(moving, "shelveOffload") == 403
    await moving.stays_whole()


async def test_one_that_is_locked_is_refused(moving: Moving) -> None:
    assert await act(moving, "lock", version="2.1") == 202
    assert await act(moving, "shelve") == 409
    await moving.stays_whole()


# -- volumes of one that is away ---------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.20", LATEST, "2.101"])
async def test_a_volume_is_attached_to_one_that_is_away_and_comes_along(
    away: Moving, version: str
) -> None:
    volume_id = await away.cloud.make_volume()
    answer = await away.cloud.attach(away.server_id, volume_id, version=version)
    assert answer.status == (202 if version == "2.101" else 200), answer.text
    await away.cloud.settle()
    assert await away.cloud.volume_status(volume_id) == "in-use"
    path = f"/servers/{away.server_id}/os-volume_attachments/{volume_id}"
    shown = (await away.cloud.ask("GET", path)).body["volumeAttachment"]
    assert "device" not in shown
    assert (await away.cloud.actions(away.server_id))[-1] == ("attach_volume", None)
    assert await act(away, "unshelve") == 202
    away.volumes.append(volume_id)
    await is_back(away)
    shown = (await away.cloud.ask("GET", path)).body["volumeAttachment"]
    assert shown["device"].startswith("/dev/vd")


async def test_a_snapshot_is_taken_of_a_volume_that_was_attached_meanwhile(away: Moving) -> None:
    volume_id = await away.cloud.make_volume()
    await away.cloud.attach(away.server_id, volume_id, version=LATEST)
    await away.cloud.settle()
    body = {"snapshot": {"volume_id": volume_id}}
    made = await away.cloud.volume_api("POST", "/snapshots", body)
    await away.cloud.settle()
    path = f"/snapshots/{made['snapshot']['id']}"
    shown = await away.cloud.volume_api("GET", path)
    assert shown["snapshot"]["status"] == "available"
    assert await act(away, "unshelve") == 202
    away.volumes.append(volume_id)
    await is_back(away)
    await away.cloud.volume_api("DELETE", path)
    await away.cloud.settle()
    gone = await away.cloud.ask("GET", f"/volume/v3{path}", version="3.67")
    assert gone.status == 404


async def test_a_volume_is_detached_from_one_that_is_away(away: Moving) -> None:
    gone = away.volumes.pop()
    assert (await away.cloud.detach(away.server_id, gone, version="2.19")).status == 409
    assert (await away.cloud.detach(away.server_id, gone, version="2.20")).status == 202
    await away.cloud.settle()
    assert await away.cloud.volume_status(gone) == "available"
    await is_away(away)
    assert await act(away, "unshelve") == 202
    await is_back(away)


async def test_its_root_volume_stays(away: Moving) -> None:
    answer = await away.cloud.detach(away.server_id, away.volumes[0], version="2.20")
    assert answer.status == 400
    await is_away(away)


async def test_a_volume_that_cannot_be_reserved_is_refused_and_leaves_no_trace(
    away: Moving,
) -> None:
    other = await server_that_moves(away.cloud)
    answer = await away.cloud.attach(away.server_id, other.volumes[1], version=LATEST)
    assert answer.status == 400
    assert await away.attachments() == 2
    assert len(await away.cloud.attachments(away.server_id)) == 2


@pytest.mark.parametrize("what", ["tag", "multiattach"])
async def test_what_only_a_host_can_promise_is_refused(away: Moving, what: str) -> None:
    cloud = away.cloud
    shared = what == "multiattach"
    volume_id = await (cloud.make_shared_volume() if shared else cloud.make_volume())
    more = {} if shared else {"tag": "t"}
    answer = await cloud.attach(away.server_id, volume_id, version=LATEST, more=more)
    assert answer.status == 400
    assert "unshelve the server" in answer.text
    assert await cloud.volume_status(volume_id) == "available"
