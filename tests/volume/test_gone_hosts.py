"""What waits for a volume's host that is gone for good: an operator can end each of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from mooring.errors import Unavailable
from tests.volume.cloud import IMAGE, VolumeCloud, connector
from tests.volume.test_snapshots import take, taken

pytestmark = pytest.mark.anyio
LONG_S = 8000.0
"""Enough for every step that may be given up to be given up."""


async def abort(cloud: VolumeCloud) -> list[int]:
    """Insist, as an operator, that every operation there is ends; return the answers."""
    listed = (await cloud.ask("GET", "/mooring/operations", user="admin")).body["operations"]
    paths = [f"/mooring/operations/{one['id']}/action" for one in listed]
    asked = [await cloud.ask("POST", path, {"abort": None}, user="admin") for path in paths]
    await cloud.settle()
    return [answer.status for answer in asked]


async def unfinished(cloud: VolumeCloud) -> list[str]:
    listed = (await cloud.ask("GET", "/mooring/operations", user="admin")).body["operations"]
    return [one["name"] for one in listed]


@asynccontextmanager
async def dies_in(cloud: VolumeCloud, point: str) -> AsyncGenerator[None]:
    """Let the host die in the call that the block makes, and give it all the time there is."""
    cloud.storage.knobs.fail(point, Unavailable("The host has died."))
    yield
    await cloud.engine.schedule.quiet()
    assert cloud.storage.knobs.passed[point]
    cloud.known_agents.remove("host1")
    await cloud.settle(LONG_S)


async def reset(cloud: VolumeCloud, volume_id: str, status: str) -> None:
    """Give a volume a status, as an administrator does when an operation takes too long."""
    answer = await cloud.act(volume_id, "os-reset_status", {"status": status}, user="admin")
    assert answer.status == 202
    await cloud.settle(LONG_S)


async def delete(cloud: VolumeCloud, volume_id: str) -> None:
    """Delete a volume without its files."""
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await cloud.settle()
    assert await abort(cloud) == [202]
    assert await cloud.count_volumes() == 0
    assert await cloud.complaints() == []


async def test_an_attachment_is_deleted_without_its_export(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = await cloud.attach(volume_id)
    cloud.known_agents.remove("host1")
    assert (await cloud.drive(cloud.detach(attachment_id))).status == 504
    assert await unfinished(cloud) == ["volume.delete_attachment"]
    assert await abort(cloud) == [202]
    assert await cloud.attachments(volume_id) == {}
    assert await cloud.status(volume_id) == "available"
    assert await cloud.complaints() == []


async def test_an_export_of_the_old_calls_is_forgotten(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    body = {"connector": connector()}
    assert (await cloud.act(volume_id, "os-initialize_connection", body)).status == 200
    cloud.known_agents.remove("host1")
    answer = await cloud.drive(cloud.act(volume_id, "os-terminate_connection", body))
    assert answer.status == 504
    assert await unfinished(cloud) == ["volume.end_legacy"]
    assert await abort(cloud) == [202]
    assert await unfinished(cloud) == []
    assert await cloud.complaints() == []


async def test_a_volume_that_is_being_made_goes_by_a_reset(cloud: VolumeCloud) -> None:
    async with dies_in(cloud, "create"):
        body = {"volume": {"size": 1, "imageRef": IMAGE}}
        volume_id = (await cloud.ask("POST", "/volumes", body)).body["volume"]["id"]
    assert await unfinished(cloud) == ["volume.create_volume"]
    await reset(cloud, volume_id, "error")
    assert await cloud.status(volume_id) == "error"
    assert await unfinished(cloud) == []
    await delete(cloud, volume_id)


async def test_a_volume_that_is_being_reimaged_goes_by_a_reset(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make(imageRef=IMAGE)
    how = {"version": "3.68", "user": "member"}
    async with dies_in(cloud, "replace"):
        assert (await cloud.act(volume_id, "os-reimage", {"image_id": IMAGE}, **how)).status == 202
    assert await unfinished(cloud) == ["volume.reimage_volume"]
    await reset(cloud, volume_id, "error")
    assert await cloud.status(volume_id) == "error"
    # Nobody else says that the host copies no more.
    assert await unfinished(cloud) == ["volume.reset_status"]
    assert await abort(cloud) == [202]
    assert await unfinished(cloud) == []
    await delete(cloud, volume_id)


async def test_snapshots_on_their_way_go_by_a_reset(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    kept = await taken(cloud, volume_id)
    cloud.known_agents.remove("host1")
    assert (await cloud.ask("DELETE", f"/snapshots/{kept}")).status == 202
    assert (await take(cloud, volume_id)).status == 202
    await cloud.settle(LONG_S)
    await reset(cloud, volume_id, "available")
    assert await unfinished(cloud) == []
    shown = (await cloud.ask("GET", "/snapshots", user="admin")).body["snapshots"]
    assert {one["status"] for one in shown} <= {"available", "error", "error_deleting"}
    assert await cloud.complaints() == []
