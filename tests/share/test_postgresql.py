"""On PostgreSQL, whose writes run side by side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.share.cloud import ShareCloud

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


@pytest.fixture
async def cloud(tmp_path: Path, postgres_url: str, anyio_backend: str) -> AsyncIterator[ShareCloud]:
    async with ShareCloud(tmp_path / "state", database=postgres_url) as made:
        yield made
        assert await made.complaints() == []


async def test_many_rules_at_once_are_applied_one_after_the_other(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    value = {"access_type": "ip", "access_to": "10.0.0.{}"}
    asked = [
        cloud.act(share_id, "allow_access", {**value, "access_to": f"10.0.0.{number}"})
        for number in range(8)
    ]
    assert [answer.status for answer in await asyncio.gather(*asked)] == [200] * 8
    await cloud.settle()
    assert set((await cloud.rules(share_id)).values()) == {"active"}
    assert len(await cloud.let_in(share_id)) == 8


async def test_of_eight_rules_for_one_client_one_is_made(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    value = {"access_type": "ip", "access_to": "10.0.0.1"}
    asked = [cloud.act(share_id, "allow_access", value) for _ in range(8)]
    codes = [answer.status for answer in await asyncio.gather(*asked)]
    assert sorted(codes) == [200] + [400] * 7
    await cloud.settle()


async def test_the_quota_holds_whoever_asks_at_once(cloud: ShareCloud) -> None:
    from tests.callers import PROJECT

    body = {"quota_set": {"gigabytes": 3}}
    await cloud.ask("PUT", f"/quota-sets/{PROJECT}", body, user="admin")
    new = {"share": {"size": 1, "share_proto": "NFS"}}
    asked = [cloud.ask("POST", "/shares", new) for _ in range(6)]
    codes = [answer.status for answer in await asyncio.gather(*asked)]
    assert sorted(codes) == [200] * 3 + [413] * 3
    await cloud.settle()
    assert await cloud.usage() == {"limit": 3, "in_use": 3, "reserved": 0}
