"""os-extend of volumes that nobody has open: what is asked, what is reserved, what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.errors import NoCapacity
from tests.callers import OTHER_PROJECT, PROJECT
from tests.volume.cloud import IMAGE, UNKNOWN, VolumeCloud
from tests.volume.growth import Harbour

pytestmark = pytest.mark.anyio
FAILED = ["VOLUME_VOLUME_007_010"]


@pytest.fixture
def harbour(cloud: VolumeCloud) -> Harbour:
    return Harbour(cloud)


async def limit(cloud: VolumeCloud, project_id: str, limits: dict[str, int]) -> None:
    body = {"quota_set": limits}
    answer = await cloud.ask("PUT", f"/os-quota-sets/{project_id}", body, user="admin")
    assert answer.status == 200


async def test_an_available_volume_grows(harbour: Harbour) -> None:
    volume_id = await harbour.cloud.make(size=1)
    answer = await harbour.extend(volume_id, "3", version="3.0")
    assert (answer.status, answer.content) == (202, b"")
    assert await harbour.state(volume_id) == ("available", 3)
    assert await harbour.file_gib(volume_id) == 3
    assert await harbour.gigabytes() == (3, 0)
    assert harbour.nova.taken == []
    assert await harbour.messages() == []
    assert await harbour.is_at_peace()


async def test_the_quota_is_reserved_at_once_and_pools_count_it(harbour: Harbour) -> None:
    volume_id = await harbour.cloud.make(size=1)
    harbour.cloud.storage.knobs.hold("extend")
    body = {"new_size": 4}
    assert (await harbour.cloud.act(volume_id, "os-extend", body)).status == 202
    assert await harbour.state(volume_id) == ("extending", 1)
    assert await harbour.gigabytes() == (1, 3)
    pools = await harbour.cloud.ask("GET", "/scheduler-stats/get_pools?detail=1", user="admin")
    assert pools.body["pools"][0]["capabilities"]["provisioned_capacity_gb"] == 4
    harbour.cloud.storage.knobs.release("extend")
    await harbour.rest()
    assert await harbour.gigabytes() == (4, 0)
    assert await harbour.is_at_peace()


@pytest.mark.parametrize(
    "size", [0, -1, "", "two", "#", None, True, 1.5, [2], 2**31, "9" * 30, "²"]
)
async def test_a_size_that_makes_no_sense_is_refused(harbour: Harbour, size: Any) -> None:
    volume_id = await harbour.cloud.make(size=1)
    assert (await harbour.extend(volume_id, size)).status == 400
    assert await harbour.state(volume_id) == ("available", 1)
    assert await harbour.gigabytes() == (1, 0)


@pytest.mark.parametrize("body", [{}, None, {"new_size": 2, "more": 1}])
async def test_a_body_that_makes_no_sense_is_refused(harbour: Harbour, body: Any) -> None:
    volume_id = await harbour.cloud.make(size=1)
    assert (await harbour.cloud.act(volume_id, "os-extend", body)).status == 400
    assert await harbour.state(volume_id) == ("available", 1)


@pytest.mark.parametrize("size", [1, 2])
async def test_a_smaller_or_equal_size_is_refused(harbour: Harbour, size: int) -> None:
    volume_id = await harbour.cloud.make(size=2)
    answer = await harbour.extend(volume_id, size)
    assert answer.status == 400
    assert "must be greater than current size. (current: 2, extended" in answer.fault
    assert await harbour.state(volume_id) == ("available", 2)


async def test_somebody_else_s_volume_and_one_that_is_not_look_the_same(harbour: Harbour) -> None:
    volume_id = await harbour.cloud.make()
    assert (await harbour.extend(volume_id, user="stranger")).status == 404
    assert (await harbour.extend(UNKNOWN)).status == 404
    assert (await harbour.extend(volume_id, user="reader")).status == 403
    assert await harbour.state(volume_id) == ("available", 1)


@pytest.mark.parametrize("status", ["maintenance", "reserved", "attaching"])
async def test_another_status_is_refused(harbour: Harbour, status: str) -> None:
    volume_id = await harbour.cloud.make()
    await harbour.reset(volume_id, status=status)
    answer = await harbour.extend(volume_id)
    assert answer.status == 400
    assert f"must be 'available' to extend, currently {status}" in answer.fault
    assert await harbour.gigabytes() == (1, 0)


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("gigabytes", "Requested 2G, quota is 2G and 1G has been consumed."),
        ("gigabytes___DEFAULT__", "Requested 2G, quota is 2G and 1G has been consumed."),
        ("per_volume_gigabytes", "Requested volume size 3 is larger than maximum allowed limit 2."),
    ],
)
async def test_more_than_the_quota_is_refused(harbour: Harbour, name: str, prefix: str) -> None:
    volume_id = await harbour.cloud.make()
    await limit(harbour.cloud, PROJECT, {name: 2})
    answer = await harbour.extend(volume_id, 3)
    assert answer.status == 413
    assert answer.body["overLimit"]["retryAfter"] == "0"
    assert prefix in answer.fault
    assert await harbour.state(volume_id) == ("available", 1)
    assert await harbour.gigabytes() == (1, 0)
    assert (await harbour.extend(volume_id, 2)).status == 202
    assert await harbour.is_at_peace()


async def test_an_administrator_spends_the_quota_of_the_volume_s_project(harbour: Harbour) -> None:
    volume_id = await harbour.cloud.make(user="stranger")
    await limit(harbour.cloud, OTHER_PROJECT, {"gigabytes": 2})
    assert (await harbour.extend(volume_id, 3, user="admin")).status == 413
    assert (await harbour.extend(volume_id, 2, user="admin")).status == 202
    assert await harbour.gigabytes() == (0, 0)
    await limit(harbour.cloud, PROJECT, {"per_volume_gigabytes": 2})
    await limit(harbour.cloud, OTHER_PROJECT, {"gigabytes": 9})
    assert (await harbour.extend(volume_id, 3, user="admin")).status == 413


async def test_what_is_reserved_counts_for_everybody_else(harbour: Harbour) -> None:
    cloud = harbour.cloud
    volumes = [await cloud.make() for _ in range(3)]
    await limit(cloud, PROJECT, {"gigabytes": 5})
    cloud.storage.knobs.hold("extend")
    asked = [cloud.act(each, "os-extend", {"new_size": 2}) for each in volumes]
    codes = [answer.status for answer in await asyncio.gather(*asked)]
    assert sorted(codes) == [202, 202, 413]
    assert (await cloud.ask("POST", "/volumes", {"volume": {"size": 1}})).status == 413
    body = {"quota_set": {"gigabytes": 4}}
    answer = await cloud.ask("PUT", f"/os-quota-sets/{PROJECT}", body, user="admin")
    assert answer.status == 400
    assert "less than the 5 in use" in answer.fault
    cloud.storage.knobs.release("extend")
    await harbour.rest()
    assert await harbour.gigabytes() == (5, 0)
    assert await harbour.is_at_peace()


async def test_the_type_of_a_volume_bounds_its_size(harbour: Harbour) -> None:
    specs = {"provisioning:min_vol_size": "3", "provisioning:max_vol_size": "5"}
    volume_id = await harbour.cloud.make(volume_type=await harbour.cloud.type_with(**specs))
    for size, word in ((2, "minimum"), (6, "maximum")):
        answer = await harbour.extend(volume_id, size)
        assert answer.status == 400
        assert word in answer.fault
    assert (await harbour.extend(volume_id, 5)).status == 202
    assert await harbour.state(volume_id) == ("available", 5)


async def test_without_room_in_its_pool_the_volume_stays_as_it_was(harbour: Harbour) -> None:
    volume_id = await harbour.cloud.make()
    settings = harbour.cloud.volume.settings
    harbour.cloud.volume.settings = replace(settings, oversubscription_ratio=0.0003)
    assert (await harbour.extend(volume_id, 9)).status == 202
    assert await harbour.state(volume_id) == ("available", 1)
    assert await harbour.messages() == ["VOLUME_VOLUME_007_003"]
    told = await harbour.told()
    assert "The volume stays as it was. Pools: 1 without the room. Delete volumes, or" in told
    host = (await harbour.cloud.show(volume_id, user="admin"))["os-vol-host-attr:host"]
    assert host.partition("#")[0] not in told
    assert await harbour.is_at_peace()


async def test_a_pool_that_is_down_gives_nothing(harbour: Harbour) -> None:
    volume_id = await harbour.made()
    harbour.cloud.clock.advance(61)
    assert (await harbour.extend(volume_id)).status == 202
    assert await harbour.state(volume_id) == ("in-use", 1)
    assert await harbour.messages() == ["VOLUME_VOLUME_007_003"]
    assert "Pools: 1 whose host is silent." in await harbour.told()
    assert await harbour.is_at_peace()


async def test_when_the_driver_fails_the_volume_is_in_error_extending(harbour: Harbour) -> None:
    volume_id = await harbour.cloud.make()
    harbour.cloud.storage.knobs.fail("extend", NoCapacity("The pool is full."))
    assert (await harbour.extend(volume_id)).status == 202
    assert await harbour.state(volume_id) == ("error_extending", 1)
    assert await harbour.messages() == FAILED
    assert await harbour.is_at_peace()
    assert (await harbour.reset(volume_id, status="available")).status == 202
    assert (await harbour.extend(volume_id)).status == 202
    assert await harbour.state(volume_id) == ("available", 2)
    assert await harbour.is_at_peace()


async def test_its_owner_leads_a_volume_out_of_error_extending_by_asking_again(
    harbour: Harbour,
) -> None:
    volume_id = await harbour.cloud.make()
    for _ in range(2):
        harbour.cloud.storage.knobs.fail("extend", NoCapacity("The pool is full."))
        assert (await harbour.extend(volume_id)).status == 202
        assert await harbour.state(volume_id) == ("error_extending", 1)
    assert (await harbour.extend(volume_id)).status == 202
    assert await harbour.state(volume_id) == ("available", 2)
    assert await harbour.is_at_peace()


async def test_its_owner_leads_a_volume_out_of_error_where_its_file_is_whole(
    harbour: Harbour,
) -> None:
    volume_id = await harbour.cloud.make(imageRef=IMAGE)
    harbour.cloud.storage.knobs.fail("replace", NoCapacity("The pool is full."))
    again = {"image_id": IMAGE, "reimage_reserved": False}
    answer = await harbour.cloud.act(volume_id, "os-reimage", again, version="3.68")
    assert answer.status == 202
    await harbour.rest()
    assert await harbour.state(volume_id) == ("error", 1)
    # Without room nobody has looked at its file.
    settings = harbour.cloud.volume.settings
    harbour.cloud.volume.settings = replace(settings, oversubscription_ratio=0.0003)
    assert (await harbour.extend(volume_id, 9)).status == 202
    assert await harbour.state(volume_id) == ("error", 1)
    harbour.cloud.volume.settings = settings
    assert (await harbour.extend(volume_id)).status == 202
    assert await harbour.state(volume_id) == ("available", 2)
    assert await harbour.is_at_peace()


async def test_a_volume_in_use_is_led_out_of_error_likewise(harbour: Harbour) -> None:
    volume_id = await harbour.cloud.make()
    await harbour.attach(volume_id, running=False)
    assert (await harbour.reset(volume_id, status="error")).status == 202
    assert (await harbour.extend(volume_id)).status == 202
    assert await harbour.state(volume_id) == ("in-use", 2)
    assert await harbour.is_at_peace()


async def test_a_volume_without_a_file_stays_in_error(harbour: Harbour) -> None:
    never, lost = await harbour.cloud.make(), await harbour.cloud.make()
    for volume_id in (never, lost):
        assert (await harbour.reset(volume_id, status="error")).status == 202
    await harbour.cloud.set(never, launched_at=None)
    assert (await harbour.extend(never)).status == 400
    await harbour.cloud.storage.delete(lost)
    assert (await harbour.extend(lost)).status == 202
    assert await harbour.state(lost) == ("error", 1)
    assert await harbour.gigabytes() == (2, 0)


async def test_a_volume_in_error_extending_can_be_deleted(harbour: Harbour) -> None:
    volume_id = await harbour.cloud.make()
    harbour.cloud.storage.knobs.fail("extend", NoCapacity("The pool is full."))
    await harbour.extend(volume_id)
    assert (await harbour.cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await harbour.rest()
    assert await harbour.cloud.count_volumes() == 0
    assert await harbour.is_at_peace()
