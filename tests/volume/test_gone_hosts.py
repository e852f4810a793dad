"""What waits for a volume's host that is gone for good: an operator can end each of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from mooring.errors import Unavailable
from tests.volume.dock import IMAGE, Dock, connector
from tests.volume.test_snapshots import take, taken

pytestmark = pytest.mark.anyio
LONG_S = 8000.0
"""Enough for every step that may be given up to be given up."""


async def abort(dock: Dock) -> list[int]:
    """Insist, as an operator, that every operation there is ends; return the answers."""
    listed = (await dock.ask("GET", "/mooring/operations", who="admin")).json["operations"]
    paths = [f"/mooring/operations/{one['id']}/action" for one in listed]
    asked = [await dock.ask("POST", path, {"abort": None}, who="admin") for path in paths]
    await dock.engine.settle()
    return [answer.status for answer in asked]


async def unfinished(dock: Dock) -> list[str]:
    listed = (await dock.ask("GET", "/mooring/operations", who="admin")).json["operations"]
    return [one["name"] for one in listed]


@asynccontextmanager
async def dies_in(dock: Dock, point: str) -> AsyncGenerator[None]:
    """Let the host die in the call that the block makes, and give it all the time there is."""
    dock.storage.knobs.fail(point, Unavailable("The host has died."))
    yield
    await dock.engine.schedule.quiet()
    assert dock.storage.knobs.passed[point]
    dock.agents.remove("host1")
    await dock.engine.settle(LONG_S)


async def reset(dock: Dock, volume_id: str, status: str) -> None:
    """Give a volume a status, as an administrator does when an operation takes too long."""
    answer = await dock.act(volume_id, "os-reset_status", {"status": status}, who="admin")
    assert answer.status == 202
    await dock.engine.settle(LONG_S)


async def delete(dock: Dock, volume_id: str) -> None:
    """Delete a volume without its files."""
    assert (await dock.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await dock.engine.settle()
    assert await abort(dock) == [202]
    assert await dock.count_volumes() == 0
    assert await dock.complaints() == []


async def test_an_attachment_is_deleted_without_its_export(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = await dock.attach(volume_id)
    dock.agents.remove("host1")
    assert (await dock.drive(dock.detach(attachment_id))).status == 504
    assert await unfinished(dock) == ["volume.delete_attachment"]
    assert await abort(dock) == [202]
    assert await dock.attachments(volume_id) == {}
    assert await dock.status(volume_id) == "available"
    assert await dock.complaints() == []


async def test_an_export_of_the_old_calls_is_forgotten(dock: Dock) -> None:
    volume_id = await dock.make()
    body = {"connector": connector()}
    assert (await dock.act(volume_id, "os-initialize_connection", body)).status == 200
    dock.agents.remove("host1")
    answer = await dock.drive(dock.act(volume_id, "os-terminate_connection", body))
    assert answer.status == 504
    assert await unfinished(dock) == ["volume.end_legacy"]
    assert await abort(dock) == [202]
    assert await unfinished(dock) == []
    assert await dock.complaints() == []


async def test_a_volume_that_is_being_made_goes_by_a_reset(dock: Dock) -> None:
    async with dies_in(dock, "create"):
        body = {"volume": {"size": 1, "imageRef": IMAGE}}
        volume_id = (await dock.ask("POST", "/volumes", body)).json["volume"]["id"]
    assert await unfinished(dock) == ["volume.create_volume"]
    await reset(dock, volume_id, "error")
    assert await dock.status(volume_id) == "error"
    assert await unfinished(dock) == []
    await delete(dock, volume_id)


async def test_a_volume_that_is_being_reimaged_goes_by_a_reset(dock: Dock) -> None:
    volume_id = await dock.make(imageRef=IMAGE)
    how = {"version": "3.68", "who": "member"}
    async with dies_in(dock, "replace"):
        assert (await dock.act(volume_id, "os-reimage", {"image_id": IMAGE}, **how)).status == 202
    assert await unfinished(dock) == ["volume.reimage_volume"]
    await reset(dock, volume_id, "error")
    assert await dock.status(volume_id) == "error"
    assert await unfinished(dock) == []
    await delete(dock, volume_id)


async def test_snapshots_on_their_way_go_by_a_reset(dock: Dock) -> None:
    volume_id = await dock.make()
    kept = await taken(dock, volume_id)
    dock.agents.remove("host1")
    assert (await dock.ask("DELETE", f"/snapshots/{kept}")).status == 202
    assert (await take(dock, volume_id)).status == 202
    await dock.engine.settle(LONG_S)
    await reset(dock, volume_id, "available")
    assert await unfinished(dock) == []
    shown = (await dock.ask("GET", "/snapshots", who="admin")).json["snapshots"]
    assert {one["status"] for one in shown} <= {"available", "error", "error_deleting"}
    assert await dock.complaints() == []
