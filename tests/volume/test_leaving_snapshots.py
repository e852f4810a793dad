"""Snapshots that a backup or an image had taken, and that could not go when nobody needed them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from mooring.clients.transport import Forward, Request, Response
from mooring.errors import Conflict
from mooring.saga import ownership
from mooring.saga.laws import Crash
from mooring.saga.tables import SagaRow
from tests.cloud import SimulatedCloud
from tests.compute import picturing
from tests.volume.backing_up import SNAPSHOTS, backup, begun, messages, snapshot_of, storage
from tests.volume.cloud import connector
from tests.volume.test_forced_backups import a_minute, attached, snapshots

pytestmark = pytest.mark.anyio
KEPT = "VOLUME_VOLUME_SNAPSHOT_010_001"
VOLUMES, ATTACHMENTS = "/volume/v3/volumes", "/volume/v3/attachments"


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path, database=database) as opened:
        yield opened


async def say_down(cloud: SimulatedCloud, *, is_down: bool) -> None:
    """Say that the server's host is down, or that it is back."""
    path = "/compute/v2.1/os-services/force-down"
    body = {"host": "h1", "binary": "nova-compute", "forced_down": is_down}
    answer = await cloud.ask("PUT", path, body, user="admin", version="2.11")
    assert answer.status == 200, answer.text


async def take_over(cloud: SimulatedCloud) -> None:
    """Let the leases of a dead predecessor run out, as 5 s without renewal would."""
    past = cloud.clock.now() - timedelta(days=3650)
    for name, engine in cloud.cloud.engines.items():
        store = cloud.cloud.stores[name]
        if ownership.is_shared(store):
            ended = update(SagaRow).values(lease_until=past)
            await store.write(lambda tx, it=ended: tx.execute(it) and None)
            await engine.schedule.share()


async def look(cloud: SimulatedCloud, *, after_s: float) -> None:
    """Let time pass, and the services do what they do on their own account."""
    cloud.clock.advance(after_s)
    await cloud.look_at_hosts()
    await cloud.look_around()
    await cloud.settle()


async def left_by_a_backup(cloud: SimulatedCloud) -> str:
    """Return a backup whose snapshot could not go, as the server's host is down since."""
    volume_id = await attached(cloud)
    storage(cloud).knobs.hold("capture")
    backup_id = await begun(cloud, volume_id, force=True)
    await a_minute(cloud)
    await storage(cloud).knobs.held("capture")
    await say_down(cloud, is_down=True)
    storage(cloud).knobs.release("capture")
    await cloud.settle()
    assert (await backup(cloud, backup_id))["status"] == "available"
    assert await snapshots(cloud) == ["available"]
    return volume_id


async def test_a_backup_s_goes_once_the_host_is_back(cloud: SimulatedCloud) -> None:
    await left_by_a_backup(cloud)
    assert (await messages(cloud)).count(KEPT) == 1
    for _ in range(4):
        await look(cloud, after_s=3600.0)
        assert await cloud.complaints() == []
    for _ in range(4):
        await look(cloud, after_s=21600.0)
        assert await snapshots(cloud) == ["available"]
    # Told as long as it is there, and by one message.
    assert (await messages(cloud)).count(KEPT) == 1
    [complaint] = await cloud.complaints()
    assert "is to go since" in complaint
    await say_down(cloud, is_down=False)
    await look(cloud, after_s=1000.0)
    assert await snapshots(cloud) == []
    assert await cloud.complaints() == []


async def test_it_is_not_tried_without_a_rest(cloud: SimulatedCloud) -> None:
    await left_by_a_backup(cloud)
    await look(cloud, after_s=86400.0)
    await say_down(cloud, is_down=False)
    await look(cloud, after_s=600.0)
    assert await snapshots(cloud) == ["available"]
    await look(cloud, after_s=600.0)
    assert await snapshots(cloud) == []


@pytest.mark.parametrize("point", ["check_volume", "merge_by_guest", "forget_snapshot"])
async def test_it_goes_whatever_dies_meanwhile(cloud: SimulatedCloud, point: str) -> None:
    await left_by_a_backup(cloud)
    await cloud.restart()
    await take_over(cloud)
    await say_down(cloud, is_down=False)
    cloud.probe.arm(f"volume.delete_snapshot/{point}/forward/before", Crash)
    cloud.clock.advance(1000.0)
    await cloud.look_at_hosts()
    await cloud.look_around()
    for _ in range(20):
        if not cloud.probe.crashed:
            await cloud.pass_time(5.0)
    assert cloud.probe.crashed
    await cloud.restart()
    await take_over(cloud)
    for _ in range(3):
        # What goes on may meet a host that nobody has seen for so long, and is begun anew.
        await look(cloud, after_s=1000.0)
    assert await snapshots(cloud) == []
    assert await cloud.complaints() == []


async def test_what_a_user_took_stays(cloud: SimulatedCloud) -> None:
    volume_id = await attached(cloud)
    snapshot_id = await snapshot_of(cloud, volume_id)
    await say_down(cloud, is_down=True)
    assert (await cloud.ask("DELETE", f"{SNAPSHOTS}/{snapshot_id}")).status == 202
    await cloud.settle()
    await say_down(cloud, is_down=False)
    for _ in range(3):
        await look(cloud, after_s=1000.0)
    assert await snapshots(cloud) == ["available"]
    assert await cloud.complaints() == []


async def refuse_image(cloud: SimulatedCloud, before: Callable[[str], Awaitable[None]]) -> str:
    """Let an image of a server fail, and something happen before its snapshots are to go.

    `before` is told the first snapshot; that one's id is returned.
    """
    server_id = await picturing.make_booted(cloud, data_gib=1)
    forward, told = cloud.deliver, list[str]()

    async def deliver(request: Request, onward: Forward) -> Response:
        if not told and request.method == "DELETE" and "/snapshots/" in request.path:
            told.append(request.path.rpartition("/")[2])
            await before(told[0])
        return await forward(request, onward)

    cloud.deliver = deliver
    point = "compute.picture_volumes/activate_image/forward/before"
    cloud.probe.arm(point, lambda: Conflict("The test says no."))
    assert (await picturing.picture(cloud, server_id)).status == 202
    await cloud.settle()
    return told[0]


async def test_those_of_an_image_that_failed_go_too(cloud: SimulatedCloud) -> None:
    async def fall_silent(snapshot_id: str) -> None:
        del snapshot_id
        await say_down(cloud, is_down=True)

    await refuse_image(cloud, fall_silent)
    assert await snapshots(cloud) == ["available"] * 2
    await say_down(cloud, is_down=False)
    await look(cloud, after_s=1000.0)
    assert await snapshots(cloud) == []
    assert await cloud.complaints() == []


async def test_one_that_was_given_another_status_by_hand_goes_once_that_has_passed(
    cloud: SimulatedCloud,
) -> None:
    async def reset(snapshot_id: str, status: str = "restoring") -> None:
        path, body = f"{SNAPSHOTS}/{snapshot_id}/action", {"os-reset_status": {"status": status}}
        assert (await cloud.ask("POST", path, body, user="admin")).status == 202

    snapshot_id = await refuse_image(cloud, reset)
    assert await cloud.unfinished() == []
    await look(cloud, after_s=1000.0)
    assert await snapshots(cloud) == ["restoring"]
    await reset(snapshot_id, "available")
    await look(cloud, after_s=1000.0)
    assert await snapshots(cloud) == []
    assert await cloud.complaints() == []


async def test_one_whose_volume_a_host_has_for_no_server_goes_once_that_has_passed(
    cloud: SimulatedCloud,
) -> None:
    made = list[str]()

    async def take(snapshot_id: str) -> None:
        shown = (await cloud.ask("GET", f"{SNAPSHOTS}/{snapshot_id}")).key("snapshot")
        volume = (await cloud.ask("GET", f"{VOLUMES}/{shown['volume_id']}")).key("volume")
        [own] = volume["attachments"]
        path = f"{picturing.SERVERS}/{own['server_id']}/os-volume_attachments/{volume['id']}"
        assert (await cloud.ask("DELETE", path)).status == 202
        while (await cloud.ask("GET", f"{VOLUMES}/{volume['id']}")).key("volume")["attachments"]:
            await cloud.pass_time(1.0)
        body = {"volume_uuid": volume["id"], "connector": connector("h1")}
        answer = await cloud.ask("POST", ATTACHMENTS, {"attachment": body}, version="3.54")
        assert answer.status == 200, answer.text
        made.append(answer.key("attachment")["id"])
        path = f"{ATTACHMENTS}/{made[0]}/action"
        answer = await cloud.ask("POST", path, {"os-complete": None}, version="3.54")
        assert answer.status == 204, answer.text

    await refuse_image(cloud, take)
    assert await cloud.unfinished() == []
    await look(cloud, after_s=1000.0)
    assert await snapshots(cloud) == ["available"]
    assert (await cloud.ask("DELETE", f"{ATTACHMENTS}/{made[0]}", version="3.54")).status == 200
    await look(cloud, after_s=1000.0)
    assert await snapshots(cloud) == []
    assert await cloud.complaints() == []
