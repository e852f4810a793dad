from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.errors import Invalid
from mooring.saga.engine import LOCK_WAIT_S
from mooring.volume.attachments import reserving
from tests.volume.cloud import VolumeCloud, connector

pytestmark = pytest.mark.anyio


async def test_connecting_that_fails_leaves_the_reservation(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    cloud.storage.knobs.fail("export", Invalid("No such host."))
    assert (await cloud.connect(attachment_id)).status == 400
    assert await cloud.attachments(volume_id) == {attachment_id: "reserved"}
    assert await cloud.status(volume_id) == "reserved"
    assert await cloud.exports() == set()
    assert (await cloud.connect(attachment_id)).status == 200


async def test_the_same_connector_again_gives_the_same(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    first = await cloud.connect(attachment_id)
    again = await cloud.connect(attachment_id)
    assert (again.status, again.body) == (200, first.body)
    assert cloud.storage.knobs.passed["export"] == 1


async def test_two_equal_connects_at_once_are_one(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    cloud.storage.knobs.hold("export")
    both = [asyncio.create_task(cloud.connect(attachment_id)) for _ in range(2)]
    while not cloud.storage.knobs.passed.get("export"):
        await asyncio.wait(both, timeout=0.01)
    cloud.storage.knobs.release("export")
    assert [(await task).status for task in both] == [200, 200]
    assert cloud.storage.knobs.passed["export"] == 1


@pytest.mark.parametrize(
    "body", [{}, {"connector": {}}, {"connector": None}, {"connector": "host1"}, {"other": {}}]
)
async def test_connecting_needs_a_connector(cloud: VolumeCloud, body: dict[str, Any]) -> None:
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    answer = await cloud.ask("PUT", f"/attachments/{attachment_id}", {"attachment": body})
    assert answer.status == 400


async def test_a_connector_without_a_host_is_refused(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    body = {"attachment": {"connector": {"ip": "10.0.0.1"}}}
    answer = await cloud.ask("PUT", f"/attachments/{attachment_id}", body)
    assert answer.status == 400


@pytest.mark.parametrize("host", [7, 1.5, True, None, ["host1"], {"name": "host1"}])
async def test_a_connector_whose_host_is_no_text_is_refused(cloud: VolumeCloud, host: Any) -> None:
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    body = {"attachment": {"connector": {**connector(), "host": host}}}
    answer = await cloud.ask("PUT", f"/attachments/{attachment_id}", body)
    assert answer.status == 400, answer.text
    assert answer.fault.startswith("Invalid input received: The connector names no host.")
    assert await cloud.attachments(volume_id) == {attachment_id: "reserved"}
    assert await cloud.exports() == set()


@pytest.mark.parametrize("status", ["error", "error_deleting"])
async def test_a_volume_in_error_is_not_connected(cloud: VolumeCloud, status: str) -> None:
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    await cloud.set(volume_id, status=status)
    assert (await cloud.connect(attachment_id)).status == 409


async def test_a_second_connector_is_refused_while_another_is_connected(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    first = await cloud.attach(volume_id)
    second = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    answer = await cloud.connect(second, "host2")
    assert answer.status == 409
    assert "Duplicate connectors" in answer.fault
    # Live migration brings its connector with the POST instead.
    third = await cloud.reserve(volume_id, connector=connector("host2"))
    assert third.status == 200
    assert await cloud.status(volume_id) == "attaching"
    third_id = third.body["attachment"]["id"]
    assert (await cloud.complete(third_id)).status == 204
    assert await cloud.status(volume_id) == "in-use"
    assert (await cloud.detach(first)).status == 200
    assert await cloud.status(volume_id) == "in-use"
    assert await cloud.exports() == {(volume_id, third_id)}


async def test_an_empty_one_is_connected_once_the_connected_one_is_gone(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    first = await cloud.attach(volume_id)
    second = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    assert await cloud.status(volume_id) == "in-use"
    left = await cloud.detach(first)
    assert [row["id"] for row in left.body["attachments"]] == [second]
    assert await cloud.status(volume_id) == "reserved"
    assert (await cloud.connect(second, "host2")).status == 200
    assert await cloud.status(volume_id) == "attaching"


async def test_a_connected_attachment_does_not_change_hosts(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = await cloud.attach(volume_id)
    assert (await cloud.connect(attachment_id, "host2")).status == 409
    assert await cloud.status(volume_id) == "in-use"


async def test_deleting_ends_a_connect_that_is_under_way(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    cloud.storage.knobs.hold("export")
    connecting = asyncio.create_task(cloud.connect(attachment_id))
    while not cloud.storage.knobs.passed.get("export"):
        await asyncio.wait([connecting], timeout=0.01)
    deleting = asyncio.create_task(cloud.detach(attachment_id))
    await cloud.until_pre_empted()
    cloud.storage.knobs.release("export")
    assert (await deleting).status == 200
    assert (await connecting).status == 409
    assert await cloud.status(volume_id) == "available"
    assert await cloud.exports() == set()
    assert await cloud.complaints() == []


async def test_deleting_that_waited_in_vain_may_be_tried_again(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    cloud.storage.knobs.hold("export")
    cloud.storage.knobs.hold("unexport")
    connecting = asyncio.create_task(cloud.connect(attachment_id))
    while not cloud.storage.knobs.passed.get("export"):
        await asyncio.wait([connecting], timeout=0.01)
    deleting = asyncio.create_task(cloud.detach(attachment_id))
    await cloud.until_pre_empted()
    await asyncio.wait([deleting], timeout=0.05)
    cloud.clock.advance(LOCK_WAIT_S + 1.0)
    assert (await deleting).status == 503
    cloud.storage.knobs.release("export")
    cloud.storage.knobs.release("unexport")
    assert (await connecting).status == 409
    await cloud.settle()
    assert (await cloud.detach(attachment_id)).status == 200
    assert await cloud.attachments(volume_id) == {}
    assert await cloud.complaints() == []


async def test_no_connection_data_is_written_in_the_clear(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await cloud.attach(volume_id)
    await cloud.store.write(lambda tx: None)
    secret = f"simulated:fast/volume-{volume_id}".encode()
    files = sorted(cloud.settings.state_path.glob("volume.sqlite*"))
    assert files
    assert not any(secret in file.read_bytes() for file in files)


@pytest.mark.parametrize("is_legacy", [False, True])
async def test_a_connection_waits_for_a_snapshot_that_is_being_made(
    cloud: VolumeCloud, *, is_legacy: bool
) -> None:
    volume_id, knobs = await cloud.make(), cloud.storage.knobs
    knobs.hold("snapshot")
    wanted = {"snapshot": {"volume_id": volume_id}}
    assert (await cloud.ask("POST", "/snapshots", wanted)).status == 202
    await knobs.held("snapshot")
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    if is_legacy:
        value = {"connector": connector()}
        asking = cloud.act(volume_id, "os-initialize_connection", value, user="compute")
    else:
        asking = cloud.connect(attachment_id)
    connecting = asyncio.create_task(asking)
    assert not (await asyncio.wait([connecting], timeout=0.3))[0]
    knobs.release("snapshot")
    assert (await connecting).status == 200
    await cloud.settle()
    assert await cloud.exports() != set()


async def test_a_connection_waits_as_long_as_clients_do_and_is_refused_then(
    cloud: VolumeCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that the engine looks at the clock, which stands still, often enough.
    monkeypatch.setattr(reserving, "ANSWER_WAIT_S", 0.01)
    volume_id, knobs = await cloud.make(), cloud.storage.knobs
    knobs.hold("snapshot")
    wanted = {"snapshot": {"volume_id": volume_id}}
    assert (await cloud.ask("POST", "/snapshots", wanted)).status == 202
    await knobs.held("snapshot")
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    connecting = asyncio.create_task(cloud.connect(attachment_id))
    assert not (await asyncio.wait([connecting], timeout=0.1))[0]
    cloud.clock.advance(1.0)
    assert (await connecting).status == 409
    knobs.release("snapshot")
    await cloud.settle()
    assert (await cloud.connect(attachment_id)).status == 200
