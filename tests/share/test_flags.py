"""Flags in queries that are no booleans are refused, rather than taken for a no."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.share.cloud import ShareCloud

pytestmark = pytest.mark.anyio


@pytest.fixture
async def any_cloud(database: str, tmp_path: Path) -> AsyncIterator[ShareCloud]:
    async with ShareCloud(tmp_path / "state", database=database) as opened:
        yield opened


@pytest.mark.parametrize(
    ("path", "flag", "user"),
    [
        ("/shares", "with_count", "member"),
        ("/shares/detail", "is_soft_deleted", "member"),
        ("/shares", "all_tenants", "admin"),
        ("/snapshots/detail", "with_count", "member"),
        ("/snapshots", "all_tenants", "admin"),
        ("/resource-locks", "with_count", "member"),
    ],
)
async def test_a_flag_is_a_boolean(any_cloud: ShareCloud, path: str, flag: str, user: str) -> None:
    for word, status in (("x", 400), ("TRUE", 200), ("0", 200)):
        answer = await any_cloud.ask("GET", f"{path}?{flag}={word}", user=user)
        assert answer.status == status, (word, answer.body)


async def test_nobody_minds_what_a_user_says_of_other_projects(any_cloud: ShareCloud) -> None:
    answer = await any_cloud.ask("GET", "/shares?all_tenants=x", user="member")
    assert answer.status == 200, answer.body
