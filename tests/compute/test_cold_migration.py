"""Servers that move while they are off, and servers that get another size (specs 001)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.agent_api.transport import Forward, Request, Response
from mooring.compute.hosts.loops import watch_hosts
from mooring.compute.moves.loops import confirm_resizes
from mooring.errors import Conflict, Unavailable
from tests.compute.extending import GIB
from tests.compute.late import comes_to
from tests.compute.moving import Moving, moving_server
from tests.compute.verifying import (
    ask,
    force_down,
    is_confirmed,
    is_to_be_verified,
    migrate,
    show,
)
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2")


@pytest.fixture
async def moving(keeper: Keeper) -> AsyncGenerator[Moving]:
    async with moving_server(keeper, hosts=HOSTS) as made:
        yield made


async def test_a_server_moves_and_is_confirmed(moving: Moving) -> None:
    await migrate(moving)
    await is_to_be_verified(moving)
    assert await ask(moving, "confirmResize") == 204
    await is_confirmed(moving)
    assert (await show(moving))["status"] == "ACTIVE"
    done = await moving.cloud.actions(moving.server_id)
    assert done[-2:] == [("migrate", None), ("confirmResize", None)]
    for volume_id in moving.volumes:
        assert await moving.cloud.volume_status(volume_id) == "in-use"


async def test_a_server_moves_and_is_brought_back(moving: Moving) -> None:
    await migrate(moving, {"host": "host2" if moving.source == "host1" else "host1"})
    await is_to_be_verified(moving)
    assert await ask(moving, "revertResize") == 202
    await moving.stays_whole()
    assert await moving.status() == "reverted"


async def test_a_stopped_server_is_left_stopped(moving: Moving) -> None:
    assert await ask(moving, "os-stop") == 202
    await migrate(moving)
    await is_to_be_verified(moving, "stopped")
    assert await ask(moving, "revertResize") == 202
    assert (await show(moving))["status"] == "SHUTOFF"
    assert await moving.connected() == [2, 0]
    await migrate(moving)
    assert await ask(moving, "confirmResize") == 204
    await is_confirmed(moving, "stopped")
    assert (await show(moving))["status"] == "SHUTOFF"


async def test_a_migration_is_listed(moving: Moving) -> None:
    await migrate(moving)
    answer = await moving.cloud.ask("GET", "/os-migrations", user="admin", version="2.59")
    (found,) = answer.body["migrations"]
    assert (found["migration_type"], found["status"]) == ("migration", "finished")
    assert (found["source_compute"], found["dest_compute"]) == (moving.source, moving.destination)
    assert await moving.under_way() == []


# -- what fails --------------------------------------------------------------------------------


async def stayed(moving: Moving) -> None:
    """See that a move came to nothing, and left a trace."""
    await moving.stays_whole()
    assert await moving.status() == "error"
    assert ("migrate", "Error") in await moving.cloud.actions(moving.server_id)


@pytest.mark.parametrize("point", ["define", "power_on"])
async def test_a_guest_that_does_not_start_there_goes_on_where_it_was(
    moving: Moving, point: str
) -> None:
    moving.cloud.hypervisor(moving.destination).knobs.fail(point, Conflict("It will not start."))
    await migrate(moving)
    await stayed(moving)


async def test_what_cannot_be_connected_there_stops_no_guest(moving: Moving) -> None:
    moving.cloud.silent = ("PUT", "/connections/")
    await migrate(moving)
    moving.cloud.silent = None
    await stayed(moving)
    ledger = moving.cloud.hypervisor(moving.source).ledger()
    assert all(one.until is None for one in ledger)


async def test_a_source_that_does_not_let_go_leaves_the_server_in_error_once_confirmed(
    moving: Moving,
) -> None:
    """Spec 001: failures with disconnect on the source host: ERROR, the attachment is kept."""
    await migrate(moving)
    moving.cloud.silent = ("DELETE", "/connections/")
    assert await ask(moving, "confirmResize") == 204
    shown = await show(moving)
    assert shown["status"] == "ERROR"
    assert shown["fault"]["message"]
    assert await moving.host() == moving.destination
    assert await moving.states() == ["absent", "running"]
    assert (await moving.status(), await moving.attachments()) == ("error", 4)
    assert await moving.claims() == [set(), {moving.server_id}]
    moving.cloud.silent = None
    assert (await moving.cloud.ask("DELETE", f"/servers/{moving.server_id}")).status == 204
    await moving.cloud.settle()
    assert (await moving.attachments(), await moving.connected()) == (0, [0, 0])


async def test_a_server_that_does_not_start_where_it_was_waits_on_for_its_users_word(
    moving: Moving,
) -> None:
    await migrate(moving)
    moving.cloud.hypervisor(moving.source).knobs.fail("define", Conflict("It will not start."))
    assert await ask(moving, "revertResize") == 202
    await is_to_be_verified(moving)
    assert ("revertResize", "Error") in await moving.cloud.actions(moving.server_id)
    assert await ask(moving, "revertResize") == 202
    await moving.stays_whole()


async def test_a_revert_waits_for_no_dead_host_that_keeps_a_volume_open(moving: Moving) -> None:
    await migrate(moving)
    cloud, dead = moving.cloud, moving.destination
    cloud.silent = ("PUT", f"/servers/{moving.server_id}/power")
    assert await cloud.act(moving.server_id, "revertResize", version="2.90") == 202
    await cloud.compute.sagas.settle(10.0)
    await force_down(cloud, dead, down=True)
    await cloud.settle()
    assert (await show(moving))["status"] == "VERIFY_RESIZE"
    assert ("revertResize", "Error") in await cloud.actions(moving.server_id)
    cloud.silent = None
    await cloud.look_at_hosts()
    await force_down(cloud, dead, down=False)
    await cloud.look_at_hosts()
    await cloud.settle()
    await is_to_be_verified(moving)


async def test_the_guest_writes_from_one_host_at_a_time(moving: Moving) -> None:
    await migrate(moving)
    assert await ask(moving, "revertResize") == 202
    spans = [
        one
        for host in (moving.source, moving.destination)
        for one in moving.cloud.hypervisor(host).ledger()
        if one.volume_id == moving.volumes[0]
    ]
    first, second, third = sorted(spans, key=lambda one: one.since)
    assert first.until is not None
    assert second.until is not None
    assert first.until <= second.since
    assert second.until <= third.since
    assert third.until is None


async def test_a_guest_that_went_back_is_not_started_by_a_call_that_comes_late(
    moving: Moving,
) -> None:
    lost: list[tuple[Request, Forward]] = []
    late = f"/servers/{moving.server_id}"

    async def lose(request: Request, forward: Forward) -> Response:
        at = request.headers["host"] == moving.destination
        if at and (request.method, request.target) == ("PUT", late):
            lost.append((request, forward))
            raise Unavailable("The host gave no answer.")
        return await forward(request)

    moving.cloud.deliver_to_host = lose
    assert await moving.cloud.act(moving.server_id, "migrate", user="admin", version="2.90") == 202
    await moving.cloud.compute.sagas.settle(5.0)
    state = {"state": "active"}
    assert await ask(moving, "os-resetState", state, user="admin") == 202
    for request, forward in lost:
        assert await comes_to(request, forward) >= 400
    assert await moving.host() == moving.source
    assert await moving.states() == ["stopped", "absent"]
    assert (await moving.connected(), await moving.attachments()) == ([2, 0], 2)
    assert await moving.claims() == [{moving.server_id}, set()]


async def test_a_server_whose_host_is_lost_while_its_guest_stops_is_in_error_there(
    moving: Moving,
) -> None:
    moving.cloud.silent = ("PUT", f"/servers/{moving.server_id}/power")
    assert await moving.cloud.act(moving.server_id, "migrate", user="admin", version="2.90") == 202
    await moving.cloud.compute.sagas.settle(5.0)
    await force_down(moving.cloud, moving.source, down=True)
    await moving.cloud.settle()
    shown = await show(moving)
    assert (shown["status"], await moving.host()) == ("ERROR", moving.source)
    assert "Reboot it hard" in shown["fault"]["message"]
    assert (await moving.status(), await moving.attachments()) == ("error", 2)
    assert await moving.claims() == [{moving.server_id}, set()]
    moving.cloud.silent = None
    await force_down(moving.cloud, moving.source, down=False)
    assert await ask(moving, "reboot", {"type": "HARD"}) == 202
    assert (await show(moving))["status"] == "ACTIVE"
    assert await moving.connected() == [2, 0]


# -- while it waits ----------------------------------------------------------------------------


async def test_until_its_user_s_word_no_volume_is_swapped_migrated_or_retyped(
    moving: Moving,
) -> None:
    """Swap, migrate and retype are 409 in VERIFY_RESIZE (design section 4)."""
    await migrate(moving)
    cloud, volume_id = moving.cloud, moving.volumes[1]
    new = await cloud.make_volume()
    await cloud.volume_api("POST", "/types", {"volume_type": {"name": "other"}}, user="admin")
    pool = (await cloud.volume_api("GET", f"/volumes/{volume_id}", user="admin"))["volume"][
        "os-vol-host-attr:host"
    ]
    actions = {
        "os-retype": {"new_type": "other", "migration_policy": "never"},
        "os-migrate_volume": {"host": pool.replace("#", "#not-")},
    }
    swap = {"volumeAttachment": {"volumeId": new}}
    path = f"/servers/{moving.server_id}/os-volume_attachments/{volume_id}"
    answers = [await cloud.ask("PUT", path, swap, user="admin", version="2.90")]
    for action, value in actions.items():
        path = f"/volume/v3/volumes/{volume_id}/action"
        answers.append(await cloud.ask("POST", path, {action: value}, user="admin"))
    assert [answer.status for answer in answers] == [409] * 3
    await is_to_be_verified(moving)
    assert await ask(moving, "confirmResize") == 204
    await is_confirmed(moving)
    retype = {"os-retype": actions["os-retype"]}
    assert (await cloud.ask("POST", path, retype, user="admin")).status == 202


async def test_a_volume_attached_meanwhile_is_at_one_host_and_goes_back_with_its_server(
    moving: Moving,
) -> None:
    """Design, cold migration: attaching makes one attachment, and revert makes the source's."""
    await migrate(moving)
    volume_id = await moving.cloud.make_volume()
    assert (await moving.cloud.attach(moving.server_id, volume_id)).status == 200
    await moving.cloud.settle()
    assert (await moving.attachments(), await moving.connected()) == (5, [2, 3])
    assert await ask(moving, "revertResize") == 202
    assert (await moving.attachments(), await moving.connected()) == (3, [3, 0])
    assert volume_id in await moving.cloud.disks(moving.server_id, moving.source)
    assert await moving.cloud.volume_status(volume_id) == "in-use"


@pytest.mark.parametrize("end", ["confirmResize", "revertResize"])
async def test_a_volume_detached_meanwhile_is_at_no_host(moving: Moving, end: str) -> None:
    """Design, cold migration: detach ends both."""
    await migrate(moving)
    path = f"/servers/{moving.server_id}/os-volume_attachments/{moving.volumes[1]}"
    assert (await moving.cloud.ask("DELETE", path)).status == 202
    await moving.cloud.settle()
    assert (await moving.attachments(), await moving.connected()) == (2, [1, 1])
    assert await moving.cloud.volume_status(moving.volumes[1]) == "available"
    await ask(moving, end)
    assert (await show(moving))["status"] == "ACTIVE"
    assert await moving.attachments() == 1


async def test_the_block_device_names_the_destinations_attachment(moving: Moving) -> None:
    path = f"/servers/{moving.server_id}/os-volume_attachments"
    before = (await moving.cloud.ask("GET", path, version="2.89")).body["volumeAttachments"]
    await migrate(moving)
    during = (await moving.cloud.ask("GET", path, version="2.89")).body["volumeAttachments"]
    assert {one["attachment_id"] for one in before} & {one["attachment_id"] for one in during} == (
        set()
    )
    assert await ask(moving, "revertResize") == 202
    assert (await moving.cloud.ask("GET", path, version="2.89")).body["volumeAttachments"] == before


async def test_a_volume_that_grew_meanwhile_is_as_large_where_its_server_goes_back(
    moving: Moving,
) -> None:
    """Spec 000: online extend; spec 001: the connection is fetched by the attachment's id."""
    await migrate(moving)
    volume_id = moving.volumes[1]
    body = {"os-extend": {"new_size": 2}}
    await moving.cloud.volume_api("POST", f"/volumes/{volume_id}/action", body)
    await moving.cloud.settle()
    assert await moving.cloud.volume_status(volume_id) == "in-use"
    # Time has passed for whoever waited.
    await moving.cloud.look_at_hosts()
    assert await ask(moving, "revertResize") == 202
    agent = moving.cloud.known_agents[moving.source]
    size = await agent.show_disk_size(moving.server_id, volume_id)
    assert (size.guest_bytes, size.image_bytes) == (2 * GIB, 2 * GIB)


async def test_a_server_is_deleted_at_both_hosts(moving: Moving) -> None:
    await migrate(moving)
    assert (await moving.cloud.ask("DELETE", f"/servers/{moving.server_id}")).status == 204
    await moving.cloud.settle()
    assert (await show(moving))["status"] == "gone"
    assert (await moving.states(), await moving.connected()) == (["absent"] * 2, [0, 0])
    assert (await moving.attachments(), await moving.claims()) == (0, [set(), set()])


async def test_a_deletion_that_fails_holds_no_room_where_the_server_might_have_gone_back_to(
    moving: Moving,
) -> None:
    await migrate(moving)
    moving.cloud.driver().knobs.fail("unexport", Conflict("The export is in use."), times=1)
    assert (await moving.cloud.ask("DELETE", f"/servers/{moving.server_id}")).status == 204
    await moving.cloud.settle()
    assert ((await show(moving))["status"], await moving.status()) == ("ERROR", "confirmed")
    assert await moving.claims() == [set(), {moving.server_id}]
    assert (await moving.cloud.ask("DELETE", f"/servers/{moving.server_id}")).status == 204
    await moving.cloud.settle()
    assert (await moving.attachments(), await moving.claims()) == (0, [set(), set()])
    assert (await moving.states(), await moving.connected()) == (["absent"] * 2, [0, 0])


async def test_a_server_that_is_reset_stays_where_it_is(moving: Moving) -> None:
    await migrate(moving)
    assert await ask(moving, "os-resetState", {"state": "active"}, user="admin") == 202
    await is_confirmed(moving)


@pytest.mark.parametrize(
    ("action", "value"),
    [
        ("reboot", {"type": "HARD"}),
        ("os-stop", None),
        ("migrate", None),
        ("resize", {"flavorRef": "2"}),
        ("os-migrateLive", {"host": None, "block_migration": False}),
    ],
)
async def test_what_upstream_refuses_meanwhile_is_refused(
    moving: Moving, action: str, value: Any
) -> None:
    await migrate(moving)
    assert await ask(moving, action, value, user="admin") == 409
    await is_to_be_verified(moving)


async def test_a_host_that_a_server_may_go_back_to_is_not_removed(moving: Moving) -> None:
    await migrate(moving)
    listed = await moving.cloud.ask("GET", "/os-services", user="admin", version="2.100")
    services = {one["host"]: one["id"] for one in listed.body["services"]}
    path = f"/os-services/{services[moving.source]}"
    answer = await moving.cloud.ask("DELETE", path, user="admin", version="2.100")
    assert answer.status == 409


async def test_a_server_whose_former_host_is_lost_is_confirmed(moving: Moving) -> None:
    await migrate(moving)
    await force_down(moving.cloud, moving.source, down=True)
    assert await ask(moving, "revertResize") == 409
    assert await ask(moving, "confirmResize") == 204
    assert ((await show(moving))["status"], await moving.attachments()) == ("ACTIVE", 2)


async def test_what_its_user_forgets_is_confirmed_after_the_window(moving: Moving) -> None:
    compute = moving.cloud.compute
    await migrate(moving)
    await confirm_resizes.confirm_once(compute)
    compute.settings = replace(compute.settings, resize_confirm_window=3600.0)
    await confirm_resizes.confirm_once(compute)
    await moving.cloud.settle()
    await is_to_be_verified(moving)
    moving.cloud.clock.advance(3600.0)
    await look(moving)
    await confirm_resizes.confirm_once(compute)
    await moving.cloud.settle()
    await is_confirmed(moving)


async def look(moving: Moving) -> None:
    """Let the hosts be looked at: they were up all the time."""
    for host in moving.cloud.hosts:
        await watch_hosts.look_at(moving.cloud.compute, host)
