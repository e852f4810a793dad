"""Volume types that are deleted at once, on both databases."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.volume.cloud import VolumeCloud

pytestmark = pytest.mark.anyio


async def test_one_is_always_left(database: str, tmp_path: Path) -> None:
    async with VolumeCloud(tmp_path, database=database) as cloud:
        for name in ("one", "two"):
            await cloud.type_with(**{name: "1"})
        every = (await cloud.ask("GET", "/types", user="admin")).key("volume_types")
        ids = [one["id"] for one in every]
        # The one that volumes get by themselves is never deleted, under its name.
        [default] = [one["id"] for one in every if one["name"] == "__DEFAULT__"]
        renamed = {"volume_type": {"name": "plain"}}
        await cloud.ask("PUT", f"/types/{default}", renamed, user="admin")

        async def delete(type_id: str) -> int:
            return (await cloud.ask("DELETE", f"/types/{type_id}", user="admin")).status

        answers = await asyncio.gather(*(delete(type_id) for type_id in ids))
        assert sorted(answers) == [202] * (len(ids) - 1) + [400], answers
        assert len((await cloud.ask("GET", "/types", user="admin")).key("volume_types")) == 1
