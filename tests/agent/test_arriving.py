"""Images that operations bring for themselves: what was broken off goes on where it was."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent.images import ImageCache
from mooring.agent_api.images import ImageSpec
from mooring.errors import Invalid, Unavailable
from tests.agent.caches import make_cache
from tests.agent.hosts import stream

pytestmark = pytest.mark.anyio
MIB = 1024**2
DATA = os.urandom(3 * MIB + 17)
SPEC = ImageSpec(
    disk_format="raw",
    size_bytes=len(DATA),
    os_hash_algo="sha256",
    os_hash_value=hashlib.sha256(DATA).hexdigest(),
    for_operation=True,
)


@pytest.fixture
def cache(tmp_path: Path) -> ImageCache:
    return make_cache(tmp_path / "images")


async def broken(data: bytes) -> AsyncIterator[bytes]:
    """Yield data, and then no more."""
    async for piece in stream(data):
        yield piece
    raise Unavailable("The data ended too early; send it again.")


async def bring_half(cache: ImageCache, spec: ImageSpec = SPEC, key: str = "saga.step") -> int:
    """Bring what comes until the sender goes away, and return how much is there."""
    with pytest.raises(Unavailable):
        await cache.put("i1", spec, broken(DATA[: 2 * MIB + 5]), key)
    return await cache.arrived_bytes("i1")


async def test_a_stream_goes_on_where_it_was_broken_off(cache: ImageCache) -> None:
    has = await bring_half(cache)
    assert has == 2 * MIB + 5
    cache.prepare()
    rest = replace(SPEC, begins_at=has)
    image = await cache.put("i1", rest, stream(DATA[has:]), "saga.step")
    assert image.size_bytes == len(DATA)
    assert cache.path("i1").read_bytes() == DATA
    assert (await cache.arrived_bytes("i1"), cache.leftovers()) == (0, [])


async def test_it_may_go_on_from_less_than_has_come(cache: ImageCache) -> None:
    await bring_half(cache)
    await cache.put("i1", replace(SPEC, begins_at=MIB), stream(DATA[MIB:]), "saga.step")
    assert cache.path("i1").read_bytes() == DATA


async def test_it_never_goes_on_from_more_than_has_come(cache: ImageCache) -> None:
    has = await bring_half(cache)
    with pytest.raises(Unavailable, match="Ask how many have come"):
        await cache.put("i1", replace(SPEC, begins_at=has + 1), stream(b""), "saga.step")
    assert await cache.arrived_bytes("i1") == has


async def test_what_has_come_of_others_is_not_gone_on_with(cache: ImageCache) -> None:
    has = await bring_half(cache)
    with pytest.raises(Unavailable):
        await cache.put("i1", replace(SPEC, begins_at=has), stream(DATA[has:]), "other.step")
    await cache.put("i1", SPEC, stream(DATA), "other.step")
    assert cache.path("i1").read_bytes() == DATA
    assert (cache.brought(), cache.leftovers()) == ({"i1": "other.step"}, [])


async def test_what_was_damaged_meanwhile_comes_anew(cache: ImageCache) -> None:
    has = await bring_half(cache)
    [arriving] = cache.path("i1").parent.glob("i1.*")
    with arriving.open("r+b") as file:
        file.write(bytes(100))
    with pytest.raises(Unavailable, match="send all of it again"):
        await cache.put("i1", replace(SPEC, begins_at=has), stream(DATA[has:]), "saga.step")
    assert (await cache.arrived_bytes("i1"), cache.find("i1")) == (0, None)
    await cache.put("i1", SPEC, stream(DATA), "saga.step")
    assert cache.path("i1").read_bytes() == DATA


async def test_what_is_not_as_declared_is_not_kept(cache: ImageCache) -> None:
    with pytest.raises(Invalid):
        await cache.put("i1", replace(SPEC, os_hash_value="0" * 64), stream(DATA), "saga.step")
    assert (await cache.arrived_bytes("i1"), cache.brought(), cache.leftovers()) == (0, {}, [])


async def test_a_deletion_removes_what_has_come(cache: ImageCache) -> None:
    await bring_half(cache)
    assert cache.brought() == {"i1": "saga.step"}
    cache.delete("i1")
    assert (await cache.arrived_bytes("i1"), cache.brought()) == (0, {})


async def test_of_an_image_for_everybody_nothing_is_kept(cache: ImageCache) -> None:
    assert await bring_half(cache, replace(SPEC, for_operation=False)) == 0
    assert cache.leftovers() == []
