from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.callers import OTHER_PROJECT, PROJECT
from tests.volume.cloud import VolumeCloud

pytestmark = pytest.mark.anyio


async def limit(cloud: VolumeCloud, **limits: Any) -> Any:
    return await cloud.ask("PUT", f"/os-quota-sets/{PROJECT}", {"quota_set": limits}, user="admin")


async def test_a_volume_too_many_is_refused(cloud: VolumeCloud) -> None:
    assert (await limit(cloud, volumes=1)).status == 200
    await cloud.make()
    answer = await cloud.ask("POST", "/volumes", {"volume": {"size": 1}})
    assert answer.status == 413
    assert answer.headers["retry-after"] == "0"
    assert answer.body["overLimit"]["retryAfter"] == "0"
    assert answer.fault.startswith(
        "VolumeLimitExceeded: Maximum number of volumes allowed (1) exceeded for quota 'volumes'."
    )


@pytest.mark.parametrize(
    ("name", "value", "prefix"),
    [
        ("gigabytes", 3, "VolumeSizeExceedsAvailableQuota:"),
        ("per_volume_gigabytes", 3, "VolumeSizeExceedsLimit:"),
        ("gigabytes___DEFAULT__", 3, "VolumeSizeExceedsAvailableQuota:"),
        ("volumes___DEFAULT__", 0, "VolumeLimitExceeded:"),
    ],
)
async def test_too_much_is_refused(cloud: VolumeCloud, name: str, value: int, prefix: str) -> None:
    assert (await limit(cloud, **{name: value})).status == 200
    answer = await cloud.ask("POST", "/volumes", {"volume": {"size": 4}})
    assert answer.status == 413
    assert answer.fault.startswith(prefix)
    assert await cloud.count_volumes() == 0


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_who_writes_the_quota_of_one_user_leaves_the_projects_alone(
    cloud: VolumeCloud, method: str
) -> None:
    assert (await limit(cloud, volumes=3)).status == 200
    path = f"/os-quota-sets/{PROJECT}"
    body = {"quota_set": {"volumes": 1}} if method == "PUT" else None
    answer = await cloud.ask(method, f"{path}?user_id=somebody", body, user="admin")
    assert (answer.status, "single users are not built" in answer.fault) == (400, True)
    found = await cloud.ask("GET", path, user="admin")
    assert found.body["quota_set"]["volumes"] == 3


async def test_of_many_at_once_as_many_are_made_as_fit(cloud: VolumeCloud) -> None:
    await limit(cloud, volumes=3)
    asked = [cloud.ask("POST", "/volumes", {"volume": {"size": 1}}) for _ in range(8)]
    codes = [answer.status for answer in await asyncio.gather(*asked)]
    assert sorted(codes) == [202] * 3 + [413] * 5
    await cloud.settle()


async def test_a_deleted_volume_gives_its_quota_back_and_one_in_error_does_not(
    cloud: VolumeCloud,
) -> None:
    await limit(cloud, volumes=1, gigabytes=5)
    volume_id = await cloud.make(size=5)
    await cloud.set(volume_id, status="error")
    assert (await cloud.ask("POST", "/volumes", {"volume": {"size": 1}})).status == 413
    await cloud.ask("DELETE", f"/volumes/{volume_id}")
    await cloud.settle()
    await cloud.make(size=5)


async def test_quota_sets_show_limits_defaults_and_usage(cloud: VolumeCloud) -> None:
    await cloud.make(size=7)
    changed = await limit(cloud, volumes="20", tenant_id=PROJECT, id=PROJECT)
    assert changed.status == 200
    assert "id" not in changed.body["quota_set"]
    shown = (await cloud.ask("GET", f"/os-quota-sets/{PROJECT}", user="reader")).body["quota_set"]
    assert shown["id"] == PROJECT
    assert (shown["volumes"], shown["gigabytes"], shown["per_volume_gigabytes"]) == (20, 1000, -1)
    for name in ("snapshots", "groups", "backups", "backup_gigabytes", "volumes___DEFAULT__"):
        assert isinstance(shown[name], int)
    used = await cloud.ask("GET", f"/os-quota-sets/{PROJECT}?usage=True")
    quota = used.body["quota_set"]
    assert quota["gigabytes"] == {"limit": 1000, "in_use": 7, "reserved": 0}
    assert quota["gigabytes___DEFAULT__"] == {"limit": -1, "in_use": 7, "reserved": 0}
    defaults = await cloud.ask("GET", f"/os-quota-sets/{PROJECT}/defaults")
    assert defaults.body["quota_set"]["volumes"] == 10
    path = f"/os-quota-sets/{PROJECT}"
    assert (await cloud.ask("DELETE", path, user="member")).status == 403
    assert (await cloud.ask("DELETE", path, user="admin")).status == 200
    assert (await cloud.ask("GET", path)).body["quota_set"]["volumes"] == 10
    assert (await cloud.ask("GET", f"/os-quota-sets/{OTHER_PROJECT}")).status == 403
    assert (await cloud.ask("GET", f"/os-quota-sets/{OTHER_PROJECT}", user="admin")).status == 200


@pytest.mark.parametrize(
    "limits",
    [{"volumes": -2}, {"volumes": "many"}, {"volumes": True}, {"servers": 1}, {"gigabytes": 6}],
)
async def test_a_limit_that_makes_no_sense_is_refused(
    cloud: VolumeCloud, limits: dict[str, Any]
) -> None:
    await cloud.make(size=7)
    assert (await limit(cloud, **limits)).status == 400
    assert (await cloud.ask("PUT", f"/os-quota-sets/{PROJECT}", {}, user="admin")).status == 400


async def test_a_quota_class_holds_for_projects_without_their_own(cloud: VolumeCloud) -> None:
    path = "/os-quota-class-sets/default"
    changed = await cloud.ask("PUT", path, {"quota_class_set": {"volumes": 2}}, user="admin")
    assert changed.body["quota_class_set"]["volumes"] == 2
    assert "id" not in changed.body["quota_class_set"]
    shown = await cloud.ask("GET", path, user="admin")
    assert shown.body["quota_class_set"]["id"] == "default"
    assert (await cloud.ask("GET", path)).status == 403
    assert (await cloud.ask("GET", f"/os-quota-sets/{PROJECT}")).body["quota_set"]["volumes"] == 2


async def test_limits_show_what_is_used(cloud: VolumeCloud) -> None:
    await cloud.make(size=7)
    absolute = (await cloud.ask("GET", "/limits", user="reader")).body["limits"]["absolute"]
    assert absolute["maxTotalVolumes"] == 10
    assert absolute["totalVolumesUsed"] == 1
    assert absolute["totalGigabytesUsed"] == 7
    assert absolute["totalBackupGigabytesUsed"] == 0
    path = f"/limits?project_id={OTHER_PROJECT}"
    other = await cloud.ask("GET", path, user="admin")
    assert other.body["limits"]["absolute"]["totalVolumesUsed"] == 0
    older = await cloud.ask("GET", path, user="admin", version="3.38")
    assert older.body["limits"]["absolute"]["totalVolumesUsed"] == 1
    mine = await cloud.ask("GET", path)
    assert mine.body["limits"]["absolute"]["totalVolumesUsed"] == 1
