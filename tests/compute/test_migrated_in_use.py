"""Volumes that are migrated and retyped under the guest that has them, through both services."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.agent.settings import PoolSettings
from mooring.errors import Conflict, NoCapacity
from tests.compute.moving_volumes import FAR, FAST, OWN, SLOW, MovingVolumes, prepared_volumes
from tests.kept import Keeper

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(keeper: Keeper, database: str) -> AsyncIterator[MovingVolumes]:
    async with prepared_volumes(keeper, database=database) as opened:
        yield opened


async def check_usable(cloud: MovingVolumes, server_id: str, volume_id: str, pool: str) -> None:
    """See that the volume grows, and is stopped with its server, detached and attached."""
    await cloud.look_at_hosts()
    extend = {"new_size": 2}
    answer = await cloud.act_on(volume_id, "os-extend", extend, user="admin", version="3.71")
    assert answer.status == 202, answer.text
    await cloud.settle()
    await cloud.check(server_id, volume_id, "success", pool)
    size = await cloud.known_agents["host1"].show_disk_size(server_id, volume_id)
    assert size.guest_bytes == size.image_bytes == 2 << 30
    for action in ("os-stop", "os-start"):
        # Time has passed for whoever waited.
        await cloud.look_at_hosts()
        answer = await cloud.ask("POST", f"/servers/{server_id}/action", {action: None})
        assert answer.status == 202, (action, answer.text)
        await cloud.settle()
    await cloud.check(server_id, volume_id, "success", pool)
    assert (await cloud.detach(server_id, volume_id)).status == 202
    await cloud.settle()
    assert await cloud.disks(server_id) == []
    assert await cloud.stands(volume_id) == ("available", "success", pool)
    assert (await cloud.attach(server_id, volume_id)).status < 300
    await cloud.settle()
    await cloud.check(server_id, volume_id, "success", pool)


@pytest.mark.parametrize("pool", [FAST, FAR])
async def test_a_volume_comes_to_another_pool_under_its_guest(
    cloud: MovingVolumes, pool: str
) -> None:
    server_id, volume_id = await cloud.prepare()
    before = await cloud.show_volume(volume_id)
    [was] = await cloud.attachments(server_id)
    assert (await cloud.migrate(volume_id, pool)).status == 202
    await cloud.settle()
    await cloud.check(server_id, volume_id, "success", pool)
    after = await cloud.show_volume(volume_id)
    changed = {key for key in before if before[key] != after[key]}
    host, status = "os-vol-host-attr:host", "os-vol-mig-status-attr:migstat"
    may = {host, status, "migration_status", "updated_at", "service_uuid", "attachments"}
    assert changed <= may
    [now] = await cloud.attachments(server_id)
    assert now == {**was, "attachment_id": now["attachment_id"]}
    assert (await cloud.actions(server_id))[-1] == ("swap_volume", None)
    await check_usable(cloud, server_id, volume_id, pool)


async def test_it_does_not_come_to_a_pool_of_the_same_directory(
    tmp_path: Path, database: str
) -> None:
    cloud = MovingVolumes(tmp_path, database=database)
    pools = tuple(PoolSettings(name=name, format="raw") for name in ("slow", "fast"))
    cloud.hosts["host1"] = replace(cloud.hosts["host1"], pools=pools)
    # A new volume goes where there is more room.
    small = PoolSettings(driver="simulated", name="far", total_gib=1)
    cloud.hosts["host2"] = replace(cloud.hosts["host2"], pools=(small,))
    async with cloud:
        server_id, volume_id = await cloud.prepare()
        _, _, here = await cloud.stands(volume_id)
        (there,) = {"host1@directory#slow", "host1@directory#fast"} - {here}
        refused = await cloud.migrate(volume_id, there)
        assert (refused.status, "directory or share" in refused.text) == (400, True), refused.text
        assert await cloud.stands(volume_id) == ("in-use", None, here)
        assert await cloud.disks(server_id) != []


async def test_it_goes_on_and_comes_back(cloud: MovingVolumes) -> None:
    server_id, volume_id = await cloud.prepare()
    for pool in (FAST, FAR, SLOW):
        assert (await cloud.migrate(volume_id, pool)).status == 202
        await cloud.settle()
        await cloud.check(server_id, volume_id, "success", pool)
    await cloud.look_at_hosts()
    assert await cloud.act(server_id, "reboot", {"type": "HARD"}) == 202
    await cloud.settle()
    await cloud.check(server_id, volume_id, "success", SLOW)


async def make_type(cloud: MovingVolumes, name: str, pool: str) -> None:
    specs = {"name": name, "extra_specs": {"volume_backend_name": pool}}
    await cloud.volume_api("POST", "/types", {"volume_type": specs}, user="admin")


async def test_a_retype_on_demand_brings_it_to_a_pool_of_the_type(cloud: MovingVolumes) -> None:
    server_id, volume_id = await cloud.prepare()
    await make_type(cloud, "quick", "fast")
    value = {"new_type": "quick", "migration_policy": "never"}
    assert (await cloud.act_on(volume_id, "os-retype", value)).status == 400
    cloud.hypervisor().lagging.add(volume_id)
    value = {"new_type": "quick", "migration_policy": "on-demand"}
    assert (await cloud.act_on(volume_id, "os-retype", value)).status == 202
    await cloud.pass_time(10.0)
    assert await cloud.stands(volume_id) == ("retyping", "migrating", SLOW)
    assert (await cloud.show_volume(volume_id))["volume_type"] != "quick"
    cloud.hypervisor().lagging.clear()
    await cloud.settle()
    await cloud.check(server_id, volume_id, "success", FAST)
    assert (await cloud.show_volume(volume_id))["volume_type"] == "quick"
    await check_usable(cloud, server_id, volume_id, FAST)


async def quota(cloud: MovingVolumes) -> dict[str, Any]:
    project = cloud.project_id
    found = await cloud.volume_api("GET", f"/os-quota-sets/{project}?usage=true", user="admin")
    return {key: found["quota_set"][key]["in_use"] for key in ("volumes", "gigabytes")}


async def test_meanwhile_its_copy_is_nobodys(cloud: MovingVolumes) -> None:
    server_id, volume_id = await cloud.prepare()
    cloud.hypervisor().lagging.add(volume_id)
    counted = await quota(cloud)
    await cloud.migrate(volume_id, FAST)
    await cloud.pass_time(10.0)
    assert await cloud.stands(volume_id) == ("in-use", "migrating", SLOW)
    copy_id = await cloud.copy_of(volume_id)
    assert await quota(cloud) == counted
    # Its project sees neither it nor its attachment.
    listed = await cloud.volume_api("GET", "/volumes")
    assert [one["id"] for one in listed["volumes"]] == [volume_id]
    assert await cloud.volume_status(copy_id) == "gone"
    found = await cloud.volume_api("GET", "/attachments")
    assert {one["volume_id"] for one in found["attachments"]} == {volume_id}
    assert [one["volumeId"] for one in await cloud.attachments(server_id)] == [volume_id]
    shown = (await cloud.server(server_id))["os-extended-volumes:volumes_attached"]
    assert [one["id"] for one in shown] == [volume_id]
    pools = await cloud.volume_api("GET", "/scheduler-stats/get_pools?detail=true", user="admin")
    held = {one["name"]: one["capabilities"]["provisioned_capacity_gb"] for one in pools["pools"]}
    assert (held[SLOW], held[FAST]) == (1, 1)
    # An administrator ends it by the volume, not by its copy.
    for action, value in (("os-reset_status", {"status": "error"}), ("os-force_delete", None)):
        answer = await cloud.act_on(copy_id, action, value, user="admin")
        assert answer.status == 400, answer.text
    cloud.hypervisor().lagging.clear()
    await cloud.settle()
    await cloud.check(server_id, volume_id, "success", FAST)
    assert await quota(cloud) == counted


@pytest.mark.parametrize("action", ["os-extend", "os-migrate_volume", "os-retype"])
async def test_nothing_else_is_done_to_it_meanwhile(cloud: MovingVolumes, action: str) -> None:
    server_id, volume_id = await cloud.prepare()
    values = {
        "os-extend": {"new_size": 2},
        "os-migrate_volume": {"host": FAR},
        "os-retype": {"new_type": "__DEFAULT__"},
    }
    cloud.hypervisor().lagging.add(volume_id)
    await cloud.migrate(volume_id, FAST)
    await cloud.pass_time(10.0)
    answer = await cloud.act_on(volume_id, action, values[action], user="admin", version="3.71")
    assert answer.status in {400, 409}
    assert (await cloud.detach(server_id, volume_id)).status in {400, 409}
    snapshot = {"snapshot": {"volume_id": volume_id, "force": True}}
    answer = await cloud.ask("POST", "/volume/v3/snapshots", snapshot, version="3.60")
    assert answer.status == 400
    cloud.hypervisor().lagging.clear()
    await cloud.settle()
    await cloud.check(server_id, volume_id, "success", FAST)


# -- refused -----------------------------------------------------------------------------------


async def test_where_its_host_does_not_reach_it_is_refused(cloud: MovingVolumes) -> None:
    server_id, volume_id = await cloud.prepare()
    answer = await cloud.migrate(volume_id, OWN)
    assert answer.status == 400
    assert b"1 not reached by the server's host" in answer.content
    await cloud.check(server_id, volume_id, None, SLOW)


async def test_a_volume_that_several_may_have_is_refused(cloud: MovingVolumes) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_shared_volume()
    await cloud.attach(server_id, volume_id)
    await cloud.settle()
    answer = await cloud.migrate(volume_id, FAST)
    assert answer.status == 400
    assert b"attached more than once" in answer.content


async def test_a_volume_with_snapshots_is_refused(cloud: MovingVolumes) -> None:
    _, volume_id = await cloud.prepare()
    snapshot = {"snapshot": {"volume_id": volume_id, "force": True}}
    await cloud.volume_api("POST", "/snapshots", snapshot)
    await cloud.settle()
    answer = await cloud.migrate(volume_id, FAST)
    assert answer.status == 400
    assert b"has snapshots" in answer.content


async def test_a_server_that_is_off_keeps_its_volume_where_it_is(cloud: MovingVolumes) -> None:
    server_id, volume_id = await cloud.prepare()
    await cloud.act(server_id, "os-stop")
    await cloud.settle()
    assert (await cloud.migrate(volume_id, FAST)).status == 202
    await cloud.settle()
    await cloud.check(server_id, volume_id, "error", SLOW)


# -- taken back --------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["mirror_disk", "mirroring", "switch_disk"])
async def test_a_host_that_refuses_leaves_the_volume_where_it_was(
    cloud: MovingVolumes, point: str
) -> None:
    server_id, volume_id = await cloud.prepare()
    cloud.hypervisor().knobs.fail(point, Conflict("The emulator will not."))
    assert (await cloud.migrate(volume_id, FAST)).status == 202
    await cloud.settle()
    await cloud.check(server_id, volume_id, "error", SLOW)
    assert (await cloud.migrate(volume_id, FAST)).status == 202
    await cloud.settle()
    await cloud.check(server_id, volume_id, "success", FAST)


@pytest.mark.parametrize("point", ["create", "export"])
async def test_a_pool_that_refuses_leaves_the_volume_where_it_was(
    cloud: MovingVolumes, point: str
) -> None:
    server_id, volume_id = await cloud.prepare()
    cloud.pool(FAST).knobs.fail(point, NoCapacity("The pool is full."))
    assert (await cloud.migrate(volume_id, FAST)).status == 202
    await cloud.settle()
    await cloud.check(server_id, volume_id, "error", SLOW)


async def abort(engine: Any, store: Any, key: str) -> None:
    def ask(tx: Any) -> None:
        (saga_id,) = engine.holders(tx, key)
        engine.abort(tx, saga_id)

    await store.write(ask)


async def test_an_operator_aborts_what_compute_does_for_it(cloud: MovingVolumes) -> None:
    server_id, volume_id = await cloud.prepare()
    cloud.hypervisor().lagging.add(volume_id)
    await cloud.migrate(volume_id, FAST)
    key = f"volume:{volume_id}"
    while not await cloud.compute.store.read(lambda tx: cloud.compute.sagas.holders(tx, key)):
        await cloud.pass_time(1.0)
    # Whether there is a way back is compute's to say.
    with pytest.raises(Conflict, match="past the point of return"):
        await abort(cloud.volume.sagas, cloud.volume.store, key)
    await abort(cloud.compute.sagas, cloud.compute.store, key)
    await cloud.settle()
    await cloud.check(server_id, volume_id, "error", SLOW)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("asked", ["", "none"])
async def test_a_reset_of_its_status_ends_it(
    cloud: MovingVolumes, asked: str, *, late: bool
) -> None:
    server_id, volume_id = await cloud.prepare()
    hypervisor = cloud.hypervisor()
    if late:
        hypervisor.knobs.hold("switch_disk")
    else:
        hypervisor.lagging.add(volume_id)
    await cloud.migrate(volume_id, FAST)
    if late:
        await hypervisor.knobs.held("switch_disk")
    else:
        await cloud.pass_time(10.0)
    value = {"status": "in-use", **({"migration_status": asked} if asked else {})}
    path = f"/volume/v3/volumes/{volume_id}/action"
    # It takes the volume from nobody who waits for compute's last word: then it goes on by itself.
    answer = await cloud.do("POST", path, {"os-reset_status": value}, user="admin", version="3.67")
    assert answer is not None
    assert answer.status == 202 or (late and answer.status == 504), answer.text
    hypervisor.knobs.release("switch_disk")
    await cloud.settle()
    shown = None if asked else "success" if late else "error"
    await cloud.check(server_id, volume_id, shown, FAST if late else SLOW)


async def test_its_server_may_be_deleted_meanwhile(cloud: MovingVolumes) -> None:
    server_id, volume_id = await cloud.prepare()
    cloud.hypervisor().lagging.add(volume_id)
    await cloud.migrate(volume_id, FAST)
    await cloud.pass_time(10.0)
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.settle()
    assert await cloud.stands(volume_id) == ("available", "error", SLOW)
    assert await cloud.there() == {SLOW: [volume_id]}
    assert await cloud.connections() == []


async def test_a_reset_of_its_servers_state_takes_it_back(cloud: MovingVolumes) -> None:
    server_id, volume_id = await cloud.prepare()
    cloud.hypervisor().lagging.add(volume_id)
    await cloud.migrate(volume_id, FAST)
    await cloud.pass_time(10.0)
    assert await cloud.act(server_id, "os-resetState", {"state": "active"}, user="admin") == 202
    await cloud.settle()
    await cloud.check(server_id, volume_id, "error", SLOW)


# -- os-migrate_volume_completion --------------------------------------------------------------


async def complete(cloud: MovingVolumes, ids: tuple[str, str], **how: Any) -> Any:
    value = {"new_volume": ids[1], "error": how.pop("error", False)}
    how = {"user": "admin", **how}
    return await cloud.act_on(ids[0], "os-migrate_volume_completion", value, **how)


async def test_only_what_waits_for_it_is_completed(cloud: MovingVolumes) -> None:
    server_id, volume_id = await cloud.prepare()
    other = await cloud.make_volume()
    assert (await complete(cloud, (volume_id, other))).status == 400
    assert (await complete(cloud, (volume_id, volume_id))).status == 400
    assert (await complete(cloud, (volume_id, other), user="member")).status == 403
    cloud.hypervisor().lagging.add(volume_id)
    await cloud.migrate(volume_id, FAST)
    await cloud.pass_time(10.0)
    copy_id = await cloud.copy_of(volume_id)
    for ids in ((volume_id, other), (other, copy_id), (copy_id, volume_id)):
        assert (await complete(cloud, ids)).status == 400
    nobody = "11111111-1111-1111-1111-111111111111"
    assert (await complete(cloud, (volume_id, nobody))).status == 404
    answer = await complete(cloud, (volume_id, copy_id), error=True)
    assert (answer.status, answer.body) == (200, {"save_volume_id": volume_id})
    assert (await complete(cloud, (volume_id, copy_id))).status == 400
    await cloud.volume_api("DELETE", f"/volumes/{other}")
    await cloud.settle()
    await cloud.check(server_id, volume_id, "error", SLOW)


async def test_a_swap_of_what_is_migrated_is_refused_to_everybody_else(
    cloud: MovingVolumes,
) -> None:
    server_id, volume_id = await cloud.prepare()
    other = await cloud.make_volume()
    mark = {"migration_status": "migrating"}
    await cloud.act_on(volume_id, "os-reset_status", mark, user="admin")
    path = f"/servers/{server_id}/os-volume_attachments/{volume_id}"
    body = {"volumeAttachment": {"volumeId": other}}
    answer = await cloud.ask("PUT", path, body, user="admin", version="2.1")
    assert answer.status == 409
