"""Members that an image gets at once, on both databases."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mooring import limits
from tests.image.cloud import ImageCloud

pytestmark = pytest.mark.anyio


async def test_there_are_never_more_than_fit(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "IMAGE_MEMBERS", 3)
    async with ImageCloud(tmp_path, database=database) as cloud:
        image_id = await cloud.make()

        async def share(number: int) -> int:
            body = {"member": f"m{number}"}
            return (await cloud.ask("POST", f"/images/{image_id}/members", body)).status

        first = await asyncio.gather(*(share(number) for number in range(8)))
        assert (await share(8), first.count(200)) == (413, 3), first
