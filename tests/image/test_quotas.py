"""What a project's images may be in number and size, and what uploads leave free of the disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.image.cloud import ImageCloud, is_as_before

pytestmark = pytest.mark.anyio
_IMAGE = {"name": "i", "disk_format": "raw", "container_format": "bare"}


@pytest.fixture
async def any_cloud(database: str, tmp_path: Path) -> AsyncIterator[ImageCloud]:
    async with ImageCloud(tmp_path, database=database) as opened:
        yield opened


def allow(cloud: ImageCloud, **settings: Any) -> None:
    cloud.image.settings = replace(cloud.image.settings, **settings)


async def test_a_project_has_so_many_images_and_others_have_theirs(any_cloud: ImageCloud) -> None:
    allow(any_cloud, count_total=2)
    asking = [any_cloud.ask("POST", "/images", _IMAGE, user="member") for _ in range(6)]
    answers = await asyncio.gather(*asking)
    assert sorted(answer.status for answer in answers) == [201, 201, 413, 413, 413, 413]
    refused = next(answer for answer in answers if answer.status == 413)
    assert "image_count_total" in refused.text
    other = await any_cloud.ask("POST", "/images", _IMAGE, user="stranger")
    assert other.status == 201
    made = next(answer.body["id"] for answer in answers if answer.status == 201)
    assert (await any_cloud.ask("DELETE", f"/images/{made}")).status == 204
    await any_cloud.make()


async def test_a_projects_images_have_so_much_data_in_all(any_cloud: ImageCloud) -> None:
    allow(any_cloud, total_bytes=10)
    await any_cloud.filled(b"12345678")
    second = await any_cloud.make()
    answer = await any_cloud.upload(second, b"123")
    assert answer.status == 413
    assert "image_size_total" in answer.text
    assert (await any_cloud.show(second))["status"] == "queued"
    assert (await any_cloud.upload(second, b"12")).status == 204
    third = await any_cloud.make()
    assert (await any_cloud.upload(third, b"1")).status == 413
    assert (await any_cloud.show(third))["status"] == "queued"


async def test_two_uploads_at_once_do_not_take_more_than_there_is(any_cloud: ImageCloud) -> None:
    allow(any_cloud, total_bytes=10)
    images = [await any_cloud.make() for _ in range(2)]
    both = asyncio.Event()

    async def slow(mine: bool) -> AsyncIterator[bytes]:
        yield b"1234"
        if mine:
            both.set()
        await both.wait()
        yield b"5678"

    uploads = [any_cloud.upload(image, slow(mine=at == 1)) for at, image in enumerate(images)]
    answers = await asyncio.gather(*uploads)
    assert sorted(answer.status for answer in answers) == [204, 413]
    statuses = [(await any_cloud.show(image))["status"] for image in images]
    assert sorted(statuses) == ["active", "queued"]
    assert len(any_cloud.files()) == 1


async def test_an_upload_leaves_the_reserve_free(cloud: ImageCloud) -> None:
    image_id = await cloud.make()
    allow(cloud, reserve_bytes=1 << 60)
    assert (await cloud.upload(image_id, b"data")).status == 413
    assert await is_as_before(cloud, image_id)
    allow(cloud, reserve_bytes=1 << 20)
    assert (await cloud.upload(image_id, b"data")).status == 204


async def test_usage_and_limits_are_told(any_cloud: ImageCloud) -> None:
    allow(any_cloud, total_bytes=3 << 20, count_total=5, count_uploading=1)
    await any_cloud.filled(b"x" * ((1 << 20) + 1))
    other = await any_cloud.make()
    go_on = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"12"
        await go_on.wait()

    any_cloud.uploads.begun.clear()
    upload = asyncio.create_task(any_cloud.upload(other, slow()))
    await any_cloud.upload_begun()
    third = await any_cloud.make()
    refused = await any_cloud.upload(third, b"x")
    assert (refused.status, "image_count_uploading" in refused.text) == (413, True)
    assert (await any_cloud.show(third))["status"] == "queued"
    assert await usage(any_cloud) == {
        "image_size_total": {"limit": 3, "usage": 2},
        "image_stage_total": {"limit": 0, "usage": 0},
        "image_count_total": {"limit": 5, "usage": 3},
        "image_count_uploading": {"limit": 1, "usage": 1},
    }
    go_on.set()
    assert (await upload).status == 204
    assert (await usage(any_cloud))["image_count_uploading"]["usage"] == 0
    assert (await any_cloud.upload(third, b"x")).status == 204
    assert (await usage(any_cloud, user="stranger"))["image_count_total"]["usage"] == 0


async def test_no_limit_is_told_as_minus_one(cloud: ImageCloud) -> None:
    shown = await usage(cloud)
    assert [shown[name]["limit"] for name in sorted(shown)] == [-1, -1, -1, 0]


async def usage(cloud: ImageCloud, user: str = "member") -> Any:
    answer = await cloud.ask("GET", "/info/usage", user=user)
    assert answer.status == 200, answer.text
    return answer.body["usage"]
