"""The image cache: what comes in is what was declared, whole, or not there at all."""

from __future__ import annotations

import errno
import hashlib
import struct
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring import qcow2
from mooring.agent.images import ImageCache
from mooring.agent_api.images import ImageSpec
from mooring.errors import Invalid, NoCapacity
from tests.agent.caches import make_cache
from tests.agent.hosts import spec_of, stream

pytestmark = pytest.mark.anyio
DATA = b"some data that is no disk" * 1000


@pytest.fixture
def cache(tmp_path: Path) -> ImageCache:
    return make_cache(tmp_path / "images")


def header(*, version: int = 3, backing: int = 0, encryption: int = 0, features: int = 0) -> bytes:
    head = struct.pack(">4sIQIIQI", b"QFI\xfb", version, backing, 0, 16, 5 * 1024**3, encryption)
    return head.ljust(72, b"\0") + struct.pack(">QQQII", features, 0, 0, 4, 104) + b"\0" * 408


async def test_an_image_comes_in_once_and_is_not_read_again(cache: ImageCache) -> None:
    image = await cache.put("i1", spec_of(DATA, "raw"), stream(DATA), "op")
    assert (image.size_bytes, image.virtual_bytes) == (25000, 25088)
    assert cache.path("i1").read_bytes() == DATA

    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("it was read again")
        yield b""

    assert await cache.put("i1", spec_of(DATA, "raw"), never(), "op2") == image
    assert cache.images() == [image]
    cache.delete("i1")
    cache.delete("i1")
    assert cache.find("i1") is None
    assert cache.leftovers() == []


async def test_another_content_under_the_same_id_replaces_it(cache: ImageCache) -> None:
    await cache.put("i1", spec_of(DATA, "raw"), stream(DATA), "op")
    await cache.put("i1", spec_of(b"new", "raw"), stream(b"new"), "op2")
    assert cache.path("i1").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (replace(spec_of(DATA, "raw"), size_bytes=len(DATA) - 1), "larger than"),
        (replace(spec_of(DATA, "raw"), size_bytes=len(DATA) + 1), "instead of"),
        (replace(spec_of(DATA, "raw"), os_hash_value="0" * 128), "hash is not"),
        (replace(spec_of(DATA, "raw"), os_hash_algo="crc32"), "is not known here"),
        (spec_of(DATA, "vmdk"), "is not taken"),
        (spec_of(DATA, "qcow2"), "not qcow2, though declared so"),
        (ImageSpec(disk_format="raw", size_bytes=0), "0 bytes is not taken"),
    ],
)
async def test_what_is_not_as_declared_leaves_nothing(
    cache: ImageCache, spec: ImageSpec, words: str
) -> None:
    with pytest.raises(Invalid, match=words):
        await cache.put("i1", spec, stream(DATA), "op")
    assert cache.find("i1") is None
    assert cache.leftovers() == []


async def test_an_image_without_a_hash_is_taken(cache: ImageCache) -> None:
    spec = ImageSpec(disk_format="raw", size_bytes=len(DATA))
    assert (await cache.put("i1", spec, stream(DATA), "op")).size_bytes == len(DATA)
    assert hashlib.sha256(DATA).digest() == hashlib.sha256(cache.path("i1").read_bytes()).digest()


async def test_an_image_whose_record_is_damaged_comes_anew(cache: ImageCache) -> None:
    for image_id in ("i1", "i2"):
        await cache.put(image_id, spec_of(DATA, "raw"), stream(DATA), "op")
    record = cache.path("i1").with_name("i1.json")
    record.write_bytes(record.read_bytes()[:-9])
    assert [image.image_id for image in cache.images()] == ["i2"]
    assert (cache.brought(), cache.sweep(time.time()), cache.leftovers()) == ({}, [], [])
    image = await cache.put("i1", spec_of(DATA, "raw"), stream(DATA), "op2")
    assert cache.find("i1") == image
    assert cache.path("i1").read_bytes() == DATA


async def test_what_an_agent_left_half_done_is_gone_after_the_next_start(cache: ImageCache) -> None:
    cache.path("i1.op.partial").write_bytes(b"half")
    cache.prepare()
    assert cache.leftovers() == []


async def test_data_of_which_nothing_says_what_they_are_are_gone_after_the_next_start(
    cache: ImageCache,
) -> None:
    for image_id in ("i1", "i2", "i3"):
        await cache.put(image_id, spec_of(DATA, "raw"), stream(DATA), "op")
    # As who died between the two of them leaves it, and as the power does that went.
    cache.path("i1.json").unlink()
    cache.path("i2.json").write_bytes(b"")
    cache.path("i4.op.arriving").write_bytes(b"half")
    cache.prepare()
    assert [image.image_id for image in cache.images()] == ["i3"]
    assert (cache.brought(), cache.leftovers()) == ({"i4": "op"}, [])
    assert not cache.path("i1").exists()
    assert not cache.path("i2").exists()


async def test_an_image_whose_record_finds_no_room_does_not_stay(
    cache: ImageCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(path: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, f"No space left on device: {path}, {len(content)}")

    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", fill)
        with pytest.raises(NoCapacity):
            await cache.put("i1", spec_of(DATA, "raw"), stream(DATA), "op")
    assert (cache.images(), cache.leftovers()) == ([], [])


def test_a_qcow2_header_tells_the_size(tmp_path: Path) -> None:
    file = tmp_path / "disk"
    file.write_bytes(header())
    assert qcow2.read_virtual_bytes(file) == 5 * 1024**3
    file.write_bytes(header(version=2))
    assert qcow2.read_virtual_bytes(file) == 5 * 1024**3


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (header(backing=512), "backing file"),
        (header(encryption=2), "encrypted"),
        (header(features=4), "in another file"),
        (header(features=1 << 4), "not known here"),
        (header(features=1 << 60), "not known here"),
        (header()[:300], "not qcow2"),
        (header(version=4), "version 4"),
        (b"QFI\xfb", "not qcow2"),
        (b"", "not qcow2"),
    ],
)
def test_a_qcow2_that_opens_more_than_itself_is_refused(
    tmp_path: Path, head: bytes, words: str
) -> None:
    file = tmp_path / "disk"
    file.write_bytes(head)
    with pytest.raises(Invalid, match=words):
        qcow2.read_virtual_bytes(file)
