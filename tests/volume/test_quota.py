from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.volume.dock import OTHER, PROJECT, Dock

pytestmark = pytest.mark.anyio


async def limit(dock: Dock, **limits: Any) -> Any:
    return await dock.ask("PUT", f"/os-quota-sets/{PROJECT}", {"quota_set": limits}, who="admin")


async def test_a_volume_too_many_is_refused(dock: Dock) -> None:
    assert (await limit(dock, volumes=1)).status == 200
    await dock.make()
    answer = await dock.ask("POST", "/volumes", {"volume": {"size": 1}})
    assert answer.status == 413
    assert answer.headers["retry-after"] == "0"
    assert answer.json["overLimit"]["retryAfter"] == "0"
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
async def test_too_much_is_refused(dock: Dock, name: str, value: int, prefix: str) -> None:
    assert (await limit(dock, **{name: value})).status == 200
    answer = await dock.ask("POST", "/volumes", {"volume": {"size": 4}})
    assert answer.status == 413
    assert answer.fault.startswith(prefix)
    assert await dock.count_volumes() == 0


async def test_of_many_at_once_as_many_are_made_as_fit(dock: Dock) -> None:
    await limit(dock, volumes=3)
    asked = [dock.ask("POST", "/volumes", {"volume": {"size": 1}}) for _ in range(8)]
    codes = [answer.status for answer in await asyncio.gather(*asked)]
    assert sorted(codes) == [202] * 3 + [413] * 5
    await dock.engine.settle()


async def test_a_deleted_volume_gives_its_quota_back_and_one_in_error_does_not(dock: Dock) -> None:
    await limit(dock, volumes=1, gigabytes=5)
    volume_id = await dock.make(size=5)
    await dock.set(volume_id, status="error")
    assert (await dock.ask("POST", "/volumes", {"volume": {"size": 1}})).status == 413
    await dock.ask("DELETE", f"/volumes/{volume_id}")
    await dock.engine.settle()
    await dock.make(size=5)


async def test_quota_sets_show_limits_defaults_and_usage(dock: Dock) -> None:
    await dock.make(size=7)
    changed = await limit(dock, volumes="20", tenant_id=PROJECT, id=PROJECT)
    assert changed.status == 200
    assert "id" not in changed.json["quota_set"]
    shown = (await dock.ask("GET", f"/os-quota-sets/{PROJECT}", who="reader")).json["quota_set"]
    assert shown["id"] == PROJECT
    assert (shown["volumes"], shown["gigabytes"], shown["per_volume_gigabytes"]) == (20, 1000, -1)
    for name in ("snapshots", "groups", "backups", "backup_gigabytes", "volumes___DEFAULT__"):
        assert isinstance(shown[name], int)
    used = await dock.ask("GET", f"/os-quota-sets/{PROJECT}?usage=True")
    quota = used.json["quota_set"]
    assert quota["gigabytes"] == {"limit": 1000, "in_use": 7, "reserved": 0}
    assert quota["gigabytes___DEFAULT__"] == {"limit": -1, "in_use": 7, "reserved": 0}
    defaults = await dock.ask("GET", f"/os-quota-sets/{PROJECT}/defaults")
    assert defaults.json["quota_set"]["volumes"] == 10
    path = f"/os-quota-sets/{PROJECT}"
    assert (await dock.ask("DELETE", path, who="member")).status == 403
    assert (await dock.ask("DELETE", path, who="admin")).status == 200
    assert (await dock.ask("GET", path)).json["quota_set"]["volumes"] == 10
    assert (await dock.ask("GET", f"/os-quota-sets/{OTHER}")).status == 403
    assert (await dock.ask("GET", f"/os-quota-sets/{OTHER}", who="admin")).status == 200


@pytest.mark.parametrize(
    "limits",
    [{"volumes": -2}, {"volumes": "many"}, {"volumes": True}, {"servers": 1}, {"gigabytes": 6}],
)
async def test_a_limit_that_makes_no_sense_is_refused(dock: Dock, limits: dict[str, Any]) -> None:
    await dock.make(size=7)
    assert (await limit(dock, **limits)).status == 400
    assert (await dock.ask("PUT", f"/os-quota-sets/{PROJECT}", {}, who="admin")).status == 400


async def test_a_quota_class_holds_for_projects_without_their_own(dock: Dock) -> None:
    path = "/os-quota-class-sets/default"
    changed = await dock.ask("PUT", path, {"quota_class_set": {"volumes": 2}}, who="admin")
    assert changed.json["quota_class_set"]["volumes"] == 2
    assert "id" not in changed.json["quota_class_set"]
    shown = await dock.ask("GET", path, who="admin")
    assert shown.json["quota_class_set"]["id"] == "default"
    assert (await dock.ask("GET", path)).status == 403
    assert (await dock.ask("GET", f"/os-quota-sets/{PROJECT}")).json["quota_set"]["volumes"] == 2


async def test_limits_show_what_is_used(dock: Dock) -> None:
    await dock.make(size=7)
    absolute = (await dock.ask("GET", "/limits", who="reader")).json["limits"]["absolute"]
    assert absolute["maxTotalVolumes"] == 10
    assert absolute["totalVolumesUsed"] == 1
    assert absolute["totalGigabytesUsed"] == 7
    assert absolute["totalBackupGigabytesUsed"] == 0
    path = f"/limits?project_id={OTHER}"
    other = await dock.ask("GET", path, who="admin")
    assert other.json["limits"]["absolute"]["totalVolumesUsed"] == 0
    older = await dock.ask("GET", path, who="admin", version="3.38")
    assert older.json["limits"]["absolute"]["totalVolumesUsed"] == 1
    mine = await dock.ask("GET", path)
    assert mine.json["limits"]["absolute"]["totalVolumesUsed"] == 1
