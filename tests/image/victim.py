"""A process that uploads the one image there is, and is killed: `victim DIRECTORY POINT`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mooring import probe
from tests.image.cloud import ImageCloud


async def upload(directory: Path, point: str) -> None:
    cloud = ImageCloud(directory)
    await cloud.open()
    cloud.uploads.other = probe.from_setting(point)
    (image,) = (await cloud.ask("GET", "/images")).body["images"]
    await cloud.upload(image["id"], b"data")


asyncio.run(upload(Path(sys.argv[1]), sys.argv[2]))
