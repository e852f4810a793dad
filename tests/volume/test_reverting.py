"""Volumes that go back to their newest snapshot (facts/block_storage.md 1.6)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import NoCapacity, Unavailable
from tests.answers import Answer
from tests.volume.cloud import UNKNOWN, VolumeCloud
from tests.volume.test_snapshots import show, taken

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[VolumeCloud]:
    async with VolumeCloud(tmp_path, database=database) as opened:
        yield opened


async def revert(cloud: VolumeCloud, volume_id: str, snapshot_id: str, **how: Any) -> Answer:
    value, how = {"snapshot_id": snapshot_id}, {"version": "3.40", **how}
    answer = await cloud.act(volume_id, "revert", value, **how)
    await cloud.settle()
    return answer


async def messages(cloud: VolumeCloud) -> list[str]:
    listed = (await cloud.ask("GET", "/messages")).body["messages"]
    return [one["event_id"] for one in listed]


async def test_a_volume_goes_back_to_its_newest_snapshot(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    older = await taken(cloud, volume_id)
    cloud.clock.advance(1)
    newest = await taken(cloud, volume_id)
    assert (await revert(cloud, volume_id, newest)).status == 202
    assert await cloud.status(volume_id) == "available"
    assert (await show(cloud, newest))["status"] == "available"
    assert cloud.storage.knobs.passed["revert"] == 1
    assert (await revert(cloud, volume_id, older)).status == 400
    assert await messages(cloud) == []


async def test_it_is_shown_and_nobody_is_given_it_meanwhile(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    snapshot_id = await taken(cloud, volume_id)
    cloud.storage.knobs.hold("revert")
    value = {"snapshot_id": snapshot_id}
    assert (await cloud.act(volume_id, "revert", value, version="3.40")).status == 202
    await cloud.storage.knobs.held("revert")
    assert await cloud.status(volume_id) == "reverting"
    assert (await cloud.reserve(volume_id)).status == 400
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 400
    assert (await cloud.act(volume_id, "revert", value, version="3.40")).status == 409
    cloud.storage.knobs.release("revert")
    await cloud.settle()
    assert await cloud.status(volume_id) == "available"


async def test_what_a_host_refuses_leaves_it_as_it_was(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    snapshot_id = await taken(cloud, volume_id)
    cloud.storage.knobs.fail("revert", NoCapacity("The pool is full."))
    assert (await revert(cloud, volume_id, snapshot_id)).status == 202
    assert await cloud.status(volume_id) == "available"
    assert await messages(cloud) == ["VOLUME_VOLUME_017_001"]


async def test_a_database_that_is_full_at_its_end_is_waited_for(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    snapshot_id = await taken(cloud, volume_id)
    point = "volume.revert_volume/show_available/forward/before"
    cloud.probe.arm(point, lambda: NoCapacity("The database is full."))
    assert (await revert(cloud, volume_id, snapshot_id)).status == 202
    assert await cloud.status(volume_id) == "available"
    assert await messages(cloud) == []
    assert (await show(cloud, snapshot_id))["status"] == "available"


async def test_a_refusal_after_a_lost_answer_says_nothing_of_the_content(
    cloud: VolumeCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume_id = await cloud.make()
    snapshot_id = await taken(cloud, volume_id)
    answers = [Unavailable("Nobody heard it."), NoCapacity("The pool is full.")]

    async def revert_unheard(*_: Any) -> None:
        raise answers.pop(0)

    monkeypatch.setattr(cloud.storage, "revert", revert_unheard)
    assert (await revert(cloud, volume_id, snapshot_id)).status == 202
    assert answers == []
    assert await cloud.status(volume_id) == "error"


async def test_a_reset_in_the_middle_leaves_it_in_error(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    snapshot_id = await taken(cloud, volume_id)
    with cloud.silence():
        value = {"snapshot_id": snapshot_id}
        assert (await cloud.act(volume_id, "revert", value, version="3.40")).status == 202
        await cloud.settle(60.0)
        assert await cloud.status(volume_id) == "reverting"
        reset = cloud.act(volume_id, "os-reset_status", {"migration_status": "none"}, user="admin")
        assert (await cloud.drive(reset, turn_s=5.0)).status == 202
    await cloud.settle()
    assert await cloud.status(volume_id) == "error"
    assert await cloud.complaints() == []


async def test_before_3_40_there_is_no_revert(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    snapshot_id = await taken(cloud, volume_id)
    assert (await revert(cloud, volume_id, snapshot_id, version="3.39")).status == 404


async def test_what_cannot_be_reverted_is_refused(cloud: VolumeCloud) -> None:
    volume_id, other = await cloud.make(), await cloud.make()
    foreign = await taken(cloud, other)
    assert (await revert(cloud, volume_id, foreign)).status == 400
    assert (await revert(cloud, volume_id, UNKNOWN)).status == 400
    assert (await revert(cloud, UNKNOWN, foreign)).status == 404
    assert (await revert(cloud, other, foreign, user="stranger")).status == 404
    await cloud.attach(other)
    answer = await revert(cloud, other, foreign)
    assert (answer.status, f"Volume {other} is in-use" in answer.text) == (409, True)
    assert cloud.storage.knobs.passed.get("revert", 0) == 0


async def test_one_that_has_grown_since_is_refused(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    snapshot_id = await taken(cloud, volume_id)
    assert (await cloud.act(volume_id, "os-extend", {"new_size": 2})).status == 202
    await cloud.settle()
    answer = await revert(cloud, volume_id, snapshot_id)
    assert answer.status == 400
    assert b"has grown since" in answer.content
