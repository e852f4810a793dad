"""Volume types that are deleted at once, and the one that stays, on both databases."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import update

from mooring.volume.tables import TypeRow
from tests.volume.cloud import VolumeCloud

pytestmark = pytest.mark.anyio


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
