"""Volumes that come to another pool (facts/block_storage.md 1.6, `os-migrate_volume`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import Conflict, NoCapacity
from tests.volume.movers import FAR, FAST, SLOW, SMALL, VOLUMES, Movers, Silence

pytestmark = pytest.mark.anyio
KEPT = 2
"""How often a host refuses before somebody else is given the volume."""


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[Movers]:
    async with Movers(tmp_path, database) as opened:
        yield opened


async def test_a_volume_comes_to_another_pool_of_its_host(cloud: Movers) -> None:
    volume_id = await cloud.make(metadata={"a": "b"})
    before = await cloud.show(volume_id)
    assert (await cloud.migrate(volume_id, FAST)).status == 202
    await cloud.settle()
    after = await cloud.show(volume_id)
    changed = {key for key in before if before[key] != after[key]}
    host, status = "os-vol-host-attr:host", "os-vol-mig-status-attr:migstat"
    assert changed <= {host, status, "migration_status", "updated_at", "service_uuid"}
    assert await cloud.stands(volume_id) == ("available", "success", FAST)
    assert await cloud.there() == {FAST: [volume_id]}


@pytest.mark.parametrize(
    ("value", "status"), [(True, 202), ("True", 202), ("no", 202), ("maybe", 400), ([], 400)]
)
async def test_a_forced_copy_is_the_one_that_there_is(
    cloud: Movers, value: object, status: int
) -> None:
    volume_id = await cloud.make()
    assert (await cloud.migrate(volume_id, FAST, force_host_copy=value)).status == status
    await cloud.settle()
    at = FAST if status == 202 else SLOW
    assert await cloud.there() == {at: [volume_id]}


async def test_a_volume_comes_to_another_host_and_back(cloud: Movers) -> None:
    volume_id = await cloud.make()
    for pool in (FAR, SLOW):
        assert (await cloud.migrate(volume_id, pool)).status == 202
        await cloud.settle()
        assert await cloud.stands(volume_id) == ("available", "success", pool)
        assert await cloud.there() == {pool: [volume_id]}
        assert (await cloud.captures(), await cloud.images()) == ([], [])


@pytest.mark.parametrize(("lock", "status"), [(True, "maintenance"), (False, "available")])
async def test_who_asks_decides_whether_it_can_be_had_meanwhile(
    cloud: Movers, status: str, *, lock: bool
) -> None:
    volume_id = await cloud.make()
    cloud.pool(FAST).knobs.hold("create")
    await cloud.migrate(volume_id, FAST, lock_volume=lock)
    assert await cloud.stands(volume_id) == (status, "migrating", SLOW)
    shown = (await cloud.ask("GET", f"{VOLUMES}/{volume_id}")).key("volume")
    assert "migration_status" not in shown
    cloud.pool(FAST).knobs.release("create")
    await cloud.settle()
    assert await cloud.stands(volume_id) == ("available", "success", FAST)


async def test_a_migration_that_fails_leaves_the_volume_as_it_was(cloud: Movers) -> None:
    volume_id = await cloud.make()
    cloud.pool(FAST).knobs.fail("create", NoCapacity("The pool is full."))
    assert (await cloud.migrate(volume_id, FAST, lock_volume=True)).status == 202
    await cloud.settle()
    assert await cloud.stands(volume_id) == ("available", "error", SLOW)
    assert await cloud.there() == {SLOW: [volume_id]}
    await cloud.migrate(volume_id, FAST)
    await cloud.settle()
    assert await cloud.stands(volume_id) == ("available", "success", FAST)


async def test_a_capture_that_fails_leaves_nothing_anywhere(cloud: Movers) -> None:
    volume_id = await cloud.make()
    cloud.pool(FAR).knobs.fail("create", NoCapacity("The pool is full."))
    await cloud.migrate(volume_id, FAR)
    await cloud.settle()
    assert await cloud.stands(volume_id) == ("available", "error", SLOW)
    assert await cloud.there() == {SLOW: [volume_id]}
    assert (await cloud.captures(), await cloud.images()) == ([], [])


REFUSED: dict[str, tuple[str | None, dict[str, Any], bytes]] = {
    "its own pool": (SLOW, {}, b"must be different"),
    "no pool": ("h1@simulated#none", {}, b"there is none"),
    "a host alone": ("h1", {}, b"there is none"),
    "a cluster": (None, {"cluster": "c"}, b"no clusters"),
    "nothing": (None, {}, b"host@backend#pool"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
async def test_where_it_cannot_go_is_refused_at_once(cloud: Movers, case: str) -> None:
    host, fields, words = REFUSED[case]
    volume_id = await cloud.make()
    value = fields if host is None else {"host": host, **fields}
    answer = await cloud.act(volume_id, "os-migrate_volume", value)
    assert answer.status == 400
    assert words in answer.content
    assert await cloud.stands(volume_id) == ("available", None, SLOW)


async def test_a_pool_that_is_too_small_is_refused_and_so_is_one_that_fills_up(
    cloud: Movers,
) -> None:
    # The pool promises twenty times what it has.
    large, one, other = [await cloud.make(size=size) for size in (21, 11, 11)]
    assert (await cloud.migrate(large, SMALL)).status == 400
    cloud.pool(SMALL).knobs.hold("create")
    assert (await cloud.migrate(one, SMALL)).status == 202
    answer = await cloud.migrate(other, SMALL)
    assert answer.status == 400
    assert b"cannot take volume" in answer.content
    cloud.pool(SMALL).knobs.release("create")
    await cloud.settle()
    assert await cloud.stands(one) == ("available", "success", SMALL)


async def test_members_migrate_nothing(cloud: Movers) -> None:
    volume_id = await cloud.make()
    value = {"host": FAST}
    answer = await cloud.act(volume_id, "os-migrate_volume", value, user="demo")
    assert answer.status == 403


BUSY = {
    "reserved": {"os-reserve": None},
    "error": {"os-reset_status": {"status": "error"}},
    "in-use": {"os-attach": {"mountpoint": "/dev/vdb", "host_name": "h1"}},
    "migrating": {"os-reset_status": {"migration_status": "migrating"}},
}


@pytest.mark.parametrize("what", sorted(BUSY))
async def test_a_volume_that_nobody_can_let_go_on_is_not_migrated(cloud: Movers, what: str) -> None:
    volume_id = await cloud.make()
    [(action, value)] = BUSY[what].items()
    assert (await cloud.act(volume_id, action, value)).status == 202
    before = await cloud.stands(volume_id)
    answer = await cloud.migrate(volume_id, FAST)
    assert answer.status == 400
    # One in use goes under its server's guest (tests/compute/test_migrated_in_use.py).
    words = b"attached to no server" if what == "in-use" else b"must be available"
    assert words in answer.content
    assert await cloud.stands(volume_id) == before


async def test_a_volume_with_snapshots_stays(cloud: Movers) -> None:
    volume_id = await cloud.make()
    body = {"snapshot": {"volume_id": volume_id}}
    await cloud.ask("POST", "/volume/v3/snapshots", body)
    await cloud.settle()
    answer = await cloud.migrate(volume_id, FAST)
    assert answer.status == 400
    assert b"has snapshots" in answer.content


MEANWHILE = {
    "os-extend": {"new_size": 2},
    "os-migrate_volume": {"host": FAST},
    "os-retype": {"new_type": "__DEFAULT__"},
    "os-volume_upload_image": {"image_name": "picture", "disk_format": "qcow2"},
    "os-force_delete": None,
}


@pytest.mark.parametrize("action", sorted(MEANWHILE))
async def test_nothing_is_done_to_it_meanwhile(cloud: Movers, action: str) -> None:
    volume_id = await cloud.make()
    cloud.pool(FAST).knobs.hold("create")
    await cloud.migrate(volume_id, FAST)
    assert (await cloud.act(volume_id, action, MEANWHILE[action])).status in {400, 409}
    assert await cloud.stands(volume_id) == ("available", "migrating", SLOW)
    cloud.pool(FAST).knobs.release("create")
    await cloud.settle()
    assert await cloud.stands(volume_id) == ("available", "success", FAST)
    assert await cloud.there() == {FAST: [volume_id]}


async def test_a_reset_behind_the_switch_brings_it_to_its_end_first(cloud: Movers) -> None:
    volume_id = await cloud.make()
    silence = Silence(cloud, ("h1", "PUT", "/copies/"))
    await cloud.migrate(volume_id, FAST)
    await cloud.pass_time(20.0)
    assert await cloud.stands(volume_id) == ("available", "completing", FAST)
    reset = {"status": "available", "migration_status": "none"}
    answer = await cloud.act(volume_id, "os-reset_status", reset)
    assert answer.status == 202
    assert await cloud.stands(volume_id) == ("available", "completing", FAST)
    attach = {"connector": {"host": "h1"}}
    assert (await cloud.act(volume_id, "os-initialize_connection", attach)).status == 409
    silence.end()
    await cloud.settle()
    assert await cloud.stands(volume_id) == ("available", None, FAST)
    assert await cloud.there() == {FAST: [volume_id]}


@pytest.mark.parametrize(("asked", "shown"), [("", "error"), ("none", None)])
async def test_a_reset_before_the_switch_leaves_it_where_it_was(
    cloud: Movers, asked: str, shown: str | None
) -> None:
    volume_id = await cloud.make()
    # There is a copy, and nobody has heard of it.
    lost = ("h2", "PUT", "/volumes/"), ("h2", "DELETE", "/volumes/")
    silence = Silence(cloud, *lost, heard=True, spared=volume_id)
    await cloud.migrate(volume_id, FAR, lock_volume=True)
    await cloud.pass_time(20.0)
    assert await cloud.stands(volume_id) == ("maintenance", "migrating", SLOW)
    value = {"status": "available", "migration_status": asked} if asked else {"status": "available"}
    await cloud.act(volume_id, "os-reset_status", value)
    assert await cloud.stands(volume_id) == ("available", shown, SLOW)
    silence.end()
    await cloud.settle()
    assert await cloud.stands(volume_id) == ("available", shown, SLOW)
    assert await cloud.there() == {SLOW: [volume_id]}
    assert (await cloud.captures(), await cloud.images()) == ([], [])


async def test_what_the_volume_was_goes_late_and_takes_nothing_that_came_back(
    cloud: Movers,
) -> None:
    volume_id = await cloud.make()
    silence = Silence(cloud, ("h1", "DELETE", f"/volumes/{volume_id}"))
    await cloud.migrate(volume_id, FAR)
    await cloud.pass_time(20.0)
    assert await cloud.stands(volume_id) == ("available", "success", FAR)
    await cloud.act(volume_id, "os-reset_status", {"migration_status": "none"})
    await cloud.pass_time(5.0)
    await cloud.look_at_hosts()
    assert (await cloud.migrate(volume_id, FAST)).status == 202
    await cloud.pass_time(5.0)
    assert await cloud.stands(volume_id) == ("available", "migrating", FAR)
    silence.end()
    await cloud.settle()
    assert await cloud.stands(volume_id) == ("available", "success", FAST)
    assert await cloud.there() == {FAST: [volume_id]}


async def test_what_the_volume_was_goes_however_often_its_host_keeps_it(cloud: Movers) -> None:
    volume_id = await cloud.make()
    knobs = cloud.pool(SLOW).knobs
    knobs.fail("delete", Conflict("It is in use."), times=3 * KEPT)
    await cloud.migrate(volume_id, FAR)
    while knobs.passed.get("delete", 0) < KEPT:
        await cloud.pass_time(1.0)
    await cloud.act(volume_id, "os-reset_status", {"status": "available"})
    await cloud.settle()
    assert await cloud.stands(volume_id) == ("available", "success", FAR)
    assert await cloud.there() == {FAR: [volume_id]}
    assert await cloud.complaints() == []


async def test_a_forced_deletion_behind_the_switch_leaves_nothing(cloud: Movers) -> None:
    volume_id = await cloud.make()
    silence = Silence(cloud, ("h1", "PUT", "/copies/"))
    await cloud.migrate(volume_id, FAST)
    await cloud.pass_time(20.0)
    assert (await cloud.act(volume_id, "os-force_delete", None)).status == 202
    await cloud.settle()
    silence.end()
    await cloud.settle()
    assert await cloud.there() == {}


async def test_while_the_copy_gets_its_id_there_is_the_copy(cloud: Movers) -> None:
    volume_id = await cloud.make()
    cloud.pool(FAST).knobs.hold("rename")
    await cloud.migrate(volume_id, FAST)
    await cloud.pool(FAST).knobs.held("rename")
    there = await cloud.there()
    assert list(there) == [FAST]
    assert there[FAST] != [volume_id]
    cloud.pool(FAST).knobs.release("rename")
    await cloud.settle()
    assert await cloud.there() == {FAST: [volume_id]}
    assert await cloud.stands(volume_id) == ("available", "success", FAST)
