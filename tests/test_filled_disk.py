"""A disk that a member's uploads fill: what else the cloud has to write still has room."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from tests.answers import Answer
from tests.cloud import SimulatedCloud
from tests.small_disk import SmallDisk, mounted

pytestmark = pytest.mark.anyio
MIB = 1 << 20
DISK_MIB, RESERVE_MIB, IMAGE_MIB = 96, 32, 8
TOKENS, IMAGES = "/identity/v3/auth/tokens", "/image/v2/images"


@pytest.fixture
def small() -> Generator[SmallDisk]:
    with mounted(DISK_MIB) as disk:
        yield disk


async def test_uploads_that_fill_a_disk_keep_no_token_from_being_revoked(small: SmallDisk) -> None:
    async with SimulatedCloud(small.directory / "state", image_reserve_mib=RESERVE_MIB) as cloud:
        taken = [await upload(cloud)]
        while taken[-1].status == 204:
            taken.append(await upload(cloud))
        assert (len(taken) > 1, taken[-1].status) == (True, 413)
        space = os.statvfs(small.directory)
        assert (
            RESERVE_MIB * MIB <= space.f_bavail * space.f_frsize < (RESERVE_MIB + IMAGE_MIB) * MIB
        )
        token = {"x-auth-token": await cloud.token("demo")}
        by_admin = {"x-subject-token": token["x-auth-token"]}
        assert (await cloud.ask("GET", IMAGES, headers=token)).status == 200
        assert (await cloud.ask("DELETE", TOKENS, user="admin", headers=by_admin)).status == 204
        assert (await cloud.ask("GET", IMAGES, headers=token)).status == 401
        body = {"volume": {"size": 1}}
        made = await cloud.ask("POST", "/volume/v3/volumes", body, user="admin")
        assert made.status == 202
        await cloud.settle()
        path = f"/volume/v3/volumes/{made.key('volume')['id']}"
        shown = await cloud.ask("GET", path, user="admin")
        assert shown.key("volume")["status"] == "available"


async def upload(cloud: SimulatedCloud) -> Answer:
    """Make an image with data that no disk keeps in less than they are."""
    wanted = {"disk_format": "raw", "container_format": "bare"}
    made = await cloud.ask("POST", IMAGES, wanted)
    headers = {"content-type": "application/octet-stream"}
    path = f"{IMAGES}/{made.body['id']}/file"
    return await cloud.ask("PUT", path, os.urandom(IMAGE_MIB * MIB), headers=headers)
