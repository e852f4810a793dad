"""Pools whose share lies on a vendor's array: capacity and clones come from it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mooring.agent import files, limits
from mooring.agent.arrays.requests import POWERSTORE_CALLS
from mooring.agent.drivers.base import SourceImage
from mooring.agent.drivers.remote_powerstore import request_timeout_s
from mooring.agent.qemu_img import GIB
from mooring.agent.sources import FileSource
from mooring.agent.waiting import until
from mooring.errors import Unavailable
from mooring.fence.journal import Journal
from tests.agent.remote_pools import CONTENT, RemotePool, remote_pool, volume
from tests.agent.shares import EXPORT

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]
ARRAYS = ("netapp_nfs", "powerstore_nfs")


@pytest.mark.parametrize("kind", ARRAYS)
async def test_the_array_tells_the_capacity(kind: str, tmp_path: Path, journal: Journal) -> None:
    async with remote_pool(kind, "raw", tmp_path, journal) as remote:
        await remote.driver.setup()
        stats = await remote.driver.stats()
        assert (stats.total_gib, stats.free_gib) == (500.0, 275.0)
        asked = len(remote.array.asked)
        await remote.driver.stats()
        assert len(remote.array.asked) == asked, "it is asked once a minute"


@pytest.mark.parametrize("kind", ARRAYS)
async def test_the_array_is_asked_once_for_all_who_want_its_capacity(
    kind: str, tmp_path: Path, journal: Journal
) -> None:
    async with remote_pool(kind, "raw", tmp_path, journal) as remote:
        await remote.driver.setup()
        await asyncio.gather(*(remote.driver.stats() for _ in range(3)))
        asked = [one for one in remote.array.asked if "volumes" in one or "file_system" in one]
        assert len(asked) == 1


async def test_an_array_that_clones_tells_its_capacity_meanwhile(
    tmp_path: Path, journal: Journal, image: SourceImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What was told before the clone was begun is not fresh any more.
    monkeypatch.setattr(limits, "AGENT_ARRAY_FRESH_S", 0.0)
    async with remote_pool("netapp_nfs", "raw", tmp_path, journal) as remote:
        await remote.driver.setup()
        remote.array.goes_on.clear()
        making = asyncio.create_task(remote.driver.create(volume(remote), image, "op"))
        try:
            assert await until(lambda: remote.array.targets != [], 30)
            stats = await asyncio.wait_for(remote.driver.stats(), 20)
        finally:
            remote.array.goes_on.set()
        assert stats.total_gib == 500.0
        await making


@pytest.mark.parametrize("disk_format", ["raw", "qcow2"])
@pytest.mark.parametrize("kind", ARRAYS)
async def test_the_array_clones_the_image_that_the_share_keeps(
    kind: str, disk_format: str, tmp_path: Path, journal: Journal, image: SourceImage
) -> None:
    async with remote_pool(kind, disk_format, tmp_path, journal) as remote:
        await remote.driver.setup()
        for volume_id in ("v1", "v2"):
            made = await remote.driver.create(volume(remote, volume_id), image, "op")
            assert made.virtual_bytes == GIB
            assert await content(remote.driver.path(volume_id), disk_format, tmp_path) == CONTENT
        assert (remote.shares.export() / f"img-cache-i1.{disk_format}").exists()
        assert await remote.driver.leftovers() == []
        assert clones(remote) == 2


@pytest.mark.parametrize("kind", ARRAYS)
async def test_what_the_array_does_not_clone_is_copied(
    kind: str, tmp_path: Path, journal: Journal, image: SourceImage
) -> None:
    async with remote_pool(kind, "raw", tmp_path, journal) as remote:
        await remote.driver.setup()
        remote.array.refuses_clones = True
        remote.shares.tell("refuse")
        await remote.driver.create(volume(remote), image, "op")
        assert clones(remote) == 1
        with remote.driver.path("v1").open("rb") as file:
            assert file.read(len(CONTENT)) == CONTENT


@pytest.mark.parametrize("kind", ARRAYS)
async def test_a_clone_that_comes_late_comes_over_nothing(
    kind: str, tmp_path: Path, journal: Journal, image: SourceImage
) -> None:
    async with remote_pool(kind, "raw", tmp_path, journal) as remote:
        await remote.driver.setup()
        remote.array.refuses_clones = True
        remote.shares.tell("refuse")
        path = remote.driver.path("v1")
        for _ in range(2):
            await remote.driver.create(volume(remote), image, "op")
            await remote.driver.delete("v1")
        assert len(set(targets(remote))) == 2
        assert {files.partial(path, "op").name, path.name}.isdisjoint(targets(remote))
        (path.parent / targets(remote)[0]).write_bytes(b"late")
        await remote.driver.create(volume(remote), image, "again")
        assert await remote.driver.leftovers() == []
        assert await content(path, "raw", tmp_path) == CONTENT


async def test_what_lies_on_the_share_already_is_not_kept_as_an_image(
    tmp_path: Path, journal: Journal, image: SourceImage
) -> None:
    async with remote_pool("netapp_nfs", "raw", tmp_path, journal) as remote:
        await remote.driver.setup()
        await remote.driver.create(volume(remote), image, "op")
        layer = SourceImage("snapshot", FileSource(str(remote.driver.path("v1")), "raw"), GIB)
        await remote.driver.create(volume(remote, "v2"), layer, "op")
        assert clones(remote) == 1
        assert await content(remote.driver.path("v2"), "raw", tmp_path) == CONTENT


def targets(remote: RemotePool) -> list[str]:
    """The names of the files that the array was asked to clone to."""
    told = [line for line in remote.shares.calls() if line.startswith("dellfcopy -o fastclone")]
    return [*remote.array.targets, *(Path(line.split()[6]).name for line in told)]


def clones(remote: RemotePool) -> int:
    """How often the array was asked to clone."""
    told = [line for line in remote.shares.calls() if line.startswith("dellfcopy -o fastclone")]
    return len(told) + remote.array.asked.count("POST /api/storage/file/clone")


async def content(path: Path, disk_format: str, directory: Path) -> bytes:
    raw = directory / "back.raw"
    command = ["qemu-img", "convert", "-f", disk_format, "-O", "raw", str(path), str(raw)]
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == 0
    with raw.open("rb") as file:
        return file.read(len(CONTENT))


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("netapp_nfs", {"netapp_password": "wrong"}),
        ("powerstore_nfs", {"san_password": "wrong"}),
    ],
)
async def test_a_login_that_the_array_refuses_is_named(
    kind: str, wrong: dict[str, str], tmp_path: Path, journal: Journal
) -> None:
    async with remote_pool(kind, "raw", tmp_path, journal, **wrong) as remote:
        await remote.driver.setup()
        with pytest.raises(Unavailable, match="did not take the login") as caught:
            await remote.driver.stats()
        assert "wrong" not in str(caught.value)
        assert await remote.driver.volumes() == [], "what is there can still be used"


@pytest.mark.parametrize(
    ("kind", "wrong", "told"),
    [
        ("netapp_nfs", {"netapp_vserver": "svm2"}, "has no volume at /volumes of svm2"),
        ("netapp_nfs", {"netapp_server_port": 1}, "did not tell its capacity"),
        ("powerstore_nfs", {"nas_share_path": "/other"}, "has no NFS export other"),
        ("powerstore_nfs", {"driver_ssl_cert_path": ""}, "did not tell its capacity"),
    ],
)
async def test_an_array_that_does_not_know_the_share_makes_the_pool_unusable(
    kind: str, wrong: dict[str, Any], told: str, tmp_path: Path, journal: Journal
) -> None:
    async with remote_pool(kind, "raw", tmp_path, journal, **wrong) as remote:
        remote.shares.export(EXPORT.partition(":")[0] + ":/other")
        await remote.driver.setup()
        with pytest.raises(Unavailable, match=told):
            await remote.driver.stats()


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("netapp_nfs", "space"),
        ("netapp_nfs", "available"),
        ("netapp_nfs", "nas"),
        ("powerstore_nfs", "file_system"),
        ("powerstore_nfs", "size_total"),
        ("powerstore_nfs", "size_used"),
    ],
)
async def test_an_answer_that_lacks_a_field_is_told_with_what_the_array_answered(
    kind: str, field: str, tmp_path: Path, journal: Journal
) -> None:
    async with remote_pool(kind, "raw", tmp_path, journal) as remote:
        await remote.driver.setup()
        remote.array.forgets = field
        with pytest.raises(Unavailable, match="lacks what its documentation promises") as caught:
            await remote.driver.stats()
        assert "It answered" in caught.value.private


async def test_a_look_at_a_powerstore_ends_before_its_helper_is_ended(
    tmp_path: Path, journal: Journal
) -> None:
    async with remote_pool("powerstore_nfs", "raw", tmp_path, journal) as remote:
        await remote.driver.setup()
        await remote.driver.stats()
        assert len(remote.array.asked) == POWERSTORE_CALLS
        assert len(remote.array.asked) * sum(request_timeout_s()) < limits.AGENT_ARRAY_S
