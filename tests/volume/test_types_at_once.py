"""Volume types that are deleted or renamed, some at once, and the one that stays."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from mooring.volume.tables import QuotaRow, TypeRow
from mooring.volume.types import types
from tests.callers import PROJECT
from tests.volume.cloud import VolumeCloud

pytestmark = pytest.mark.anyio

_LIMITS = f"/os-quota-sets/{PROJECT}"
_DEFAULTS = "/os-quota-class-sets/default"
_KINDS = ("volumes", "gigabytes", "snapshots")


async def make_type(cloud: VolumeCloud, name: str) -> str:
    answer = await cloud.ask("POST", "/types", {"volume_type": {"name": name}}, user="admin")
    return answer.key("volume_type")["id"]


async def rename(cloud: VolumeCloud, type_id: str, name: str) -> int:
    body = {"volume_type": {"name": name}}
    return (await cloud.ask("PUT", f"/types/{type_id}", body, user="admin")).status


async def set_limits(cloud: VolumeCloud, name: str) -> None:
    """Limit a type's volumes, gigabytes and snapshots, of one project and of all others."""
    for path, key, first in ((_LIMITS, "quota_set", 1), (_DEFAULTS, "quota_class_set", 4)):
        limits = {f"{kind}_{name}": first + at for at, kind in enumerate(_KINDS)}
        assert (await cloud.ask("PUT", path, {key: limits}, user="admin")).status == 200


async def limits_of(cloud: VolumeCloud, name: str) -> list[int | None]:
    """Return what `set_limits` would have set."""
    mine = (await cloud.ask("GET", _LIMITS, user="admin")).key("quota_set")
    default = (await cloud.ask("GET", _DEFAULTS, user="admin")).key("quota_class_set")
    return [found.get(f"{kind}_{name}") for found in (mine, default) for kind in _KINDS]


async def test_one_is_always_left(database: str, tmp_path: Path) -> None:
    async with VolumeCloud(tmp_path, database=database) as cloud:
        for name in ("one", "two"):
            await cloud.type_with(**{name: "1"})
        every = (await cloud.ask("GET", "/types", user="admin")).key("volume_types")
        ids = [one["id"] for one in every]

        async def delete(type_id: str) -> int:
            return (await cloud.ask("DELETE", f"/types/{type_id}", user="admin")).status

        answers = await asyncio.gather(*(delete(type_id) for type_id in ids))
        assert sorted(answers) == [202] * (len(ids) - 1) + [400], answers
        assert len((await cloud.ask("GET", "/types", user="admin")).key("volume_types")) == 1


async def test_the_default_type_keeps_its_name(database: str, tmp_path: Path) -> None:
    async with VolumeCloud(tmp_path, database=database) as cloud:
        [default] = (await cloud.ask("GET", "/types", user="admin")).key("volume_types")
        path = f"/types/{default['id']}"
        renamed = {"volume_type": {"name": "plain", "description": "new"}}
        assert (await cloud.ask("PUT", path, renamed, user="admin")).status == 400
        shown = (await cloud.ask("GET", path, user="admin")).key("volume_type")
        assert (shown["name"], shown["description"]) == (default["name"], default["description"])
        kept = {"volume_type": {"name": default["name"], "description": "new"}}
        assert (await cloud.ask("PUT", path, kept, user="admin")).status == 200


async def test_a_cloud_whose_default_type_was_renamed_opens(database: str, tmp_path: Path) -> None:
    """As releases before let an administrator do."""
    async with VolumeCloud(tmp_path, database=database) as cloud:
        for name in ("plain", "other"):
            left = update(TypeRow).where(TypeRow.name == "__DEFAULT__").values(name=name)
            await cloud.store.write(lambda tx, left=left: tx.execute(left))
            await cloud.restart()
        listed = (await cloud.ask("GET", "/types", user="admin")).key("volume_types")
        assert {one["name"] for one in listed} == {"__DEFAULT__", "plain", "other"}
        volume_id = await cloud.make()
        assert (await cloud.show(volume_id))["volume_type"] == "__DEFAULT__"


async def test_a_renamed_type_keeps_its_limits_and_leaves_none(
    database: str, tmp_path: Path
) -> None:
    async with VolumeCloud(tmp_path, database=database) as cloud:
        gold = await make_type(cloud, "gold")
        await set_limits(cloud, "gold")
        await cloud.make(volume_type="gold")
        assert await rename(cloud, gold, "silver") == 200
        assert await limits_of(cloud, "silver") == [1, 2, 3, 4, 5, 6]
        body = {"volume": {"size": 1, "volume_type": "silver"}}
        assert (await cloud.ask("POST", "/volumes", body)).status == 413
        assert await rename(cloud, gold, "silver") == 200
        assert await limits_of(cloud, "silver") == [1, 2, 3, 4, 5, 6]
        await make_type(cloud, "gold")
        assert await limits_of(cloud, "gold") == [-1] * 6
        assert await rename(cloud, gold, "gold") == 409
        assert await limits_of(cloud, "silver") == [1, 2, 3, 4, 5, 6]


async def test_a_type_takes_no_limits_of_one_of_its_name_that_is_gone(
    database: str, tmp_path: Path
) -> None:
    async with VolumeCloud(tmp_path, database=database) as cloud:
        gold = await make_type(cloud, "gold")
        await set_limits(cloud, "gold")
        assert (await cloud.ask("DELETE", f"/types/{gold}", user="admin")).status == 202
        gold = await make_type(cloud, "gold")
        assert await limits_of(cloud, "gold") == [-1] * 6

        # As an earlier version left them.
        def leave(tx: Session) -> None:
            tx.add(QuotaRow(project_id=PROJECT, resource="volumes_bronze", hard_limit=7))
            tx.add(QuotaRow(project_id=PROJECT, resource="volumes_copper", hard_limit=7))

        await cloud.store.write(leave)
        await set_limits(cloud, "gold")
        assert await rename(cloud, gold, "bronze") == 200
        assert await limits_of(cloud, "bronze") == [1, 2, 3, 4, 5, 6]
        await make_type(cloud, "copper")
        assert await limits_of(cloud, "copper") == [-1] * 6


class RenameBetween:
    """Renames a type once within another transaction, right before that looks a type up."""

    def __init__(self, cloud: VolumeCloud, patch: pytest.MonkeyPatch) -> None:
        self._loop, self._rule, self._due = asyncio.get_running_loop(), types.named, False
        self._cloud, self._type_id = cloud, ""
        self.status = 0
        patch.setattr(types, "named", self._look)

    def begin(self, type_id: str) -> None:
        self._type_id, self._due = type_id, True

    def _look(self, *given: Any) -> TypeRow:
        if self._due:
            self._due = False
            renaming = rename(self._cloud, self._type_id, f"metal-{uuid.uuid4()}")
            self.status = asyncio.run_coroutine_threadsafe(renaming, self._loop).result(30)
        return self._rule(*given)


async def test_a_copy_is_of_its_sources_type_though_that_is_renamed_meanwhile(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite there is one writer at a time."""
    async with VolumeCloud(tmp_path, database=postgres_url) as cloud:
        gold = await make_type(cloud, "gold")
        volume_id = await cloud.make(volume_type="gold")
        asked = {"snapshot": {"volume_id": volume_id}}
        snapshot = (await cloud.ask("POST", "/snapshots", asked)).key("snapshot")
        await cloud.settle()
        between = RenameBetween(cloud, monkeypatch)
        for source in ({"source_volid": volume_id}, {"snapshot_id": snapshot["id"]}):
            between.begin(gold)
            answer = await cloud.ask("POST", "/volumes", {"volume": {"size": 1, **source}})
            assert (between.status, answer.status) == (200, 202), answer.text
            await cloud.settle()
            made = await cloud.show(answer.key("volume")["id"])
            shown = (await cloud.ask("GET", f"/types/{gold}", user="admin")).key("volume_type")
            assert made["volume_type"] == shown["name"]


async def test_who_asks_for_a_type_that_is_renamed_meanwhile_is_told_of_it_by_its_name_alone(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with VolumeCloud(tmp_path, database=postgres_url) as cloud:
        gold = await make_type(cloud, "gold")
        between = RenameBetween(cloud, monkeypatch)
        for name, status in ((gold, 202), ("gold", 404)):
            assert await rename(cloud, gold, "gold") == 200
            between.begin(gold)
            body = {"volume": {"size": 1, "volume_type": name}}
            assert (await cloud.ask("POST", "/volumes", body)).status == status
            assert between.status == 200


async def test_limits_follow_a_type_that_is_renamed_twice_at_once(
    database: str, tmp_path: Path
) -> None:
    async with VolumeCloud(tmp_path, database=database) as cloud:
        gold = await make_type(cloud, "gold")
        await set_limits(cloud, "gold")
        names = [f"metal-{at}" for at in range(6)]
        assert await asyncio.gather(*(rename(cloud, gold, name) for name in names)) == [200] * 6
        shown = (await cloud.ask("GET", f"/types/{gold}", user="admin")).key("volume_type")
        assert shown["name"] in names
        assert await limits_of(cloud, shown["name"]) == [1, 2, 3, 4, 5, 6]
