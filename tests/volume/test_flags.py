"""Flags in queries that are no booleans are refused, rather than taken for a no."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.volume.cloud import VolumeCloud

pytestmark = pytest.mark.anyio
LISTS = ("/volumes", "/volumes/detail", "/snapshots", "/snapshots/detail", "/backups/detail")


@pytest.fixture
async def any_cloud(database: str, tmp_path: Path) -> AsyncIterator[VolumeCloud]:
    async with VolumeCloud(tmp_path, database=database) as opened:
        yield opened


@pytest.mark.parametrize("path", LISTS)
async def test_a_count_that_is_no_boolean_is_400(any_cloud: VolumeCloud, path: str) -> None:
    for word in ("x", "", "2"):
        answer = await any_cloud.ask("GET", f"{path}?with_count={word}", version="3.45")
        assert answer.status == 400, (word, answer.body)
        assert "with_count" in answer.body["badRequest"]["message"]
    counted = await any_cloud.ask("GET", f"{path}?with_count=TRUE", version="3.45")
    assert (counted.status, counted.body["count"]) == (200, 0)
    below = await any_cloud.ask("GET", f"{path}?with_count=x", version="3.30")
    assert below.status == 200, below.body


@pytest.mark.parametrize("path", [*LISTS, "/volumes/summary", "/attachments", "/messages"])
async def test_an_administrator_says_whether_all_projects_are_meant(
    any_cloud: VolumeCloud, path: str
) -> None:
    for user, word, status in (
        ("admin", "x", 400),
        ("admin", "True", 200),
        ("admin", "no", 200),
        ("member", "x", 200),
    ):
        query = f"{path}?all_tenants={word}"
        answer = await any_cloud.ask("GET", query, user=user, version="3.45")
        assert answer.status == status, (user, word, answer.body)


@pytest.mark.parametrize("flag", ["cascade", "force"])
async def test_a_volume_is_not_deleted_by_a_flag_that_makes_no_sense(
    any_cloud: VolumeCloud, flag: str
) -> None:
    volume_id = await any_cloud.make()
    path = f"/volumes/{volume_id}"
    answer = await any_cloud.ask("DELETE", f"{path}?{flag}=x", user="admin", version="3.45")
    assert answer.status == 400, answer.body
    assert (await any_cloud.show(volume_id))["status"] == "available"


async def test_pools_are_shown_in_detail_or_not(any_cloud: VolumeCloud) -> None:
    path = "/scheduler-stats/get_pools?detail="
    for word, status in (("x", 400), ("true", 200), ("0", 200)):
        assert (await any_cloud.ask("GET", f"{path}{word}", user="admin")).status == status
