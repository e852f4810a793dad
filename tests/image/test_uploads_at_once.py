"""An upload to an image that somebody changes at once, on both databases."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest

from mooring.image.records import Record
from tests.answers import Answer
from tests.image.cloud import ImageCloud

pytestmark = pytest.mark.anyio
LOOKS_S = 0.5
"""How long the other request has, where it need not wait for the upload."""


async def test_data_is_checked_against_the_format_that_its_image_keeps(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ImageCloud(tmp_path, database=database) as cloud:
        image_id = await cloud.make(disk_format="iso")
        loop, target = asyncio.get_running_loop(), Record.target
        changes: list[Future[Answer]] = []

        def change_meanwhile(image: Record) -> Any:
            """The upload has looked at the image, and not begun."""
            if not changes:
                as_qcow2 = {"op": "replace", "path": "/disk_format", "value": "qcow2"}
                changing = cloud.patch(image_id, as_qcow2)
                changes.append(asyncio.run_coroutine_threadsafe(changing, loop))
                wait(changes, LOOKS_S)
            return target(image)

        monkeypatch.setattr(Record, "target", change_meanwhile)
        assert (await cloud.upload(image_id, b"no qcow2")).status == 204
        changed = await asyncio.wrap_future(changes[0])
        shown = await cloud.show(image_id)
        assert (shown["status"], shown["disk_format"], changed.status) == ("active", "iso", 403)
