"""Ids of deleted images: kept for whoever else goes on naming them, and no more than so many."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, text

from mooring.image.growth import FormerIds
from mooring.image.tables import FormerImageRow
from mooring.store import migrate
from mooring.store.growth import Bound, prune
from tests.image.cloud import ImageCloud

pytestmark = pytest.mark.anyio


@pytest.fixture
async def any_cloud(database: str, tmp_path: Path) -> AsyncIterator[ImageCloud]:
    async with ImageCloud(tmp_path, database=database) as opened:
        yield opened


async def delete_one(cloud: ImageCloud, user: str) -> str:
    image_id = str(uuid4())
    cloud.clock.advance(1)
    await cloud.make(user=user, id=image_id)
    assert (await cloud.ask("DELETE", f"/images/{image_id}", user=user)).status == 204
    return image_id


async def test_a_project_makes_none_but_its_own_former_ids_go(any_cloud: ImageCloud) -> None:
    cloud = any_cloud
    others = await delete_one(cloud, "stranger")
    mine = [await delete_one(cloud, "member") for _ in range(4)]
    bound = Bound(FormerImageRow, "two of each", FormerIds(2))
    assert await prune(cloud.image, cloud.image.store, cloud.clock, [bound]) == 2
    tried = [
        (await cloud.ask("POST", "/images", {"id": one}, user="member")).status
        for one in (others, *mine)
    ]
    assert tried == [409, 201, 201, 409, 409]


def test_ids_of_before_stay_for_good(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'image.sqlite'}")
    with engine.begin() as connection:
        for step in ("common_0004", "image_0002"):
            migrate.run(connection, "image", step)
        connection.execute(text("INSERT INTO former_images (id) VALUES ('a'), ('b')"))
    assert migrate.upgrade(engine, "image")
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT id, owner, deleted_at FROM former_images"))
        assert sorted(map(tuple, rows)) == [("a", "", None), ("b", "", None)]
