"""Imported before processes are forked: what each of them would otherwise import and compile anew.

A kill test starts three or four of them, and half of their processor time went into importing what
is imported when first needed, and into having SQLAlchemy write the same SQL. So a small cloud lives
here once, without threads, and does a little of everything; what it leaves are caches.
"""

from __future__ import annotations

import asyncio
import gc
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

from tests.cloud import SimulatedCloud
from tests.compiled import share_statements

SOCKETS_AND_SERVERS = (
    "encodings.idna",
    "httpcore2",
    "mooring.http_server",
    "mooring.store.postgresql",
    "psycopg",
    "uvicorn.protocols.http.httptools_impl",
)
"""What that cloud does without."""
COMPUTE, VOLUME = "/compute/v2.1", "/volume/v3"


async def live() -> None:
    """Make a server and volumes in a cloud of its own, use them, and delete them."""
    with TemporaryDirectory() as directory:
        async with SimulatedCloud(directory, inline=True) as cloud:
            image = (await _done(cloud, "POST", "/image/v2/images", _IMAGE))["id"]
            await _done(cloud, "PUT", f"/image/v2/images/{image}/file", bytes(65536))
            wanted = {"server": {"name": "s", "flavorRef": "42", "imageRef": image}}
            server = (await _done(cloud, "POST", f"{COMPUTE}/servers", wanted))["server"]["id"]
            size = {"volume": {"size": 1}}
            volume = (await _done(cloud, "POST", f"{VOLUME}/volumes", size))["volume"]["id"]
            disks = f"{COMPUTE}/servers/{server}/os-volume_attachments"
            disk = {"volumeAttachment": {"volumeId": volume}}
            await _done(cloud, "POST", disks, disk)
            for path in (f"{COMPUTE}/servers/detail", f"{VOLUME}/volumes/detail", disks):
                await _done(cloud, "GET", path)
            await _done(cloud, "DELETE", f"{disks}/{volume}")
            for path in (f"{COMPUTE}/servers/{server}", f"{VOLUME}/volumes/{volume}"):
                await _done(cloud, "DELETE", path)
            await _done(cloud, "GET", f"{COMPUTE}/mooring/operations", user="admin")
            assert await cloud.complaints() == []


_IMAGE = {"name": "guest", "disk_format": "raw", "container_format": "bare"}


async def _done(cloud: SimulatedCloud, method: str, path: str, body: Any = None, **how: Any) -> Any:
    answer = await cloud.do(method, path, body, **how)
    assert answer is not None
    assert answer.status < 300, (method, path, answer.status, answer.body)
    await cloud.settle()
    return answer.body


for name in SOCKETS_AND_SERVERS:
    import_module(name)
share_statements()
asyncio.run(live())
# Each fork looks through what it keeps as it starts, which would copy all of this to each of them.
gc.collect()
gc.freeze()
