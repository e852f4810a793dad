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
from tests.volume.cloud import VolumeCloud
from tests.volume.test_snapshots import show, take

pytestmark = pytest.mark.anyio


@pytest.fixture
async def compute(cloud: VolumeCloud) -> Assisting:
    made = Assisting(cloud)
    cloud.compute = cloud.neighbour = cloud.volume.compute = made
    return made


async def attached(cloud: VolumeCloud, **fields: Any) -> tuple[str, str]:
    """Return a volume that a server has, and its attachment."""
    volume_id = await cloud.make(**fields)
    return volume_id, await cloud.attach(volume_id)


async def begin(cloud: VolumeCloud, volume_id: str) -> str:
    answer = await take(cloud, volume_id, version="3.66")
    assert answer.status == 202, answer.content
    return answer.body["snapshot"]["id"]


async def active_file(cloud: VolumeCloud, attachment_id: str) -> tuple[str, str]:
    """Return the file and the format that an attachment's connection names."""
    answer = await cloud.ask("GET", f"/attachments/{attachment_id}", user="compute")
    info = answer.body["attachment"]["connection_info"]
    return info["device_path"].rpartition("/")[2], info["format"]


async def test_compute_switches_the_guest_and_connections_name_the_overlay(
    cloud: VolumeCloud, compute: Assisting
) -> None:
    volume_id, attachment_id = await attached(cloud)
    compute.says = {"status": "creating"}
    snapshot_id = await begin(cloud, volume_id)
    await cloud.settle()
    overlay = f"volume-{volume_id}.{snapshot_id}"
    assert compute.calls == [(overlay,)]
    assert (await show(cloud, snapshot_id))["status"] == "available"
    assert await cloud.status(volume_id) == "in-use"
    assert await active_file(cloud, attachment_id) == (overlay, "qcow2")
    assert await cloud.complaints() == []


async def test_the_saga_rests_until_it_is_told(cloud: VolumeCloud, compute: Assisting) -> None:
    volume_id, attachment_id = await attached(cloud)
    snapshot_id = await begin(cloud, volume_id)
    await cloud.settle(100.0)
    assert (await show(cloud, snapshot_id))["status"] == "creating"
    assert await active_file(cloud, attachment_id) == (f"volume-{volume_id}", "qcow2")
    assert await tell(cloud, snapshot_id, "creating", "50%") == 202
    await cloud.settle(100.0)
    assert (await show(cloud, snapshot_id))["status"] == "creating"
    assert await tell(cloud, snapshot_id, "creating") == 202
    await cloud.settle(100.0)
    assert (await show(cloud, snapshot_id))["status"] == "available"
    assert await tell(cloud, snapshot_id, "error") == 400
    assert compute.buried.keys == []


@pytest.mark.parametrize("refusal", [Forbidden("No."), Conflict("Instance is rebooting.")])
async def test_a_refused_snapshot_is_undone(
    cloud: VolumeCloud, compute: Assisting, refusal: MooringError
) -> None:
    volume_id, attachment_id = await attached(cloud)
    compute.refusal = refusal
    snapshot_id = await begin(cloud, volume_id)
    await cloud.settle()
    assert (await show(cloud, snapshot_id))["status"] == "error"
    assert await active_file(cloud, attachment_id) == (f"volume-{volume_id}", "qcow2")
    assert [file.snapshots for file in await cloud.storage.volumes()] == [[]]
    (message,) = (await cloud.ask("GET", "/messages")).body["messages"]
    assert message["event_id"] == "VOLUME_VOLUME_SNAPSHOT_009_013"
    assert await cloud.status(volume_id) == "in-use"
    assert await cloud.complaints() == []


async def test_a_failure_that_is_told_is_undone(cloud: VolumeCloud, compute: Assisting) -> None:
    volume_id, _ = await attached(cloud)
    compute.says = {"status": "error"}
    snapshot_id = await begin(cloud, volume_id)
    await cloud.settle()
    assert (await show(cloud, snapshot_id))["status"] == "error"
    assert [file.snapshots for file in await cloud.storage.volumes()] == [[]]
    assert await cloud.complaints() == []


async def test_a_silent_compute_is_told_to_give_up(cloud: VolumeCloud, compute: Assisting) -> None:
    volume_id, _ = await attached(cloud)
    begun_at = cloud.clock.now()
    snapshot_id = await begin(cloud, volume_id)
    await cloud.settle()
    assert cloud.clock.now() - begun_at < timedelta(seconds=700)
    assert (await show(cloud, snapshot_id))["status"] == "error"
    assert compute.buried.keys
    assert [file.snapshots for file in await cloud.storage.volumes()] == [[]]
    assert await tell(cloud, snapshot_id, "creating") == 400
    assert await cloud.complaints() == []


async def test_where_locks_are_hidden_the_last_word_of_compute_tells(
    cloud: VolumeCloud, compute: Assisting
) -> None:
    volume_id, _ = await attached(cloud)
    cloud.storage.shows_locks = False
    snapshot_id = await begin(cloud, volume_id)
    await cloud.settle()
    assert (await show(cloud, snapshot_id))["status"] == "error"
    assert [file.snapshots for file in await cloud.storage.volumes()] == [[]]
    assert await cloud.complaints() == []


async def test_where_locks_are_hidden_a_refusal_of_nova_leaves_nothing(
    cloud: VolumeCloud, compute: Assisting
) -> None:
    volume_id, _ = await attached(cloud)
    cloud.storage.shows_locks = compute.buried.knows = False
    compute.refusal = Conflict("The guest cannot do that.")
    await begin(cloud, volume_id)
    await cloud.settle()
    assert [file.snapshots for file in await cloud.storage.volumes()] == [[]]
    assert await cloud.complaints() == []


async def test_an_overlay_that_a_guest_may_write_to_is_kept(
    cloud: VolumeCloud, compute: Assisting
) -> None:
    """A real Nova knows no operations: it may have switched the guest, and tell so too late."""
    volume_id, attachment_id = await attached(cloud)
    cloud.storage.shows_locks = False
    compute.buried.knows = False
    snapshot_id = await begin(cloud, volume_id)
    await cloud.settle()
    assert (await show(cloud, snapshot_id))["status"] == "error"
    assert [file.snapshots for file in await cloud.storage.volumes()] == [[snapshot_id]]
    overlay = f"volume-{volume_id}.{snapshot_id}"
    assert await active_file(cloud, attachment_id) == (overlay, "qcow2")
    assert await cloud.complaints() == []


async def test_a_word_that_comes_while_compute_gives_up_counts(
    cloud: VolumeCloud, compute: Assisting
) -> None:
    volume_id, attachment_id = await attached(cloud)
    snapshot_id = await begin(cloud, volume_id)

    async def bury(operation: Operation) -> list[str] | None:
        del operation
        assert await tell(cloud, snapshot_id, "creating") == 202
        return []

    compute.buried.bury = bury
    await cloud.settle()
    assert (await show(cloud, snapshot_id))["status"] == "available"
    overlay = f"volume-{volume_id}.{snapshot_id}"
    assert await active_file(cloud, attachment_id) == (overlay, "qcow2")


async def test_a_word_taken_back_in_time_is_undone(cloud: VolumeCloud, compute: Assisting) -> None:
    volume_id, attachment_id = await attached(cloud)
    cloud.storage.knobs.hold("snapshot")
    snapshot_id = await begin(cloud, volume_id)
    assert await tell(cloud, snapshot_id, "creating") == 202
    assert await tell(cloud, snapshot_id, "error") == 202
    cloud.storage.knobs.release("snapshot")
    await cloud.settle()
    assert (await show(cloud, snapshot_id))["status"] == "error"
    assert await active_file(cloud, attachment_id) == (f"volume-{volume_id}", "qcow2")


async def test_a_compute_that_is_away_is_asked_again(
    cloud: VolumeCloud, compute: Assisting
) -> None:
    volume_id, _ = await attached(cloud)
    compute.refusal = Unavailable("The compute service did not answer.")
    snapshot_id = await begin(cloud, volume_id)
    await cloud.settle(20.0)
    assert (await show(cloud, snapshot_id))["status"] == "creating"
    compute.refusal, compute.says = None, {"status": "creating"}
    await cloud.settle()
    assert (await show(cloud, snapshot_id))["status"] == "available"


async def test_the_newest_snapshot_is_pulled_and_an_older_one_committed(
    cloud: VolumeCloud, compute: Assisting
) -> None:
    volume_id, attachment_id = await attached(cloud)
    compute.says = {"status": "creating"}
    ids: list[str] = []
    for _ in range(3):
        ids.append(await begin(cloud, volume_id))
        await cloud.settle()
    names = [f"volume-{volume_id}", *(f"volume-{volume_id}.{one}" for one in ids)]
    compute.says, compute.calls = {"status": "deleting"}, []
    for snapshot_id in (ids[1], ids[2], ids[0]):
        assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
        await cloud.settle()
        assert (await cloud.ask("GET", f"/snapshots/{snapshot_id}")).status == 404
    # The middle one goes down into the one below; the active file takes in the rest.
    assert compute.calls == [(names[2], names[1]), (names[0], None), (None, None)]
    assert await active_file(cloud, attachment_id) == (names[3], "qcow2")
    assert [file.snapshots for file in await cloud.storage.volumes()] == [[]]
    assert await cloud.complaints() == []


@pytest.mark.parametrize(
    ("says", "refusal", "status"),
    [
        (None, Conflict("Instance is rebooting."), "available"),
        (None, None, "error_deleting"),
        ({"status": "error_deleting"}, None, "error_deleting"),
    ],
)
async def test_a_merge_that_fails_may_be_asked_for_again(
    cloud: VolumeCloud,
    compute: Assisting,
    says: dict[str, str] | None,
    refusal: MooringError | None,
    status: str,
) -> None:
    volume_id, _ = await attached(cloud)
    compute.says = {"status": "creating"}
    snapshot_id = await begin(cloud, volume_id)
    await cloud.settle()
    compute.says, compute.refusal = says, refusal
    assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await cloud.settle()
    assert (await show(cloud, snapshot_id))["status"] == status
    assert [file.snapshots for file in await cloud.storage.volumes()] == [[snapshot_id]]
    compute.says, compute.refusal = {"status": "deleting"}, None
    assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await cloud.settle()
    assert (await cloud.ask("GET", f"/snapshots/{snapshot_id}")).status == 404
    assert await cloud.complaints() == []


BUSY = Conflict("Instance is rebooting.", busy=True)


async def held_keys(cloud: VolumeCloud) -> list[str]:
    """Return the keys that any operation holds."""
    return await cloud.store.read(lambda tx: list(tx.execute(select(LockRow.key)).scalars()))


async def test_an_accepted_deletion_waits_for_a_busy_server_as_long_as_it_takes(
    cloud: VolumeCloud, compute: Assisting
) -> None:
    volume_id, _ = await attached(cloud)
    compute.says = {"status": "creating"}
    snapshot_id = await begin(cloud, volume_id)
    await cloud.settle()
    compute.refusal, compute.says = BUSY, {"status": "deleting"}
    assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    for minutes in (1, 30, 120):
        await cloud.settle(60.0 * minutes)
        assert (await show(cloud, snapshot_id))["status"] == "deleting"
        # Whoever keeps the server busy may be waiting for the volume.
        assert await held_keys(cloud) == []
    compute.refusal = None
    await cloud.settle()
    assert (await cloud.ask("GET", f"/snapshots/{snapshot_id}")).status == 404
    assert (await cloud.ask("GET", "/messages")).body["messages"] == []
    assert await cloud.complaints() == []


async def test_a_snapshot_of_a_busy_server_is_taken_when_it_is_free(
    cloud: VolumeCloud, compute: Assisting
) -> None:
    volume_id, attachment_id = await attached(cloud)
    compute.refusal, compute.says = BUSY, {"status": "creating"}
    snapshot_id = await begin(cloud, volume_id)
    await cloud.settle(100.0)
    assert (await show(cloud, snapshot_id))["status"] == "creating"
    assert await held_keys(cloud) == []
    assert [file.snapshots for file in await cloud.storage.volumes()] == [[]]
    compute.refusal = None
    await cloud.settle()
    assert (await show(cloud, snapshot_id))["status"] == "available"
    overlay = f"volume-{volume_id}.{snapshot_id}"
    assert await active_file(cloud, attachment_id) == (overlay, "qcow2")
    assert await cloud.complaints() == []


async def test_a_snapshot_of_a_server_that_stays_busy_fails_at_its_deadline(
    cloud: VolumeCloud, compute: Assisting
) -> None:
    volume_id, _ = await attached(cloud)
    compute.refusal = BUSY
    begun_at = cloud.clock.now()
    snapshot_id = await begin(cloud, volume_id)
    await cloud.settle()
    assert cloud.clock.now() - begun_at < timedelta(seconds=700)
    assert (await show(cloud, snapshot_id))["status"] == "error"
    (message,) = (await cloud.ask("GET", "/messages")).body["messages"]
    assert message["event_id"] == "VOLUME_VOLUME_SNAPSHOT_009_013"
    assert await cloud.complaints() == []


async def test_a_deletion_whose_server_leaves_is_finished_by_the_host(
    cloud: VolumeCloud, compute: Assisting
) -> None:
    volume_id, attachment_id = await attached(cloud)
    compute.says = {"status": "creating"}
    snapshot_id = await begin(cloud, volume_id)
    await cloud.settle()
    compute.says = None
    assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await cloud.settle(10.0)
    assert (await cloud.detach(attachment_id)).status == 200
    assert await tell(cloud, snapshot_id, "error_deleting") == 202
    await cloud.settle()
    assert (await cloud.ask("GET", f"/snapshots/{snapshot_id}")).status == 404
    assert [file.snapshots for file in await cloud.storage.volumes()] == [[]]
    assert await cloud.complaints() == []


async def test_an_operator_ends_what_waits_for_its_turn(
    cloud: VolumeCloud, compute: Assisting
) -> None:
    volume_id, _ = await attached(cloud)
    compute.says = {"status": "creating"}
    snapshot_id = await begin(cloud, volume_id)
    await cloud.settle()
    compute.refusal = BUSY
    assert (await cloud.ask("DELETE", f"/snapshots/{snapshot_id}")).status == 202
    await cloud.settle(100.0)
    (waiting,) = (await cloud.ask("GET", "/mooring/operations", user="admin")).body["operations"]
    assert waiting["name"] == "volume.await_turn"
    await cloud.engine.store.write(lambda tx: cloud.engine.abort(tx, waiting["id"]))
    await cloud.settle()
    assert (await show(cloud, snapshot_id))["status"] == "available"
    assert await cloud.complaints() == []


async def test_reset_of_the_volume_ends_a_snapshot_under_way(
    cloud: VolumeCloud, compute: Assisting
) -> None:
    volume_id, attachment_id = await attached(cloud)
    snapshot_id = await begin(cloud, volume_id)
    await cloud.settle(50.0)
    value = {"status": "in-use"}
    await cloud.drive(cloud.act(volume_id, "os-reset_status", value, user="admin"))
    await cloud.settle()
    assert (await show(cloud, snapshot_id))["status"] == "error"
    assert compute.buried.keys
    assert await active_file(cloud, attachment_id) == (f"volume-{volume_id}", "qcow2")
    assert await cloud.complaints() == []


async def test_an_export_for_no_server_is_refused_at_once(
    cloud: VolumeCloud, compute: Assisting
) -> None:
    volume_id = await cloud.make()
    value = {"connector": {"host": "host1"}}
    assert (await cloud.act(volume_id, "os-initialize_connection", value, user="compute")).status
    answer = await take(cloud, volume_id)
    assert answer.status == 409
    assert compute.calls == []


async def test_a_restart_in_the_middle_changes_nothing(cloud: VolumeCloud) -> None:
    volume_id, attachment_id = await attached(cloud)
    cloud.compute = cloud.neighbour = cloud.volume.compute = Assisting(cloud)
    snapshot_id = await begin(cloud, volume_id)
    await cloud.settle(50.0)
    assert await tell(cloud, snapshot_id, "creating") == 202
    await cloud.restart(hosts=True)
    await cloud.settle()
    assert (await show(cloud, snapshot_id))["status"] == "available"
    overlay = f"volume-{volume_id}.{snapshot_id}"
    assert await active_file(cloud, attachment_id) == (overlay, "qcow2")
