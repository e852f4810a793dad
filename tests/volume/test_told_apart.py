"""Migrations between hosts that see one storage, and what is left where nobody may remove it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import select, update

from mooring.saga.tables import SagaRow
from mooring.volume.tables import BackendRow
from tests.volume.movers import FAR, FAST, SLOW, Movers, Silence

pytestmark = pytest.mark.anyio
LINKED = ["slow", "fast"]
"""Pools of h1: the one that a volume comes from, and another one of its host."""


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[Movers]:
    async with Movers(tmp_path, database) as opened:
        yield opened


@pytest.fixture
async def sharing(
    tmp_path: Path, database: str, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[Movers]:
    """A cloud whose h2 has the storage of a pool of h1, under another name."""
    made = Movers(tmp_path, database)
    here, there = (made.hosts[name].state_dir for name in ("h1", "h2"))
    there.mkdir(parents=True)
    (there / "pool-far.sqlite").symlink_to(here / f"pool-{request.param}.sqlite")
    async with made as opened:
        yield opened


async def name_pool(cloud: Movers, name: str, identity: str) -> None:
    """Let the control plane believe that of a pool, until its host is heard again."""
    named = update(BackendRow).where(BackendRow.name == name).values(identity=identity)
    await cloud.cloud.stores["volume"].write(lambda tx: tx.execute(named))


@pytest.mark.parametrize("sharing", LINKED, indirect=True)
async def test_a_host_that_has_the_storage_of_both_pools_gets_no_volume(sharing: Movers) -> None:
    volume_id = await sharing.make()
    before = await sharing.there()
    assert volume_id in before[SLOW]
    answer = await sharing.migrate(volume_id, FAR)
    assert answer.status == 400
    assert b"has the storage of both" in answer.content
    assert await sharing.stands(volume_id) == ("available", None, SLOW)
    assert await sharing.there() == before


@pytest.mark.parametrize("sharing", LINKED, indirect=True)
async def test_no_type_brings_a_volume_there_either(sharing: Movers) -> None:
    volume_id = await sharing.make()
    before = await sharing.there()
    body = {"volume_type": {"name": "t", "extra_specs": {"volume_backend_name": "far"}}}
    assert (await sharing.ask("POST", "/volume/v3/types", body, user="admin")).status == 200
    value = {"new_type": "t", "migration_policy": "on-demand"}
    answer = await sharing.act(volume_id, "os-retype", value, user="demo")
    assert answer.status == 400
    assert b"storage of both" in answer.content
    assert await sharing.there() == before


@pytest.mark.parametrize("sharing", LINKED, indirect=True)
async def test_its_hosts_are_asked_before_anything_is_removed(sharing: Movers) -> None:
    volume_id = await sharing.make()
    before = await sharing.there()
    await name_pool(sharing, FAR, "another")
    assert (await sharing.migrate(volume_id, FAR)).status == 202
    await sharing.settle()
    assert await sharing.stands(volume_id) == ("available", "error", SLOW)
    assert await sharing.there() == before


@pytest.mark.parametrize("name", [SLOW, FAST, FAR])
async def test_what_cannot_be_told_apart_is_taken_for_one(cloud: Movers, name: str) -> None:
    volume_id = await cloud.make()
    await name_pool(cloud, name, "")
    answer = await cloud.migrate(volume_id, FAR)
    assert answer.status == 400
    assert b"cannot be told apart" in answer.content
    assert (await cloud.migrate(volume_id, FAST)).status == 202
    await cloud.settle()
    assert await cloud.stands(volume_id) == ("available", "success", FAST)


async def start_far(cloud: Movers) -> tuple[str, Silence, str]:
    """Bring a volume behind its switch, where the new host is silent; return the saga as well."""
    volume_id = await cloud.make()
    silence = Silence(cloud, ("h2", "PUT", "/copies/"))
    await cloud.migrate(volume_id, FAR)
    await cloud.pass_time(20.0)
    assert await cloud.stands(volume_id) == ("available", "completing", FAR)
    query = select(SagaRow.id).where(SagaRow.name == "volume.migrate_volume")
    store = cloud.cloud.stores["volume"]
    return volume_id, silence, await store.read(lambda tx: tx.execute(query).scalar_one())


async def test_what_the_volume_was_stays_until_the_copy_is_the_volume(cloud: Movers) -> None:
    volume_id, silence, _ = await start_far(cloud)
    await cloud.act(volume_id, "os-reset_status", {"status": "available"})
    await cloud.pass_time(60.0)
    assert (await cloud.there())[SLOW] == [volume_id]
    silence.end()
    await cloud.settle()
    assert await cloud.stands(volume_id) == ("available", "success", FAR)
    assert await cloud.there() == {FAR: [volume_id]}


async def test_who_lets_go_of_it_leaves_it_for_the_doctor(cloud: Movers) -> None:
    volume_id, silence, saga_id = await start_far(cloud)
    await cloud.act(volume_id, "os-reset_status", {"status": "available"})
    await cloud.pass_time(60.0)
    engine = cloud.cloud.engines["volume"]
    await engine.store.write(lambda tx: engine.abort(tx, saga_id, insists=True))
    silence.end()
    await cloud.settle()
    assert await cloud.there() == {SLOW: [volume_id], FAR: [volume_id]}
    assert await cloud.complaints() == [
        f"volume {volume_id}: storage in pool slow of host h1, and the volume is in {FAR}"
    ]


async def test_a_forced_deletion_meanwhile_leaves_nothing(cloud: Movers) -> None:
    volume_id, silence, _ = await start_far(cloud)
    assert (await cloud.act(volume_id, "os-force_delete", None)).status == 202
    await cloud.settle()
    silence.end()
    await cloud.settle()
    assert await cloud.there() == {}


@pytest.mark.parametrize("pool", [FAST, FAR])
async def test_the_doctor_knows_the_copy_of_a_volume_on_its_way(cloud: Movers, pool: str) -> None:
    volume_id = await cloud.make()
    cloud.pool(pool).knobs.hold("rename")
    await cloud.migrate(volume_id, pool)
    await cloud.pool(pool).knobs.held("rename")
    assert [each for each in await cloud.complaints() if each.startswith("volume ")] == []
    cloud.pool(pool).knobs.release("rename")
    await cloud.settle()
    assert await cloud.complaints() == []


@pytest.mark.parametrize("sharing", ["slow"], indirect=True)
async def test_the_doctor_takes_no_storage_that_two_hosts_see_for_a_leftover(
    sharing: Movers,
) -> None:
    await sharing.make()
    assert await sharing.complaints() == []


async def test_a_reset_of_the_migration_alone_gives_a_locked_volume_back(cloud: Movers) -> None:
    volume_id = await cloud.make()
    lost = ("h2", "PUT", "/volumes/"), ("h2", "DELETE", "/volumes/")
    silence = Silence(cloud, *lost, heard=True, spared=volume_id)
    await cloud.migrate(volume_id, FAR, lock_volume=True)
    await cloud.pass_time(20.0)
    assert await cloud.stands(volume_id) == ("maintenance", "migrating", SLOW)
    await cloud.act(volume_id, "os-reset_status", {"migration_status": "none"})
    assert await cloud.stands(volume_id) == ("available", None, SLOW)
    silence.end()
    await cloud.settle()
    assert await cloud.stands(volume_id) == ("available", None, SLOW)
    assert await cloud.there() == {SLOW: [volume_id]}
