"""What no server needs, and whoever has it keeps: it is left until a later look."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import delete

from mooring.compute.shares.loops import sweep_shares
from mooring.compute.tables import ShareMapping
from tests.compute.sharing import SharingCloud

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[SharingCloud]:
    """Compute with the share service, which the doctor finds well in the end."""
    async with SharingCloud(tmp_path) as opened:
        yield opened
        assert await opened.complaints() == []


async def sweep(cloud: SharingCloud) -> None:
    """Take away what no server needs."""
    await sweep_shares.sweep_once(cloud.compute)
    await cloud.settle()
    assert await cloud.unfinished() == []


async def test_a_mount_with_which_a_guest_runs_goes_once_the_guest_does_not(
    cloud: SharingCloud,
) -> None:
    server_id, share_id = await cloud.make_shared()
    assert await cloud.act(server_id, "os-start") == 202
    await cloud.settle()
    # As a database that was restored from yesterday.
    await cloud.compute.store.write(lambda tx: tx.execute(delete(ShareMapping)) and None)
    await sweep(cloud)
    assert await cloud.mounts() == [(server_id, share_id)]
    assert await cloud.act(server_id, "os-stop") == 202
    await cloud.settle()
    await sweep(cloud)
    assert (await cloud.mounts(), await cloud.rules(share_id)) == ([], {})


async def test_a_mount_that_its_host_cannot_read_is_named_and_kept(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_shared()
    await cloud.power(server_id, "os-start")
    record = cloud.hosts["host1"].state_dir / "share-users" / f"{server_id}.{share_id}.json"
    whole = record.read_bytes()
    record.write_bytes(b"")
    [line] = await cloud.complaints()
    assert line.startswith(f"share {share_id} of server {server_id}: host host1 cannot read how ")
    assert f"{record} is damaged" in line
    await sweep(cloud)
    record.write_bytes(whole)
    assert await cloud.mounts() == [(server_id, share_id)]


async def test_a_rule_that_an_administrator_locks_goes_once_it_is_unlocked(
    cloud: SharingCloud,
) -> None:
    _, share_id = await cloud.make_shared()
    path = f"/share-access-rules?share_id={share_id}"
    [rule] = (await cloud.share_api("GET", path, user="admin")).body["access_list"]
    body = {"resource_id": rule["id"], "resource_type": "access_rule", "resource_action": "delete"}
    made = await cloud.share_api("POST", "/resource-locks", {"resource_lock": body}, user="admin")
    await cloud.compute.store.write(lambda tx: tx.execute(delete(ShareMapping)) and None)
    await sweep(cloud)
    assert list((await cloud.rules(share_id)).values()) == ["active"]
    path = f"/resource-locks/{made.body['resource_lock']['id']}"
    assert (await cloud.share_api("DELETE", path, user="admin")).status == 204
    await sweep(cloud)
    assert await cloud.rules(share_id) == {}
