"""Volumes that get another type (facts/block_storage.md 1.6, `os-retype`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import NoCapacity
from tests.answers import Answer
from tests.volume.movers import FAST, SLOW, VOLUMES, Movers

pytestmark = pytest.mark.anyio
TYPES = "/volume/v3/types"


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[Movers]:
    async with Movers(tmp_path, database) as opened:
        yield opened


async def make_type(cloud: Movers, name: str, **extra_specs: str) -> str:
    body = {"volume_type": {"name": name, "extra_specs": extra_specs}}
    answer = await cloud.ask("POST", TYPES, body, user="admin")
    return answer.key("volume_type")["id"]


async def make_fast(cloud: Movers) -> str:
    return await make_type(cloud, "fast", pool_name="fast")


async def retype(cloud: Movers, volume_id: str, new_type: str, **fields: Any) -> Answer:
    how = {name: fields.pop(name) for name in ("user",) if name in fields}
    value = {"new_type": new_type, **fields}
    return await cloud.act(volume_id, "os-retype", value, **{"user": "demo", **how})


async def kind(cloud: Movers, volume_id: str) -> tuple[str, str, str]:
    """Return status, type and pool."""
    shown = await cloud.show(volume_id)
    return shown["status"], shown["volume_type"], shown["os-vol-host-attr:host"]


async def limit(cloud: Movers, **limits: int) -> None:
    """Set what the project may use."""
    listed = await cloud.ask("GET", VOLUMES + "/detail")
    project = listed.key("volumes")[0]["os-vol-tenant-attr:tenant_id"]
    path = f"/volume/v3/os-quota-sets/{project}"
    answer = await cloud.ask("PUT", path, {"quota_set": limits}, user="admin")
    assert answer.status == 200, answer.content


async def used(cloud: Movers, *names: str) -> list[int]:
    listed = await cloud.ask("GET", VOLUMES + "/detail")
    project = listed.key("volumes")[0]["os-vol-tenant-attr:tenant_id"]
    path = f"/volume/v3/os-quota-sets/{project}?usage=true"
    found = (await cloud.ask("GET", path, user="admin")).key("quota_set")
    return [found[name]["in_use"] for name in names]


async def test_a_type_that_the_pool_serves_is_had_at_once(cloud: Movers) -> None:
    await make_type(cloud, "plain", volume_backend_name="slow")
    volume_id = await cloud.make()
    assert (await retype(cloud, volume_id, "plain")).status == 202
    assert await kind(cloud, volume_id) == ("available", "plain", SLOW)
    names = ("volumes___DEFAULT__", "gigabytes___DEFAULT__", "volumes_plain", "gigabytes_plain")
    assert await used(cloud, *names, "volumes") == [0, 0, 1, 1, 1]


async def test_a_volume_in_use_gets_a_type_that_its_pool_serves(cloud: Movers) -> None:
    await make_type(cloud, "plain")
    volume_id = await cloud.make()
    value = {"mountpoint": "/dev/vdb", "host_name": "h1"}
    await cloud.act(volume_id, "os-attach", value)
    assert (await retype(cloud, volume_id, "plain", migration_policy="on-demand")).status == 202
    assert await kind(cloud, volume_id) == ("in-use", "plain", SLOW)


async def test_on_demand_a_volume_comes_to_a_pool_that_serves_its_type(cloud: Movers) -> None:
    await make_fast(cloud)
    volume_id = await cloud.make()
    cloud.pool(FAST).knobs.hold("create")
    assert (await retype(cloud, volume_id, "fast", migration_policy="on-demand")).status == 202
    assert await kind(cloud, volume_id) == ("retyping", "__DEFAULT__", SLOW)
    cloud.pool(FAST).knobs.release("create")
    await cloud.settle()
    assert await kind(cloud, volume_id) == ("available", "fast", FAST)
    assert await cloud.there() == {FAST: [volume_id]}
    assert await used(cloud, "volumes_fast", "volumes___DEFAULT__", "gigabytes") == [1, 0, 1]


async def test_a_retype_that_fails_leaves_the_type_and_the_quota(cloud: Movers) -> None:
    await make_fast(cloud)
    volume_id = await cloud.make()
    cloud.pool(FAST).knobs.fail("create", NoCapacity("The pool is full."))
    assert (await retype(cloud, volume_id, "fast", migration_policy="on-demand")).status == 202
    await cloud.settle()
    assert await kind(cloud, volume_id) == ("available", "__DEFAULT__", SLOW)
    assert await cloud.there() == {SLOW: [volume_id]}
    assert await used(cloud, "volumes_fast", "volumes___DEFAULT__") == [0, 1]


async def test_a_type_whose_quota_is_full_by_then_is_not_had(cloud: Movers) -> None:
    await make_fast(cloud)
    volume_id = await cloud.make()
    cloud.pool(FAST).knobs.hold("create")
    await retype(cloud, volume_id, "fast", migration_policy="on-demand")
    await limit(cloud, volumes_fast=0)
    cloud.pool(FAST).knobs.release("create")
    await cloud.settle()
    assert await kind(cloud, volume_id) == ("available", "__DEFAULT__", SLOW)
    assert await cloud.there() == {SLOW: [volume_id]}


async def test_a_type_that_is_deleted_meanwhile_is_not_had(cloud: Movers) -> None:
    type_id = await make_fast(cloud)
    volume_id = await cloud.make()
    cloud.pool(FAST).knobs.hold("create")
    await retype(cloud, volume_id, "fast", migration_policy="on-demand")
    assert (await cloud.ask("DELETE", f"{TYPES}/{type_id}", user="admin")).status == 202
    cloud.pool(FAST).knobs.release("create")
    await cloud.settle()
    assert await kind(cloud, volume_id) == ("available", "__DEFAULT__", SLOW)
    assert await cloud.there() == {SLOW: [volume_id]}


REFUSED: dict[str, tuple[str, dict[str, Any], int, bytes]] = {
    "the same type": ("__DEFAULT__", {}, 400, b"already"),
    "another pool's": ("fast", {}, 400, b"on-demand"),
    "no pool's": ("lost", {"migration_policy": "on-demand"}, 400, b"No pool can take"),
    "no type": ("none", {}, 404, b"could not be found"),
    "too large a one": ("large", {}, 400, b"less than the minimum"),
    "a policy of null": ("fast", {"migration_policy": None}, 400, b"migration_policy"),
}


async def test_on_demand_is_advised_only_where_some_pool_has_what_the_type_wants(
    cloud: Movers,
) -> None:
    await make_fast(cloud)
    await make_type(cloud, "lost", volume_backend_name="nowhere")
    volume_id = await cloud.make()
    answer = await retype(cloud, volume_id, "lost")
    assert answer.status == 400
    assert "on-demand" not in answer.text
    assert "without what the volume type asks for" in answer.text
    assert "nowhere" not in answer.text
    answer = await retype(cloud, volume_id, "lost", user="admin")
    assert "wants: volume_backend_name=nowhere" in answer.text


@pytest.mark.parametrize("case", sorted(REFUSED))
async def test_what_cannot_be_is_refused_at_once(cloud: Movers, case: str) -> None:
    await make_fast(cloud)
    await make_type(cloud, "lost", volume_backend_name="nowhere")
    await make_type(cloud, "large", **{"provisioning:min_vol_size": "5"})
    new_type, fields, status, words = REFUSED[case]
    volume_id = await cloud.make()
    answer = await retype(cloud, volume_id, new_type, **fields)
    assert (answer.status, words in answer.content) == (status, True), answer.content
    # Where it lies is for administrators to know.
    assert SLOW.encode() not in answer.content
    assert await kind(cloud, volume_id) == ("available", "__DEFAULT__", SLOW)


async def test_one_in_use_by_no_server_does_not_come_to_another_pool(cloud: Movers) -> None:
    await make_fast(cloud)
    volume_id = await cloud.make()
    value = {"mountpoint": "/dev/vdb", "host_name": "h1"}
    await cloud.act(volume_id, "os-attach", value)
    answer = await retype(cloud, volume_id, "fast", migration_policy="on-demand")
    assert answer.status == 400
    assert b"attached to no server" in answer.content
    assert await kind(cloud, volume_id) == ("in-use", "__DEFAULT__", SLOW)


async def test_whether_it_is_shared_changes_only_while_nobody_has_it(cloud: Movers) -> None:
    await make_type(cloud, "shared", multiattach="<is> True")
    used_one, free = await cloud.make(), await cloud.make()
    value = {"mountpoint": "/dev/vdb", "host_name": "h1"}
    await cloud.act(used_one, "os-attach", value)
    answer = await retype(cloud, used_one, "shared")
    assert answer.status == 400
    assert b"only while it is available" in answer.content
    assert (await retype(cloud, free, "shared", migration_policy="on-demand")).status == 202
    await cloud.settle()
    assert (await cloud.show(free))["multiattach"] is True


async def test_a_volume_with_snapshots_does_not_become_one_that_servers_share(
    cloud: Movers,
) -> None:
    await make_type(cloud, "shared", multiattach="<is> True")
    volume_id = await cloud.make()
    path, body = "/volume/v3/snapshots", {"snapshot": {"volume_id": volume_id}}
    taken = await cloud.ask("POST", path, body)
    assert taken.status == 202
    await cloud.settle()
    refused = await retype(cloud, volume_id, "shared")
    assert (refused.status, "has snapshots" in refused.text) == (400, True)
    snapshot = f"{path}/{taken.body['snapshot']['id']}"
    assert (await cloud.ask("DELETE", snapshot)).status == 202
    await cloud.settle()
    assert (await retype(cloud, volume_id, "shared", migration_policy="on-demand")).status == 202
    await cloud.settle()
    shown = await cloud.show(volume_id)
    assert (shown["status"], shown["multiattach"]) == ("available", True)


@pytest.mark.parametrize("resource", ["volumes_plain", "gigabytes_plain"])
async def test_the_quota_of_the_type_has_to_have_room(cloud: Movers, resource: str) -> None:
    await make_type(cloud, "plain")
    volume_id = await cloud.make()
    await limit(cloud, **{resource: 0})
    answer = await retype(cloud, volume_id, "plain")
    assert answer.status == 413
    assert await kind(cloud, volume_id) == ("available", "__DEFAULT__", SLOW)
    await limit(cloud, **{resource: -1}, volumes=1, gigabytes=1)
    assert (await retype(cloud, volume_id, "plain")).status == 202


async def test_snapshots_go_with_it_in_their_quota(cloud: Movers) -> None:
    await make_type(cloud, "plain")
    volume_id = await cloud.make()
    await cloud.ask("POST", "/volume/v3/snapshots", {"snapshot": {"volume_id": volume_id}})
    await cloud.settle()
    await limit(cloud, gigabytes_plain=1)
    assert (await retype(cloud, volume_id, "plain")).status == 413
    await limit(cloud, gigabytes_plain=2, snapshots_plain=1)
    assert (await retype(cloud, volume_id, "plain")).status == 202
    assert await used(cloud, "gigabytes_plain", "snapshots_plain") == [2, 1]


async def test_a_reset_in_the_middle_of_a_retype_gives_it_back(cloud: Movers) -> None:
    await make_fast(cloud)
    volume_id = await cloud.make()
    cloud.pool(FAST).knobs.hold("create")
    await retype(cloud, volume_id, "fast", migration_policy="on-demand")
    reset = {"migration_status": "none"}
    answer = await cloud.act(volume_id, "os-reset_status", reset)
    assert answer.status == 202
    cloud.pool(FAST).knobs.release("create")
    await cloud.settle()
    assert await kind(cloud, volume_id) == ("available", "__DEFAULT__", SLOW)
    assert await cloud.there() == {SLOW: [volume_id]}
