"""The ids of images are uuids in small letters, whatever letters a client chose."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from mooring.image.tables import ImageRow
from tests.image.cloud import ImageCloud

pytestmark = pytest.mark.anyio

SMALL = "0b7de1f3-6c1f-4a39-9a55-1f0a5b2c3d4e"
CAPITAL, MIXED = SMALL.upper(), SMALL.replace("b", "B")


@pytest.fixture
async def cloud(tmp_path: Path, database: str) -> AsyncGenerator[ImageCloud]:
    async with ImageCloud(tmp_path, database=database) as opened:
        yield opened


async def status(cloud: ImageCloud, method: str, image_id: str, body: object = None) -> int:
    path = "/images" if method == "POST" else f"/images/{image_id}"
    return (await cloud.ask(method, path, body)).status


async def keep_as_before(cloud: ImageCloud, image_id: str) -> None:
    """Keep an image as an earlier release did, under the id that a client had sent."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    made = await cloud.make(name="of before")

    def rename(tx: Session) -> None:
        tx.execute(update(ImageRow).where(ImageRow.id == made).values(id=image_id, created_at=now))

    await cloud.cloud.stores["image"].write(rename)


@pytest.mark.parametrize("again", [SMALL, CAPITAL, MIXED])
async def test_an_id_is_one_in_whatever_letters(cloud: ImageCloud, again: str) -> None:
    made = await cloud.ask("POST", "/images", {"id": CAPITAL})
    assert (made.status, made.body["id"]) == (201, SMALL)
    assert await status(cloud, "POST", again, {"id": again}) == 409
    assert await status(cloud, "DELETE", SMALL) == 204
    answer = await cloud.ask("POST", "/images", {"id": again}, user="stranger")
    assert answer.status == 409
    assert "was that of an image before" in answer.text


@pytest.mark.parametrize("before", [CAPITAL, MIXED])
async def test_an_image_of_before_keeps_its_letters_and_its_id(
    cloud: ImageCloud, before: str
) -> None:
    await keep_as_before(cloud, before)
    shown = await cloud.ask("GET", f"/images/{before}")
    assert (shown.status, shown.body["id"]) == (200, before)
    assert await status(cloud, "GET", SMALL) == 404, "it is asked for by its own letters"
    for image_id in (SMALL, before):
        assert await status(cloud, "POST", image_id, {"id": image_id}) == 409
    assert await status(cloud, "DELETE", before) == 204
    for image_id in (SMALL, before):
        assert await status(cloud, "POST", image_id, {"id": image_id}) == 409
        assert await status(cloud, "GET", image_id) == 404


async def test_what_ids_are_compared_with_is_found_by_indices(tmp_path: Path) -> None:
    async with ImageCloud(tmp_path) as cloud:
        asked: list[str] = []
        store = cloud.cloud.stores["image"]

        def listen(tx: Session) -> None:
            driver = tx.connection().connection.driver_connection
            assert isinstance(driver, sqlite3.Connection)
            driver.set_trace_callback(asked.append)

        def plans(tx: Session) -> list[str]:
            alike = [one for one in asked if "lower(" in one]
            rows = [tx.connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {one}") for one in alike]
            return [row[3] for found in rows for row in found]

        await store.write(listen)
        await cloud.make(name="new")
        assert await store.read(plans) == [
            "SEARCH images USING INDEX ix_images_small_id (<expr>=?)",
            "SEARCH former_images USING INDEX ix_former_images_small_id (<expr>=?)",
        ]
