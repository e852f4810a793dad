"""A control plane that slept while another one went on changes nothing of what came since."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mooring.errors import Invalid
from tests.share.cloud import ShareCloud
from tests.sleeping import SlumberBeforeWrite

pytestmark = pytest.mark.anyio


async def test_who_slept_over_a_failed_creation_gives_the_share_no_pool(
    tmp_path: Path, database: str
) -> None:
    async with ShareCloud(tmp_path, database=database) as cloud:
        cloud.storage().knobs.fail("create", Invalid("No such pool."))
        slumber = SlumberBeforeWrite(cloud, "share", "_choose")
        body = {"share": {"size": 1, "share_proto": "NFS"}}
        share_id = (await cloud.ask("POST", "/shares", body)).body["share"]["id"]
        resting = asyncio.create_task(cloud.settle())
        await slumber.has_come.wait()
        resting.cancel()
        await slumber.succeed()
        assert await cloud.status(share_id) == "error"
        await slumber.end()
        assert not (await cloud.show(share_id))["host"]
        assert await cloud.complaints() == []
