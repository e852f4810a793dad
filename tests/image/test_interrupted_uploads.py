from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from mooring.errors import Invalid
from mooring.image import app, uploads
from mooring.image.tables import ImageRow, UploadRow
from mooring.limits import IMAGE_BEAT_S
from mooring.who import Who
from tests.image.cloud import PROJECT, ImageCloud, is_as_before, pieces

pytestmark = pytest.mark.anyio
MEMBER = Who(user_id="member", project_id=PROJECT, token="member")


async def test_a_client_that_breaks_off_leaves_a_queued_image(cloud: ImageCloud) -> None:
    image_id = await cloud.make()

    async def endless() -> AsyncIterator[bytes]:
        yield b"one"
        await asyncio.Event().wait()

    client = asyncio.create_task(cloud.upload(image_id, endless()))
    await cloud.upload_begun()
    client.cancel()
    with pytest.raises(asyncio.CancelledError):
        await client
    await cloud.network.aclose()
    assert await is_as_before(cloud, image_id)
    assert (await cloud.upload(image_id, b"again")).status == 204


async def test_a_cancelled_upload_leaves_a_queued_image(cloud: ImageCloud) -> None:
    image_id, begun = await cloud.make(), asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"one"
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(receive(cloud, image_id, endless()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await is_as_before(cloud, image_id)
    assert cloud.image.uploads == set()


class CancelAtCommit:
    """Cancels a task from the database's thread, right before a commit that then takes place."""

    def __init__(self, commits: int) -> None:
        self.left, self.loop = commits, asyncio.get_running_loop()
        self.task: asyncio.Task[None] | None = None

    def at(self, point: str) -> None:
        if self.task is not None and point == "store.image/commit/before":
            self.left -= 1
            if self.left == 0:
                self.loop.call_soon_threadsafe(self.task.cancel)


@pytest.mark.parametrize(("commits", "expected"), [(1, "queued"), (2, "active")])
async def test_an_upload_cancelled_during_a_commit_ends_one_way_or_the_other(
    cloud: ImageCloud, commits: int, expected: str
) -> None:
    cloud.uploads.other = probe = CancelAtCommit(commits)
    image_id = await cloud.make()
    probe.task = asyncio.create_task(receive(cloud, image_id, pieces(b"data")))
    with pytest.raises(asyncio.CancelledError):
        await probe.task
    probe.task = None
    assert (await cloud.show(image_id))["status"] == expected
    if expected == "queued":
        assert await is_as_before(cloud, image_id)
    else:
        assert (await cloud.ask("GET", f"/images/{image_id}/file")).content == b"data"
    assert cloud.image.uploads == set()


@pytest.mark.postgres
async def test_of_several_processes_only_a_silent_one_loses_its_upload(
    postgres_url: str, tmp_path: Path
) -> None:
    one, two = (ImageCloud(tmp_path, database=postgres_url, owner=name) for name in ("1", "2"))
    await one.open()
    image_id, go_on = await one.make(), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b"one"
        await go_on.wait()

    first = asyncio.create_task(one.upload(image_id, slowly()))
    await one.upload_begun()
    await two.open()
    assert (await two.show(image_id))["status"] == "saving"
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    await two.image.store.write(lambda tx: tx.execute(update(UploadRow).values(beat_at=long_ago)))
    await app.SERVICE.prepare(two.image)
    assert await is_as_before(two, image_id)
    assert (await two.upload(image_id, b"two")).status == 204
    go_on.set()
    assert (await first).status == 410
    assert (await two.ask("GET", f"/images/{image_id}/file")).content == b"two"
    for cloud in (one, two):
        await cloud.close()


async def test_the_watch_keeps_own_uploads_and_ends_dead_ones(cloud: ImageCloud) -> None:
    dead, alive = await cloud.make(), await cloud.make()
    go_on = asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b"one"
        await go_on.wait()

    upload = asyncio.create_task(cloud.upload(alive, slowly()))
    await cloud.upload_begun()
    await cloud.image.store.write(lambda tx: lose(tx, dead))
    watch = asyncio.create_task(uploads.watch(cloud.image))
    while (await cloud.show(dead))["status"] == "saving":
        cloud.clock.advance(IMAGE_BEAT_S)
    assert (await cloud.show(alive))["status"] == "saving"
    watch.cancel()
    go_on.set()
    assert (await upload).status == 204


def lose(tx: Session, image_id: str) -> None:
    """Write down an upload that nobody receives."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    tx.add(UploadRow(id="lost", image_id=image_id, owner="nobody", beat_at=now))
    tx.execute(update(ImageRow).where(ImageRow.id == image_id).values(status="saving"))


async def receive(cloud: ImageCloud, image_id: str, chunks: AsyncIterator[bytes]) -> None:
    def require(rule: str, target: object) -> None:
        del rule, target

    await uploads.receive(cloud.image, MEMBER, image_id, chunks, require=require)


async def test_a_silent_client_is_given_up(
    cloud: ImageCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "IMAGE_IDLE_S", 0.01)
    image_id = await cloud.make()

    async def silent() -> AsyncIterator[bytes]:
        yield b"one"
        await asyncio.Event().wait()

    with pytest.raises(Invalid, match="no data came") as refusal:
        await receive(cloud, image_id, silent())
    assert refusal.value.detail["status"] == 408
    assert await is_as_before(cloud, image_id)


KILL_POINTS = {
    "store.image/commit/after": "queued",
    "image.upload/file/opened": "queued",
    "image.upload/file/published": "queued",
    "store.image/commit/after@2": "active",
}
"""Where a process is killed in an upload, and what its successor makes of the image."""


@pytest.mark.kill
async def test_what_a_killed_process_left_is_ended_at_the_start(tmp_path: Path) -> None:
    clouds = [ImageCloud(tmp_path / str(at)) for at in range(len(KILL_POINTS))]
    for cloud in clouds:
        async with cloud:
            await cloud.make()
    killed = zip(clouds, KILL_POINTS.items(), strict=True)
    await asyncio.gather(*(kill(cloud.settings.state_dir, point) for cloud, (point, _) in killed))
    for cloud, (point, expected) in zip(clouds, KILL_POINTS.items(), strict=True):
        async with cloud:
            (shown,) = (await cloud.ask("GET", "/images")).body["images"]
            assert shown["status"] == expected, point
            if expected == "queued":
                assert await is_as_before(cloud, shown["id"])
                assert (await cloud.upload(shown["id"], b"data")).status == 204
            got = await cloud.ask("GET", f"/images/{shown['id']}/file")
            assert got.content == b"data"


async def kill(directory: str, point: str) -> None:
    """Run a process that uploads the image in a directory, and is killed at a point."""
    command = (sys.executable, "-m", "tests.image.victim", directory, point)
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    child = await asyncio.create_subprocess_exec(*command, env=os.environ | paths)
    assert await child.wait() == -signal.SIGKILL, point


async def test_files_that_belong_to_no_image_go_at_the_start(cloud: ImageCloud) -> None:
    image_id = await cloud.filled(b"kept")
    for name in (f"{image_id}.0123", f"{uuid4()}.0123.part"):
        (cloud.directory / name).write_bytes(b"stray")
    await app.SERVICE.prepare(cloud.image)
    assert len(cloud.files()) == 1
    assert (await cloud.ask("GET", f"/images/{image_id}/file")).content == b"kept"
