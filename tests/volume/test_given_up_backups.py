"""Backups and restores that are given up: by a store that stays away, a reset, a deletion."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Unavailable
from tests.cloud import SimulatedCloud
from tests.volume.backing_up import (
    BACKUPS,
    VOLUMES,
    act,
    backup,
    begun,
    captures,
    images,
    make_volume,
    restore,
    snapshot_of,
    status,
    storage,
    stored,
    the_store,
)

pytestmark = pytest.mark.anyio
OPERATIONS = "/volume/v3/mooring/operations"
RESET = {"os-reset_status": {"status": "available"}}


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path, database=database) as opened:
        yield opened


async def test_a_store_that_cannot_be_reached_is_waited_for(cloud: SimulatedCloud) -> None:
    volume_id, store = await make_volume(cloud), the_store(cloud)
    away = store.rename(store.with_name("away"))
    backup_id = await begun(cloud, volume_id)
    for _ in range(3):
        await asyncio.sleep(0)
    assert (await backup(cloud, backup_id))["status"] == "creating"
    away.rename(store)
    await cloud.settle()
    assert (await backup(cloud, backup_id))["status"] == "available"


async def test_a_store_that_stays_away_keeps_the_volume_no_longer_than_it_may(
    cloud: SimulatedCloud,
) -> None:
    volume_id, store = await make_volume(cloud), the_store(cloud)
    away = store.rename(store.with_name("away"))
    backup_id = await begun(cloud, volume_id)
    await cloud.settle(3 * 3600.0)
    assert await cloud.unfinished() == []
    assert await status(cloud, volume_id) == "available"
    shown = await backup(cloud, backup_id)
    assert shown["status"] == "error"
    assert "deleting this removes it" in shown["fail_reason"]
    assert captures(cloud) == []
    # What came before the store went away.
    (away / backup_id).mkdir()
    (away / backup_id / "piece").touch()
    away.rename(store)
    [found] = await cloud.complaints()
    assert found == f"backup {backup_id}: it failed, and some of its data are left in the store"
    assert (await cloud.ask("DELETE", f"{BACKUPS}/{backup_id}")).status == 202
    await cloud.settle()
    assert await cloud.complaints() == []


async def test_an_operator_forgoes_what_a_store_that_stays_away_is_owed(
    cloud: SimulatedCloud,
) -> None:
    volume_id, store = await make_volume(cloud), the_store(cloud)
    away = store.rename(store.with_name("away"))
    await begun(cloud, volume_id)
    await cloud.pass_time(30.0)
    assert any("store_data" in line for line in await cloud.unfinished())
    reset = await cloud.do("POST", f"{VOLUMES}/{volume_id}/action", RESET, user="admin")
    assert reset is not None
    assert reset.status == 202
    await cloud.pass_time(600.0)
    assert await status(cloud, volume_id) == "available"
    [owing] = (await cloud.ask("GET", OPERATIONS, user="admin")).key("operations")
    assert owing["status"] in {"owing", "stuck", "waiting"}
    path = f"{OPERATIONS}/{owing['id']}/action"
    assert (await cloud.ask("POST", path, {"abort": None}, user="admin")).status == 202
    await cloud.settle()
    assert await cloud.unfinished() == []
    away.rename(store)
    assert await cloud.complaints() == []


async def test_a_reset_of_the_volume_gives_the_backup_up(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    storage(cloud).knobs.hold("capture")
    backup_id = await begun(cloud, volume_id)
    await storage(cloud).knobs.held("capture")
    reset = await act(cloud, volume_id, "os-reset_status", {"status": "available"}, user="admin")
    assert reset.status == 202
    storage(cloud).knobs.release("capture")
    await cloud.settle()
    assert await status(cloud, volume_id) == "available"
    assert (await backup(cloud, backup_id))["status"] == "error"
    assert (stored(cloud), captures(cloud)) == ([], [])
    assert await cloud.complaints() == []


async def test_a_reset_keeps_the_target_until_its_host_has_ended_the_copy(
    cloud: SimulatedCloud,
) -> None:
    backup_id = await begun(cloud, await make_volume(cloud))
    await cloud.settle()
    target, knobs = await make_volume(cloud), storage(cloud).knobs
    knobs.hold("replace")
    await restore(cloud, backup_id, volume_id=target)
    await knobs.held("replace")
    deliver = cloud.deliver_to_host
    cloud.deliver_to_host = lose
    reset = await cloud.do("POST", f"{VOLUMES}/{target}/action", RESET, user="admin")
    assert reset is not None
    assert reset.status == 202
    assert await status(cloud, target) == "available"
    await cloud.pass_time(600.0)
    assert any("reset_status" in line and "end_copy" in line for line in await cloud.unfinished())
    cloud.deliver_to_host = deliver
    await cloud.settle()
    assert storage(cloud).content(target) == ""
    assert (await backup(cloud, backup_id))["status"] == "available"
    assert images(cloud) == []
    assert await cloud.complaints() == []


async def lose(request: Request, forward: Forward) -> Response:
    del request, forward
    raise Unavailable("The host cannot be reached.")


async def test_a_deletion_of_the_target_gives_the_restore_up(cloud: SimulatedCloud) -> None:
    backup_id = await begun(cloud, await make_volume(cloud))
    await cloud.settle()
    target = await make_volume(cloud)
    storage(cloud).knobs.hold("replace")
    await restore(cloud, backup_id, volume_id=target)
    await storage(cloud).knobs.held("replace")
    deleted = await act(cloud, target, "os-force_delete", None, user="admin")
    assert deleted.status == 202
    storage(cloud).knobs.release("replace")
    await cloud.settle()
    assert (await cloud.ask("GET", f"{VOLUMES}/{target}")).status == 404
    assert (await backup(cloud, backup_id))["status"] == "available"
    assert images(cloud) == []
    assert await cloud.complaints() == []


@asynccontextmanager
async def silent(cloud: SimulatedCloud, method: str, path: str) -> AsyncGenerator[None]:
    """Let nobody answer this kind of call while the block runs."""
    deliver = cloud.deliver_to_host

    async def lose_some(request: Request, forward: Forward) -> Response:
        if request.method == method and path in request.path:
            raise Unavailable("The host cannot be reached.")
        return await deliver(request, forward)

    cloud.deliver_to_host = lose_some
    try:
        yield
    finally:
        cloud.deliver_to_host = deliver


@pytest.mark.parametrize("heir", ["os-reset_status", "os-force_delete"])
async def test_a_backup_that_was_shown_outlives_whoever_takes_its_volume(
    cloud: SimulatedCloud, heir: str
) -> None:
    volume_id = await make_volume(cloud)
    async with silent(cloud, "DELETE", "/captures"):
        backup_id = await begun(cloud, volume_id)
        await cloud.pass_time(60.0)
        assert (await backup(cloud, backup_id))["status"] == "available"
        value = {"status": "available"} if heir == "os-reset_status" else None
        action = f"{VOLUMES}/{volume_id}/action"
        answer = await cloud.do("POST", action, {heir: value}, user="admin")
        assert answer is not None
        assert answer.status == 202
        await cloud.pass_time(600.0)
    await cloud.settle()
    assert await cloud.unfinished() == []
    assert (await backup(cloud, backup_id))["status"] == "available"
    assert stored(cloud) == [backup_id]
    assert captures(cloud) == []
    assert await cloud.complaints() == []


@pytest.mark.parametrize("to_new", [False, True])
async def test_a_backup_whose_restore_was_shown_keeps_what_was_said_of_it_since(
    cloud: SimulatedCloud, to_new: bool
) -> None:
    backup_id, target = await begun(cloud, await make_volume(cloud)), await make_volume(cloud)
    await cloud.settle()
    async with silent(cloud, "DELETE", "/images"):
        fields = {} if to_new else {"volume_id": target}
        answer = await cloud.do("POST", f"{BACKUPS}/{backup_id}/restore", {"restore": fields})
        assert answer is not None
        target = answer.key("restore")["volume_id"]
        await cloud.pass_time(60.0)
        assert await status(cloud, target) == "available"
        body = {"os-reset_status": {"status": "error"}}
        said = await cloud.do("POST", f"{BACKUPS}/{backup_id}/action", body, user="admin")
        assert said is not None
        assert said.status == 202
        reset = await cloud.do("POST", f"{VOLUMES}/{target}/action", RESET, user="admin")
        assert reset is not None
        assert reset.status == 202
        await cloud.pass_time(600.0)
    await cloud.settle()
    assert await cloud.unfinished() == []
    assert (await backup(cloud, backup_id))["status"] == "error"
    assert images(cloud) == []


@pytest.mark.parametrize("of_snapshot", [False, True])
async def test_a_backup_waits_for_no_host_once_it_is_shown(
    cloud: SimulatedCloud, of_snapshot: bool
) -> None:
    volume_id = await make_volume(cloud)
    fields = {"snapshot_id": await snapshot_of(cloud, volume_id)} if of_snapshot else {}
    target = await make_volume(cloud)
    async with silent(cloud, "DELETE", "/captures"):
        backup_id = await begun(cloud, volume_id, **fields)
        await cloud.pass_time(60.0)
        assert (await backup(cloud, backup_id))["status"] == "available"
        restored = await ask(cloud, f"{BACKUPS}/{backup_id}/restore", volume_id=target)
        assert restored == 202
        await cloud.pass_time(60.0)
        assert await status(cloud, target) == "available"
        deleted = await cloud.do("DELETE", f"{BACKUPS}/{backup_id}")
        assert deleted is not None
        assert deleted.status == 202
        await cloud.pass_time(60.0)
        assert (await cloud.ask("GET", f"{BACKUPS}/{backup_id}")).status == 404
        assert captures(cloud) != []
    await cloud.settle()
    assert (stored(cloud), captures(cloud)) == ([], [])
    assert await cloud.complaints() == []


@pytest.mark.parametrize("to_new", [False, True])
async def test_a_backup_waits_for_no_host_it_was_restored_to(
    cloud: SimulatedCloud, to_new: bool
) -> None:
    backup_id, target = await begun(cloud, await make_volume(cloud)), await make_volume(cloud)
    other = await make_volume(cloud)
    await cloud.settle()
    path = f"{BACKUPS}/{backup_id}/restore"
    async with silent(cloud, "DELETE", "/images"):
        assert await ask(cloud, path, **({} if to_new else {"volume_id": target})) == 202
        await cloud.pass_time(60.0)
        assert (await backup(cloud, backup_id))["status"] == "available"
        assert await ask(cloud, path, volume_id=other) == 202
        await cloud.pass_time(60.0)
        assert await status(cloud, other) == "available"
        deleted = await cloud.do("DELETE", f"{BACKUPS}/{backup_id}")
        assert deleted is not None
        assert deleted.status == 202
        await cloud.pass_time(60.0)
        assert (await cloud.ask("GET", f"{BACKUPS}/{backup_id}")).status == 404
    await cloud.settle()
    assert (stored(cloud), images(cloud)) == ([], [])
    assert await cloud.complaints() == []


async def ask(cloud: SimulatedCloud, path: str, **fields: str) -> int:
    """Ask for a restore, and return the answer's status."""
    answer = await cloud.do("POST", path, {"restore": fields})
    assert answer is not None
    return answer.status
