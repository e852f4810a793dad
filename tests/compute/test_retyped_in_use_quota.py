"""What a volume in use takes of quotas while it gets another type, through both services."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.compute.moving_volumes import MovingVolumes

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path, database: str) -> AsyncIterator[MovingVolumes]:
    async with MovingVolumes(tmp_path, database=database) as opened:
        yield opened


async def make_type(cloud: MovingVolumes, name: str, pool: str) -> None:
    specs = {"name": name, "extra_specs": {"volume_backend_name": pool}}
    await cloud.volume_api("POST", "/types", {"volume_type": specs}, user="admin")


async def type_quota(cloud: MovingVolumes, **limits: int) -> list[tuple[int, int]]:
    """Set limits, if any; return what is used and reserved: volumes and GiB of the type `quick`."""
    path = f"/os-quota-sets/{cloud.project_id}"
    if limits:
        await cloud.volume_api("PUT", path, {"quota_set": limits}, user="admin")
    found = (await cloud.volume_api("GET", f"{path}?usage=true", user="admin"))["quota_set"]
    shown = [found["volumes_quick"], found["gigabytes_quick"]]
    return [(one["in_use"], one["reserved"]) for one in shown]


@pytest.mark.parametrize("resource", ["volumes_quick", "gigabytes_quick"])
@pytest.mark.parametrize("ends_well", [True, False])
async def test_a_retype_holds_room_in_the_quota_of_its_type(
    cloud: MovingVolumes, resource: str, *, ends_well: bool
) -> None:
    _, volume_id = await cloud.prepare()
    other = await cloud.make_volume()
    await make_type(cloud, "quick", "fast")
    await type_quota(cloud, **{resource: 1})
    cloud.hypervisor().lagging.add(volume_id)
    value = {"new_type": "quick", "migration_policy": "on-demand"}
    assert (await cloud.act_on(volume_id, "os-retype", value)).status == 202
    await cloud.pass_time(10.0)
    assert await type_quota(cloud) == [(0, 1), (0, 1)]
    before = await cloud.show_volume(other)
    refused = await cloud.act_on(other, "os-retype", value)
    assert (refused.status, resource in refused.text) == (413, True), refused.text
    assert await cloud.show_volume(other) == before
    if not ends_well:
        failed = {"new_volume": await cloud.copy_of(volume_id), "error": True}
        name = "os-migrate_volume_completion"
        assert (await cloud.act_on(volume_id, name, failed, user="admin")).status == 200
    cloud.hypervisor().lagging.clear()
    await cloud.settle()
    # An end that is told while compute switches its guest may come too late.
    count = int((await cloud.show_volume(volume_id))["volume_type"] == "quick")
    assert count or not ends_well
    assert await type_quota(cloud) == [(count, 0), (count, 0)]
    await cloud.look_at_hosts()
    expected = 413 if count else 202
    assert (await cloud.act_on(other, "os-retype", value)).status == expected
    await cloud.settle()
    assert await cloud.complaints() == []
