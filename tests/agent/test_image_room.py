"""How a host's cache of images stays small: what nobody uses goes, and the reserve stays free."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring import config
from mooring.agent.app import open_agent
from mooring.agent.images import ImageCache
from mooring.agent.limits import AGENT_IMAGE_KEEP_S, AGENT_IMAGE_LEAST_S
from mooring.agent.settings import AgentSettings
from mooring.errors import NoCapacity
from tests.agent.caches import make_cache
from tests.agent.hosts import spec_of, stream
from tests.agent.starts import STARTS, Start
from tests.waiting import until

pytestmark = pytest.mark.anyio
MIB = 1024**2


@pytest.fixture
def cache(tmp_path: Path) -> ImageCache:
    return make_cache(tmp_path / "images")


@pytest.fixture
def small(tmp_path: Path) -> Generator[ImageCache]:
    """A cache on a disk of 8 MiB, 2 of which images leave free."""
    place = tmp_path / "images"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting takes root")
    try:
        yield make_cache(place, reserve_bytes=2 * MIB)
    finally:
        subprocess.run(["umount", str(place)], check=True)


async def bring(cache: ImageCache, image_id: str, size_mib: int = 1, *, ago_s: float = 0) -> None:
    """Bring an image, which was used so long ago."""
    data = os.urandom(size_mib * MIB)
    await cache.put(image_id, spec_of(data, "raw"), stream(data), "op")
    used = time.time() - ago_s
    os.utime(cache.path(image_id).with_name(f"{image_id}.json"), (used, used))


def ids(cache: ImageCache) -> list[str]:
    return [image.image_id for image in cache.images()]


async def test_what_nobody_used_for_a_day_goes(cache: ImageCache) -> None:
    for image_id in ("old", "shown", "brought"):
        await bring(cache, image_id, ago_s=AGENT_IMAGE_KEEP_S + 60)
    await bring(cache, "new", ago_s=AGENT_IMAGE_KEEP_S - 60)
    assert cache.use("shown") is not None
    data = cache.path("brought").read_bytes()
    assert await cache.put("brought", spec_of(data, "raw"), stream(data), "op2")
    assert cache.sweep(time.time()) == ["old"]
    assert ids(cache) == ["brought", "new", "shown"]
    assert not cache.path("old").exists()
    assert cache.leftovers() == []


async def test_looking_at_all_of_them_is_no_use_of_one(cache: ImageCache) -> None:
    await bring(cache, "old", ago_s=AGENT_IMAGE_KEEP_S + 60)
    assert ids(cache) == ["old"]
    assert cache.find("old") is not None
    assert cache.sweep(time.time()) == ["old"]


async def test_what_a_guest_s_disk_is_made_of_stays(cache: ImageCache, tmp_path: Path) -> None:
    await bring(cache, "used", ago_s=AGENT_IMAGE_KEEP_S + 60)
    (tmp_path / "base").hardlink_to(cache.path("used"))
    assert cache.sweep(time.time()) == []
    (tmp_path / "base").unlink()
    assert cache.sweep(time.time()) == ["used"]


async def test_what_an_operation_brought_for_itself_stays(cache: ImageCache) -> None:
    spec = replace(spec_of(b"data", "raw"), for_operation=True)
    await cache.put("own", spec, stream(b"data"), "saga.step")
    assert cache.sweep(time.time() + 10 * AGENT_IMAGE_KEEP_S) == []
    assert cache.brought() == {"own": "saga.step"}
    cache.delete("own")
    assert cache.brought() == {}


async def test_an_image_takes_the_room_of_those_that_nobody_used_longest(small: ImageCache) -> None:
    await bring(small, "older", 2, ago_s=AGENT_IMAGE_LEAST_S + 120)
    await bring(small, "oldest", 2, ago_s=AGENT_IMAGE_LEAST_S + 180)
    await bring(small, "wanted", 3)
    assert ids(small) == ["older", "wanted"]


async def test_what_was_used_within_an_hour_makes_no_room(small: ImageCache) -> None:
    await bring(small, "first", 3, ago_s=AGENT_IMAGE_LEAST_S - 60)
    with pytest.raises(NoCapacity, match="of an image beside the 2 MiB"):
        await bring(small, "second", 4)
    assert ids(small) == ["first"]
    assert small.leftovers() == []


async def test_no_stream_takes_from_the_reserve(small: ImageCache) -> None:
    """The room was there when it began, and went meanwhile."""
    data = os.urandom(4 * MIB)

    async def coming() -> AsyncGenerator[bytes]:
        yield data[: 2 * MIB]
        (small.path("other")).write_bytes(os.urandom(3 * MIB))
        yield data[2 * MIB :]

    with pytest.raises(NoCapacity, match="beside the 2 MiB"):
        await small.put("i1", spec_of(data, "raw"), coming(), "op")
    assert small.leftovers() == [str(small.path("other"))]


async def test_an_agent_looks_for_what_nobody_uses_from_its_start(tmp_path: Path) -> None:
    settings = AgentSettings(name="h1", state_dir=tmp_path, hypervisor="simulated")
    async with open_agent(settings) as running:
        await bring(running.agent.images, "old", ago_s=AGENT_IMAGE_KEEP_S + 60)
        await bring(running.agent.images, "new")
    async with open_agent(settings) as running:
        images = running.agent.images

        async def is_small() -> bool:
            return ids(images) == ["new"]

        await until(is_small, "the old image goes")


@pytest.mark.parametrize("start", STARTS)
async def test_a_host_leaves_free_what_the_setting_says(start: Start, tmp_path: Path) -> None:
    space = os.statvfs(tmp_path)
    variables = {
        "MOORING_STATE_DIR": str(tmp_path / "state"),
        "MOORING_HYPERVISOR": "simulated",
        "MOORING_IMAGE_RESERVE_MIB": str(space.f_blocks * space.f_frsize // MIB),
    }
    async with start(config.load(environment=variables)) as (client, _):
        with pytest.raises(NoCapacity, match="of an image beside"):
            await client.put_image("i1", spec_of(b"data", "raw"), stream(b"data"))
