from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.errors import Invalid
from mooring.saga.engine import LOCK_WAIT_S
from tests.volume.dock import Dock, connector

pytestmark = pytest.mark.anyio


async def test_connecting_that_fails_leaves_the_reservation(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = (await dock.reserve(volume_id)).json["attachment"]["id"]
    dock.storage.knobs.fail("export", Invalid("No such host."))
    assert (await dock.connect(attachment_id)).status == 400
    assert await dock.attachments(volume_id) == {attachment_id: "reserved"}
    assert await dock.status(volume_id) == "reserved"
    assert await dock.exports() == set()
    assert (await dock.connect(attachment_id)).status == 200


async def test_the_same_connector_again_gives_the_same(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = (await dock.reserve(volume_id)).json["attachment"]["id"]
    first = await dock.connect(attachment_id)
    again = await dock.connect(attachment_id)
    assert (again.status, again.json) == (200, first.json)
    assert dock.storage.knobs.passed["export"] == 1


async def test_two_equal_connects_at_once_are_one(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = (await dock.reserve(volume_id)).json["attachment"]["id"]
    dock.storage.knobs.hold("export")
    both = [asyncio.create_task(dock.connect(attachment_id)) for _ in range(2)]
    while not dock.storage.knobs.passed.get("export"):
        await asyncio.wait(both, timeout=0.01)
    dock.storage.knobs.release("export")
    assert [(await task).status for task in both] == [200, 200]
    assert dock.storage.knobs.passed["export"] == 1


@pytest.mark.parametrize(
    "body", [{}, {"connector": {}}, {"connector": None}, {"connector": "host1"}, {"other": {}}]
)
async def test_connecting_needs_a_connector(dock: Dock, body: dict[str, Any]) -> None:
    volume_id = await dock.make()
    attachment_id = (await dock.reserve(volume_id)).json["attachment"]["id"]
    answer = await dock.ask("PUT", f"/attachments/{attachment_id}", {"attachment": body})
    assert answer.status == 400


async def test_a_connector_without_a_host_is_refused(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = (await dock.reserve(volume_id)).json["attachment"]["id"]
    body = {"attachment": {"connector": {"ip": "10.0.0.1"}}}
    answer = await dock.ask("PUT", f"/attachments/{attachment_id}", body)
    assert answer.status == 400


@pytest.mark.parametrize("status", ["error", "error_deleting"])
async def test_a_volume_in_error_is_not_connected(dock: Dock, status: str) -> None:
    volume_id = await dock.make()
    attachment_id = (await dock.reserve(volume_id)).json["attachment"]["id"]
    await dock.set(volume_id, status=status)
    assert (await dock.connect(attachment_id)).status == 409


async def test_a_second_connector_is_refused_while_another_is_connected(dock: Dock) -> None:
    volume_id = await dock.make()
    first = await dock.attach(volume_id)
    second = (await dock.reserve(volume_id)).json["attachment"]["id"]
    answer = await dock.connect(second, "host2")
    assert answer.status == 409
    assert "Duplicate connectors" in answer.fault
    # Live migration brings its connector with the POST instead.
    third = await dock.reserve(volume_id, connector=connector("host2"))
    assert third.status == 200
    assert await dock.status(volume_id) == "attaching"
    third_id = third.json["attachment"]["id"]
    assert (await dock.complete(third_id)).status == 204
    assert await dock.status(volume_id) == "in-use"
    assert (await dock.detach(first)).status == 200
    assert await dock.status(volume_id) == "in-use"
    assert await dock.exports() == {(volume_id, third_id)}


async def test_an_empty_one_is_connected_once_the_connected_one_is_gone(dock: Dock) -> None:
    volume_id = await dock.make()
    first = await dock.attach(volume_id)
    second = (await dock.reserve(volume_id)).json["attachment"]["id"]
    assert await dock.status(volume_id) == "in-use"
    left = await dock.detach(first)
    assert [row["id"] for row in left.json["attachments"]] == [second]
    assert await dock.status(volume_id) == "reserved"
    assert (await dock.connect(second, "host2")).status == 200
    assert await dock.status(volume_id) == "attaching"


async def test_a_connected_attachment_does_not_change_hosts(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = await dock.attach(volume_id)
    assert (await dock.connect(attachment_id, "host2")).status == 409
    assert await dock.status(volume_id) == "in-use"


async def test_deleting_ends_a_connect_that_is_under_way(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = (await dock.reserve(volume_id)).json["attachment"]["id"]
    dock.storage.knobs.hold("export")
    connecting = asyncio.create_task(dock.connect(attachment_id))
    while not dock.storage.knobs.passed.get("export"):
        await asyncio.wait([connecting], timeout=0.01)
    deleting = asyncio.create_task(dock.detach(attachment_id))
    await dock.until_pre_empted()
    dock.storage.knobs.release("export")
    assert (await deleting).status == 200
    assert (await connecting).status == 409
    assert await dock.status(volume_id) == "available"
    assert await dock.exports() == set()
    assert await dock.complaints() == []


async def test_deleting_that_waited_in_vain_may_be_tried_again(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = (await dock.reserve(volume_id)).json["attachment"]["id"]
    dock.storage.knobs.hold("export")
    dock.storage.knobs.hold("unexport")
    connecting = asyncio.create_task(dock.connect(attachment_id))
    while not dock.storage.knobs.passed.get("export"):
        await asyncio.wait([connecting], timeout=0.01)
    deleting = asyncio.create_task(dock.detach(attachment_id))
    await dock.until_pre_empted()
    await asyncio.wait([deleting], timeout=0.05)
    dock.clock.advance(LOCK_WAIT_S + 1.0)
    assert (await deleting).status == 503
    dock.storage.knobs.release("export")
    dock.storage.knobs.release("unexport")
    assert (await connecting).status == 409
    await dock.engine.settle()
    assert (await dock.detach(attachment_id)).status == 200
    assert await dock.attachments(volume_id) == {}
    assert await dock.complaints() == []


async def test_no_connection_data_is_written_in_the_clear(dock: Dock) -> None:
    volume_id = await dock.make()
    await dock.attach(volume_id)
    await dock.store.write(lambda tx: None)
    secret = f"simulated:fast/volume-{volume_id}".encode()
    files = sorted((dock.location / "databases").iterdir())
    assert files
    assert not any(secret in file.read_bytes() for file in files)
