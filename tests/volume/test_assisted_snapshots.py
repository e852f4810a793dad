"""Snapshots of a volume that a guest uses, with a compute service that does as the test says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from mooring.errors import Conflict, Forbidden, MooringError, Unavailable
from mooring.fence.operation import Operation
from mooring.saga.tables import LockRow
from tests.volume.assisting import Assisting, tell
from tests.volume.dock import SERVER, SERVER_2, Dock
from tests.volume.test_snapshots import show, take

pytestmark = pytest.mark.anyio


@pytest.fixture
async def compute(dock: Dock) -> Assisting:
    made = Assisting(dock)
    dock.compute = made
    dock.volume.compute = made
    return made


async def attached(dock: Dock, **fields: Any) -> tuple[str, str]:
    """Return a volume that a server has, and its attachment."""
    volume_id = await dock.make(**fields)
    return volume_id, await dock.attach(volume_id)


async def begin(dock: Dock, volume_id: str) -> str:
    answer = await take(dock, volume_id, version="3.66")
    assert answer.status == 202, answer.content
    return answer.json["snapshot"]["id"]


async def active_file(dock: Dock, attachment_id: str) -> tuple[str, str]:
    """Return the file and the format that an attachment's connection names."""
    answer = await dock.ask("GET", f"/attachments/{attachment_id}", who="compute")
    info = answer.json["attachment"]["connection_info"]
    return info["device_path"].rpartition("/")[2], info["format"]


async def test_compute_switches_the_guest_and_connections_name_the_overlay(
    dock: Dock, compute: Assisting
) -> None:
    volume_id, attachment_id = await attached(dock)
    compute.says = {"status": "creating"}
    snapshot_id = await begin(dock, volume_id)
    await dock.engine.settle()
    overlay = f"volume-{volume_id}.{snapshot_id}"
    assert compute.calls == [(overlay,)]
    assert (await show(dock, snapshot_id))["status"] == "available"
    assert await dock.status(volume_id) == "in-use"
    assert await active_file(dock, attachment_id) == (overlay, "qcow2")
    assert await dock.complaints() == []


async def test_the_saga_rests_until_it_is_told(dock: Dock, compute: Assisting) -> None:
    volume_id, attachment_id = await attached(dock)
    snapshot_id = await begin(dock, volume_id)
    await dock.engine.settle(100.0)
    assert (await show(dock, snapshot_id))["status"] == "creating"
    assert await active_file(dock, attachment_id) == (f"volume-{volume_id}", "qcow2")
    assert await tell(dock, snapshot_id, "creating", "50%") == 202
    await dock.engine.settle(100.0)
    assert (await show(dock, snapshot_id))["status"] == "creating"
    assert await tell(dock, snapshot_id, "creating") == 202
    await dock.engine.settle(100.0)
    assert (await show(dock, snapshot_id))["status"] == "available"
    assert await tell(dock, snapshot_id, "error") == 400
    assert compute.buried.keys == []


@pytest.mark.parametrize("refusal", [Forbidden("No."), Conflict("Instance is rebooting.")])
async def test_a_refused_snapshot_is_undone(
    dock: Dock, compute: Assisting, refusal: MooringError
) -> None:
    volume_id, attachment_id = await attached(dock)
    compute.refusal = refusal
    snapshot_id = await begin(dock, volume_id)
    await dock.engine.settle()
    assert (await show(dock, snapshot_id))["status"] == "error"
    assert await active_file(dock, attachment_id) == (f"volume-{volume_id}", "qcow2")
    assert [file.snapshots for file in await dock.storage.volumes()] == [[]]
    (message,) = (await dock.ask("GET", "/messages")).json["messages"]
    assert message["event_id"] == "VOLUME_VOLUME_SNAPSHOT_009_013"
    assert await dock.status(volume_id) == "in-use"
    assert await dock.complaints() == []


async def test_a_failure_that_is_told_is_undone(dock: Dock, compute: Assisting) -> None:
    volume_id, _ = await attached(dock)
    compute.says = {"status": "error"}
    snapshot_id = await begin(dock, volume_id)
    await dock.engine.settle()
    assert (await show(dock, snapshot_id))["status"] == "error"
    assert [file.snapshots for file in await dock.storage.volumes()] == [[]]
    assert await dock.complaints() == []


async def test_a_silent_compute_is_told_to_give_up(dock: Dock, compute: Assisting) -> None:
    volume_id, _ = await attached(dock)
    begun_at = dock.clock.now()
    snapshot_id = await begin(dock, volume_id)
    await dock.engine.settle()
    assert dock.clock.now() - begun_at < timedelta(seconds=700)
    assert (await show(dock, snapshot_id))["status"] == "error"
    assert compute.buried.keys
    assert [file.snapshots for file in await dock.storage.volumes()] == [[]]
    assert await tell(dock, snapshot_id, "creating") == 400
    assert await dock.complaints() == []


async def test_a_word_that_comes_while_compute_gives_up_counts(
    dock: Dock, compute: Assisting
) -> None:
    volume_id, attachment_id = await attached(dock)
    snapshot_id = await begin(dock, volume_id)

    async def bury(operation: Operation) -> list[str] | None:
        del operation
        assert await tell(dock, snapshot_id, "creating") == 202
        return []

    compute.buried.bury = bury
    await dock.engine.settle()
    assert (await show(dock, snapshot_id))["status"] == "available"
    overlay = f"volume-{volume_id}.{snapshot_id}"
    assert await active_file(dock, attachment_id) == (overlay, "qcow2")


async def test_a_word_taken_back_in_time_is_undone(dock: Dock, compute: Assisting) -> None:
    volume_id, attachment_id = await attached(dock)
    dock.storage.knobs.hold("snapshot")
    snapshot_id = await begin(dock, volume_id)
    assert await tell(dock, snapshot_id, "creating") == 202
    assert await tell(dock, snapshot_id, "error") == 202
    dock.storage.knobs.release("snapshot")
    await dock.engine.settle()
    assert (await show(dock, snapshot_id))["status"] == "error"
    assert await active_file(dock, attachment_id) == (f"volume-{volume_id}", "qcow2")


async def test_a_compute_that_is_away_is_asked_again(dock: Dock, compute: Assisting) -> None:
    volume_id, _ = await attached(dock)
    compute.refusal = Unavailable("The compute service did not answer.")
    snapshot_id = await begin(dock, volume_id)
    await dock.engine.settle(20.0)
    assert (await show(dock, snapshot_id))["status"] == "creating"
    compute.refusal, compute.says = None, {"status": "creating"}
    await dock.engine.settle()
    assert (await show(dock, snapshot_id))["status"] == "available"


async def test_the_newest_snapshot_is_pulled_and_an_older_one_committed(
    dock: Dock, compute: Assisting
) -> None:
    volume_id, attachment_id = await attached(dock)
    compute.says = {"status": "creating"}
    ids: list[str] = []
    for _ in range(3):
        ids.append(await begin(dock, volume_id))
        await dock.engine.settle()
    names = [f"volume-{volume_id}", *(f"volume-{volume_id}.{one}" for one in ids)]
    compute.says, compute.calls = {"status": "deleting"}, []
    for snapshot_id in (ids[1], ids[2], ids[0]):
        assert (await dock.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
        await dock.engine.settle()
        assert (await dock.ask("GET", f"/snapshots/{snapshot_id}")).status == 404
    # The middle one goes down into the one below; the active file takes in the rest.
    assert compute.calls == [(names[2], names[1]), (names[0], None), (None, None)]
    assert await active_file(dock, attachment_id) == (names[3], "qcow2")
    assert [file.snapshots for file in await dock.storage.volumes()] == [[]]
    assert await dock.complaints() == []


@pytest.mark.parametrize(
    ("says", "refusal", "status"),
    [
        (None, Conflict("Instance is rebooting."), "available"),
        (None, None, "error_deleting"),
        ({"status": "error_deleting"}, None, "error_deleting"),
    ],
)
async def test_a_merge_that_fails_may_be_asked_for_again(
    dock: Dock,
    compute: Assisting,
    says: dict[str, str] | None,
    refusal: MooringError | None,
    status: str,
) -> None:
    volume_id, _ = await attached(dock)
    compute.says = {"status": "creating"}
    snapshot_id = await begin(dock, volume_id)
    await dock.engine.settle()
    compute.says, compute.refusal = says, refusal
    assert (await dock.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await dock.engine.settle()
    assert (await show(dock, snapshot_id))["status"] == status
    assert [file.snapshots for file in await dock.storage.volumes()] == [[snapshot_id]]
    compute.says, compute.refusal = {"status": "deleting"}, None
    assert (await dock.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await dock.engine.settle()
    assert (await dock.ask("GET", f"/snapshots/{snapshot_id}")).status == 404
    assert await dock.complaints() == []


BUSY = Conflict("Instance is rebooting.", busy=True)


async def held_keys(dock: Dock) -> list[str]:
    """Return the keys that any operation holds."""
    return await dock.store.read(lambda tx: list(tx.execute(select(LockRow.key)).scalars()))


async def test_an_accepted_deletion_waits_for_a_busy_server_as_long_as_it_takes(
    dock: Dock, compute: Assisting
) -> None:
    volume_id, _ = await attached(dock)
    compute.says = {"status": "creating"}
    snapshot_id = await begin(dock, volume_id)
    await dock.engine.settle()
    compute.refusal, compute.says = BUSY, {"status": "deleting"}
    assert (await dock.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    for minutes in (1, 30, 120):
        await dock.engine.settle(60.0 * minutes)
        assert (await show(dock, snapshot_id))["status"] == "deleting"
        # Whoever keeps the server busy may be waiting for the volume.
        assert await held_keys(dock) == []
    compute.refusal = None
    await dock.engine.settle()
    assert (await dock.ask("GET", f"/snapshots/{snapshot_id}")).status == 404
    assert (await dock.ask("GET", "/messages")).json["messages"] == []
    assert await dock.complaints() == []


async def test_a_snapshot_of_a_busy_server_is_taken_when_it_is_free(
    dock: Dock, compute: Assisting
) -> None:
    volume_id, attachment_id = await attached(dock)
    compute.refusal, compute.says = BUSY, {"status": "creating"}
    snapshot_id = await begin(dock, volume_id)
    await dock.engine.settle(100.0)
    assert (await show(dock, snapshot_id))["status"] == "creating"
    assert await held_keys(dock) == []
    assert [file.snapshots for file in await dock.storage.volumes()] == [[]]
    compute.refusal = None
    await dock.engine.settle()
    assert (await show(dock, snapshot_id))["status"] == "available"
    overlay = f"volume-{volume_id}.{snapshot_id}"
    assert await active_file(dock, attachment_id) == (overlay, "qcow2")
    assert await dock.complaints() == []


async def test_a_snapshot_of_a_server_that_stays_busy_fails_at_its_deadline(
    dock: Dock, compute: Assisting
) -> None:
    volume_id, _ = await attached(dock)
    compute.refusal = BUSY
    begun_at = dock.clock.now()
    snapshot_id = await begin(dock, volume_id)
    await dock.engine.settle()
    assert dock.clock.now() - begun_at < timedelta(seconds=700)
    assert (await show(dock, snapshot_id))["status"] == "error"
    (message,) = (await dock.ask("GET", "/messages")).json["messages"]
    assert message["event_id"] == "VOLUME_VOLUME_SNAPSHOT_009_013"
    assert await dock.complaints() == []


async def test_a_deletion_whose_server_leaves_is_finished_by_the_host(
    dock: Dock, compute: Assisting
) -> None:
    volume_id, attachment_id = await attached(dock)
    compute.says = {"status": "creating"}
    snapshot_id = await begin(dock, volume_id)
    await dock.engine.settle()
    compute.says = None
    assert (await dock.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await dock.engine.settle(10.0)
    assert (await dock.detach(attachment_id)).status == 200
    assert await tell(dock, snapshot_id, "error_deleting") == 202
    await dock.engine.settle()
    assert (await dock.ask("GET", f"/snapshots/{snapshot_id}")).status == 404
    assert [file.snapshots for file in await dock.storage.volumes()] == [[]]
    assert await dock.complaints() == []


async def test_an_operator_ends_what_waits_for_its_turn(dock: Dock, compute: Assisting) -> None:
    volume_id, _ = await attached(dock)
    compute.says = {"status": "creating"}
    snapshot_id = await begin(dock, volume_id)
    await dock.engine.settle()
    compute.refusal = BUSY
    assert (await dock.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await dock.engine.settle(100.0)
    (waiting,) = (await dock.ask("GET", "/mooring/operations", who="admin")).json["operations"]
    assert waiting["name"] == "volume.await_turn"
    await dock.engine.store.write(lambda tx: dock.engine.abort(tx, waiting["id"]))
    await dock.engine.settle()
    assert (await show(dock, snapshot_id))["status"] == "available"
    assert await dock.complaints() == []


async def test_reset_of_the_volume_ends_a_snapshot_under_way(
    dock: Dock, compute: Assisting
) -> None:
    volume_id, attachment_id = await attached(dock)
    snapshot_id = await begin(dock, volume_id)
    await dock.engine.settle(50.0)
    value = {"status": "in-use"}
    await dock.drive(dock.act(volume_id, "os-reset_status", value, who="admin"))
    await dock.engine.settle()
    assert (await show(dock, snapshot_id))["status"] == "error"
    assert compute.buried.keys
    assert await active_file(dock, attachment_id) == (f"volume-{volume_id}", "qcow2")
    assert await dock.complaints() == []


async def test_several_servers_are_refused_at_once(dock: Dock, compute: Assisting) -> None:
    name = await dock.type_with(multiattach="<is> True")
    volume_id = await dock.make(volume_type=name)
    await dock.attach(volume_id, SERVER)
    await dock.attach(volume_id, SERVER_2)
    answer = await take(dock, volume_id, version="3.66")
    assert answer.status == 400
    assert "2 servers" in answer.fault
    assert compute.calls == []


async def test_an_export_for_no_server_is_refused_at_once(dock: Dock, compute: Assisting) -> None:
    volume_id = await dock.make()
    value = {"connector": {"host": "host1"}}
    assert (await dock.act(volume_id, "os-initialize_connection", value, who="compute")).status
    answer = await take(dock, volume_id)
    assert answer.status == 409
    assert compute.calls == []


async def test_a_restart_in_the_middle_changes_nothing(dock: Dock) -> None:
    volume_id, attachment_id = await attached(dock)
    dock.volume.compute = Assisting(dock)
    snapshot_id = await begin(dock, volume_id)
    await dock.engine.settle(50.0)
    assert await tell(dock, snapshot_id, "creating") == 202
    await dock.restart()
    dock.volume.compute = Assisting(dock)
    await dock.engine.settle()
    assert (await show(dock, snapshot_id))["status"] == "available"
    overlay = f"volume-{volume_id}.{snapshot_id}"
    assert await active_file(dock, attachment_id) == (overlay, "qcow2")
