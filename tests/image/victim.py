"""A process that uploads the one image there is, and is killed: `victim DIRECTORY POINT`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mooring import probe
from mooring.store.base import open_store
from tests.image.gallery import Gallery


async def upload(directory: Path, point: str) -> None:
    killer = probe.from_setting(point)
    store = await open_store(str(directory), "image", probe=killer)
    gallery = Gallery(store, directory / "images", probe=killer)
    (image,) = (await gallery.ask("GET", "/images")).json()["images"]
    await gallery.upload(image["id"], b"data")


asyncio.run(upload(Path(sys.argv[1]), sys.argv[2]))
