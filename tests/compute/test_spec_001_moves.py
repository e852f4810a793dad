"""What specs 001 says of live migration, sentence by sentence: each test names its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.agent_api.transport import Forward, Request, Response
from mooring.clients import transport
from mooring.errors import Conflict, Unavailable
from tests.compute.cloud import ComputeCloud
from tests.compute.listening import Listener
from tests.compute.moving import (
    Moving,
    begun,
    held,
    moving_server,
    named,
    server_that_moves,
    writers,
)
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2")


@pytest.fixture
async def moving(keeper: Keeper) -> AsyncGenerator[Moving]:
    async with moving_server(keeper, hosts=HOSTS) as made:
        yield made


async def test_during_a_move_there_are_two_attachments_of_one_instance_on_two_hosts(
    moving: Moving,
) -> None:
    """There is an attachment for both the source and destination host, although multi_attach=False.

    Both are associated with the same instance uuid; VM1 is active on host 1 and inactive on host 2.
    """
    settling = await begun(moving)
    both = [(moving.server_id, moving.source), (moving.server_id, moving.destination)]
    assert await held(moving) == {volume_id: sorted(both) for volume_id in moving.volumes}
    assert await moving.connected() == [2, 2]
    assert await moving.states() == ["running", "prelaunched"]
    moving.cloud.hypervisor(moving.source).knobs.release("send_memory")
    await settling


async def test_after_success_only_the_destination_s_attachment_is_left(moving: Moving) -> None:
    """Should it succeed, we delete attachment 1 and are left with just attachment 2."""
    before = await named(moving)
    await moving.move()
    after = await named(moving)
    assert not {*before.values()} & {*after.values()}
    there = [(moving.server_id, moving.destination)]
    assert await held(moving) == dict.fromkeys(moving.volumes, there)
    for attachment_id in before.values():
        path = f"/volume/v3/attachments/{attachment_id}"
        answer = await moving.cloud.ask("GET", path, user="admin", version="3.67")
        assert answer.status == 404


async def test_after_a_roll_back_only_the_source_s_attachment_is_left(moving: Moving) -> None:
    """If the rollback succeeds we are back to one attachment again, in this case attachment 1."""
    before = await named(moving)
    moving.cloud.hypervisor(moving.source).knobs.fail("send_memory", Conflict("It broke off."))
    await moving.move()
    assert await named(moving) == before
    here = [(moving.server_id, moving.source)]
    assert await held(moving) == dict.fromkeys(moving.volumes, here)


async def test_a_failure_with_a_clean_roll_back_puts_the_migration_into_error(
    moving: Moving,
) -> None:
    """We also put the migration into the error state, as even if a failure had a clean rollback."""
    moving.cloud.hypervisor(moving.source).knobs.fail("send_memory", Conflict("It broke off."))
    await moving.move()
    await moving.stays_whole()
    assert await moving.status() == "error"


async def test_a_source_that_fails_to_disconnect_keeps_its_attachment(moving: Moving) -> None:
    """If source os-brick disconnect fails, ERROR, the attachment not deleted, the migration error.

    What is kept is attachment 1; the server's block devices name attachment 2 by then.
    """
    before = await named(moving)
    moving.cloud.silent = ("DELETE", "/connections/")
    await moving.move()
    server = await moving.cloud.server(moving.server_id)
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ERROR", moving.destination)
    assert await moving.status() == "error"
    both = sorted((moving.server_id, host) for host in (moving.source, moving.destination))
    assert await held(moving) == dict.fromkeys(moving.volumes, both)
    assert not {*before.values()} & {*(await named(moving)).values()}
    moving.cloud.silent = None


async def test_a_destination_that_fails_to_disconnect_keeps_its_attachment(moving: Moving) -> None:
    """On roll-back: if success delete attachment 2, otherwise put the instance into ERROR.

    The server's block devices name attachment 1 again.
    """
    before = await named(moving)
    moving.cloud.hypervisor(moving.source).knobs.fail("send_memory", Conflict("It broke off."))
    moving.cloud.silent = ("DELETE", "/connections/")
    await moving.move()
    server = await moving.cloud.server(moving.server_id)
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ERROR", moving.source)
    assert await moving.status() == "error"
    both = sorted((moving.server_id, host) for host in (moving.source, moving.destination))
    assert await held(moving) == dict.fromkeys(moving.volumes, both)
    assert await named(moving) == before
    moving.cloud.silent = None


@pytest.mark.parametrize("lets_go", [True, False])
async def test_an_abort_leaves_the_source_s_attachment_and_the_other_where_it_is_not_let_go(
    moving: Moving, lets_go: bool
) -> None:
    """If live-migration rolls back due to an abort or similar: (destination) disconnect.

    If success, delete the attachment, otherwise put the instance into an ERROR state.
    """
    before = await named(moving)
    settling = await begun(moving)
    (shown,) = await moving.under_way()
    moving.cloud.silent = None if lets_go else ("DELETE", "/connections/")
    assert (await moving.ask_of("DELETE", shown["id"])).status == 202
    await settling
    server = await moving.cloud.server(moving.server_id)
    status, ended = ("ACTIVE", "cancelled") if lets_go else ("ERROR", "error")
    assert (server["status"], await moving.status()) == (status, ended)
    assert await moving.host() == moving.source
    kept = [moving.source] if lets_go else [moving.source, moving.destination]
    there = sorted((moving.server_id, host) for host in kept)
    assert await held(moving) == dict.fromkeys(moving.volumes, there)
    assert await named(moving) == before
    moving.cloud.silent = None


@pytest.mark.parametrize("stays", [True, False])
async def test_of_two_volumes_that_a_host_is_to_leave_the_one_that_it_keeps_has_its_attachment(
    moving: Moving, stays: bool
) -> None:
    """We do this to signal to the operator that something needs manually fixing.

    Of two volumes that are left the second is kept: the first one's attachment is gone.
    """
    if stays:
        moving.cloud.hypervisor(moving.source).knobs.fail("send_memory", Conflict("It broke off."))
    deliver, let_go = moving.cloud.deliver_to_host, set[str]()

    async def keep_second(request: Request, forward: Forward) -> Response:
        path = request.target.partition("?")[0]
        if request.method == "DELETE" and path.startswith("/connections/"):
            if let_go and path not in let_go:
                raise Unavailable("It stays.")
            let_go.add(path)
        return await deliver(request, forward)

    moving.cloud.deliver_to_host = keep_second
    await moving.move()
    moving.cloud.deliver_to_host = deliver
    server = await moving.cloud.server(moving.server_id)
    assert (server["status"], await moving.status()) == ("ERROR", "error")
    has, other = (moving.source, moving.destination)[:: 1 if stays else -1]
    assert server["OS-EXT-SRV-ATTR:host"] == has
    assert sorted((await held(moving)).values(), key=len) == [
        [(moving.server_id, has)],
        sorted((moving.server_id, host) for host in (has, other)),
    ]


@pytest.fixture
async def light(keeper: Keeper) -> AsyncGenerator[Moving]:
    """A server with its root volume alone."""
    async with moving_server(keeper, hosts=HOSTS, volumes=1) as made:
        yield made


async def test_a_move_that_succeeds_calls_in_the_order_of_the_specification(light: Moving) -> None:
    """(destination) connector, new attachment; attach the backend; (source) kicks off.

    Then (source) disconnect, and only then delete the attachment.
    """
    listener = Listener(light.cloud)
    await light.move()
    assert listener.heard == [
        "POST attachment with connector",
        f"{light.destination}: PUT connections",
        "POST attachment complete",
        f"{light.source}: PUT departure",
        f"{light.source}: DELETE connections",
        "DELETE attachment",
    ]


async def test_a_move_that_rolls_back_calls_in_the_order_of_the_specification(
    light: Moving,
) -> None:
    """(destination) call os-brick to disconnect; if success, delete the attachment."""
    listener = Listener(light.cloud)
    light.cloud.hypervisor(light.source).knobs.fail("send_memory", Conflict("It broke off."))
    await light.move()
    assert listener.heard[4:] == [f"{light.destination}: DELETE connections", "DELETE attachment"]


async def test_a_connection_that_another_server_uses_stays_at_the_source(tmp_path: Path) -> None:
    """Take care when removing a connection: not removing an in use connection too early."""
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        shared = await cloud.make_shared_volume()
        both = [await server_that_moves(cloud, volumes=1) for _ in range(2)]
        stays, goes = both
        if stays.source != goes.source:
            assert await goes.migrate(host=stays.source) == 202
            await cloud.settle()
        for one in both:
            assert (await cloud.attach(one.server_id, shared, version="2.60")).status == 200
            await cloud.settle()
        assert await goes.migrate() == 202
        await cloud.settle()
        assert await goes.host() != await stays.host()
        assert shared in await cloud.connections(stays.source)
        assert shared in await cloud.disks(stays.server_id, stays.source)
        assert await writers(cloud, shared) == sorted([stays.source, await goes.host()])
        assert await cloud.complaints() == []


@pytest.mark.parametrize("action", ["reboot", "rebuild"])
async def test_connection_data_is_fetched_by_the_destination_s_attachment_from_then_on(
    moving: Moving, action: str
) -> None:
    """Any time we need the connection_info we fetch that from Cinder, by the attachment_id."""
    await moving.move()
    ids = {*(await named(moving)).values()}
    asked: list[str] = []

    async def note(request: transport.Request, forward: transport.Forward) -> transport.Response:
        if request.method == "GET" and "/attachments/" in request.path:
            asked.append(request.path.rpartition("/")[2])
        return await forward(request)

    moving.cloud.deliver = note
    # Its root is a volume, whose content goes with a new image only.
    value = {"reboot": {"type": "HARD"}, "rebuild": {"imageRef": moving.cloud.image_id}}[action]
    version = {"reboot": "2.90", "rebuild": "2.93"}[action]
    assert await moving.cloud.act(moving.server_id, action, value, version=version) == 202
    await moving.cloud.settle()
    now = {*(await named(moving)).values()}
    # A rebuild from an image reserves the root volume anew, by another attachment.
    assert len(now & ids) == {"reboot": 2, "rebuild": 1}[action]
    assert {*asked} == now
    assert await moving.states() == ["absent", "running"]
    assert await moving.cloud.complaints() == []


async def test_a_volume_is_detached_after_a_move_by_the_destination_s_attachment(
    moving: Moving,
) -> None:
    """If attachment_id is set in the block device, we use the new detach flow."""
    await moving.move()
    volume_id = moving.volumes[-1]
    assert (await moving.cloud.detach(moving.server_id, volume_id)).status == 202
    await moving.cloud.settle()
    assert await moving.cloud.volume_status(volume_id) == "available"
    assert (await moving.connected(), await moving.attachments()) == ([0, 1], 1)


async def test_a_volume_of_the_old_calls_has_an_attachment_at_the_destination(
    light: Moving,
) -> None:
    """New flow for the destination; the source ends the old connection by the old calls."""
    volume_id = await light.cloud.make_volume()
    await light.cloud.make_legacy(light.server_id, volume_id, light.source)
    asked: list[str] = []

    async def note(request: transport.Request, forward: transport.Forward) -> transport.Response:
        if request.method == "POST" and f"/volumes/{volume_id}/action" in request.path:
            asked.append(request.content.decode().split('"')[1])
        return await forward(request)

    light.cloud.deliver = note
    await light.move()
    assert asked == ["os-terminate_connection", "os-detach"]
    light.volumes.append(volume_id)
    assert await held(light) == {
        one: [(light.server_id, light.destination)] for one in light.volumes
    }


async def test_nobody_deletes_either_attachment_of_a_move_by_hand(moving: Moving) -> None:
    """The delete guard: a user without a service token ends no export that a move needs."""
    settling = await begun(moving)
    ids = await moving.cloud.compute.volumes.attachments(None, server_id=moving.server_id)
    assert len(ids) == 4
    for one in ids:
        path = f"/volume/v3/attachments/{one.id}"
        answer = await moving.cloud.ask("DELETE", path, version="3.67")
        assert answer.status == 409, answer.text
    moving.cloud.hypervisor(moving.source).knobs.release("send_memory")
    await settling
    assert (await moving.status(), await moving.host()) == ("completed", moving.destination)
