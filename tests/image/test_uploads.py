from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import os
import resource
import signal
import tarfile
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from mooring.errors import Forbidden, NotFound
from mooring.image import uploads
from mooring.image.attributes import CONTAINER_FORMATS
from mooring.limits import IMAGE_CHUNK_BYTES
from mooring.who import Who
from tests.image.cloud import PROJECT, ImageCloud, is_as_before, pieces, qcow2

pytestmark = pytest.mark.anyio
MEMBER = Who(user_id="member", project_id=PROJECT, token="member")


async def test_data_go_in_and_come_out(cloud: ImageCloud) -> None:
    content = os.urandom(2 * IMAGE_CHUNK_BYTES + 77)
    image_id = await cloud.make()
    # More is written than once: what is gathered is a chunk by then.
    middle = IMAGE_CHUNK_BYTES + 90000
    parts = pieces(content[:5], content[5:middle], content[middle:])
    answer = await cloud.upload(image_id, parts)
    assert answer.status == 204, answer.text
    shown = await cloud.show(image_id)
    assert (shown["status"], shown["size"]) == ("active", len(content))
    assert shown["virtual_size"] == len(content)
    assert shown["checksum"] == hashlib.md5(content).hexdigest()  # noqa: S324  (Glance's own)
    assert shown["os_hash_algo"] == "sha512"
    assert shown["os_hash_value"] == hashlib.sha512(content).hexdigest()
    got = await cloud.ask("GET", f"/images/{image_id}/file")
    assert got.content == content
    assert got.headers["content-length"] == str(len(content))
    assert got.headers["content-md5"] == shown["checksum"]
    assert got.headers["content-type"] == "application/octet-stream"


async def test_the_client_shows_and_reads_in_chunks(cloud: ImageCloud) -> None:
    content = os.urandom(2 * IMAGE_CHUNK_BYTES + 1)
    image_id = await cloud.filled(content, hw_disk_bus="virtio", min_disk=2)
    shown = await cloud.client.show(MEMBER, image_id)
    assert (shown.is_active, shown.size_bytes, shown.min_disk_gib) == (True, len(content), 2)
    assert shown.properties == {"hw_disk_bus": "virtio"}
    got = bytearray()
    async with cloud.client.download(MEMBER, image_id) as chunks:
        async for chunk in chunks:
            assert len(chunk) <= IMAGE_CHUNK_BYTES
            got += chunk
    assert got == content
    with pytest.raises(NotFound):
        await cloud.client.show(MEMBER, str(uuid4()))
    await cloud.client.delete(MEMBER, image_id)
    with pytest.raises(NotFound):
        async with cloud.client.download(MEMBER, image_id):
            pass


@pytest.mark.parametrize(
    ("asked", "status", "expected"),
    [
        ("bytes=0-3", 206, b"0123"),
        ("bytes=4-", 206, b"456789"),
        ("bytes=-2", 206, b"89"),
        ("bytes=8-99", 206, b"89"),
        ("bytes=0-", 206, b"0123456789"),
        ("bytes=10-", 416, b""),
        ("bytes=5-4", 416, b""),
        ("lines=1-2", 416, b""),
    ],
)
async def test_a_part_may_be_read(
    cloud: ImageCloud, asked: str, status: int, expected: bytes
) -> None:
    image_id = await cloud.filled(b"0123456789")
    answer = await cloud.ask("GET", f"/images/{image_id}/file", headers={"Range": asked})
    assert answer.status == status
    if status == 206:
        assert answer.content == expected
        first = b"0123456789".index(expected)
        last = first + len(expected) - 1
        assert answer.headers["content-range"] == f"bytes {first}-{last}/10"


async def test_an_image_without_data_is_204_and_head_is_405(cloud: ImageCloud) -> None:
    image_id = await cloud.make()
    assert (await cloud.ask("GET", f"/images/{image_id}/file")).status == 204
    assert (await cloud.ask("HEAD", f"/images/{image_id}/file")).status == 405


async def test_an_empty_upload_makes_an_active_image(cloud: ImageCloud) -> None:
    image_id = await cloud.make()
    assert (await cloud.upload(image_id, b"")).status == 204
    shown = await cloud.show(image_id)
    assert (shown["status"], shown["size"], shown["virtual_size"]) == ("active", 0, None)
    assert shown["checksum"] == "d41d8cd98f00b204e9800998ecf8427e"
    assert (await cloud.ask("GET", f"/images/{image_id}/file")).status == 204


async def test_a_qcow2_tells_its_size(cloud: ImageCloud) -> None:
    image_id = await cloud.make(disk_format="qcow2")
    assert (await cloud.upload(image_id, qcow2(5 << 30))).status == 204
    shown = await cloud.show(image_id)
    assert (shown["virtual_size"], shown["size"]) == (5 << 30, 512)


@pytest.mark.parametrize(
    ("disk_format", "content"),
    [
        ("qcow2", b"no header at all"),
        ("qcow2", b""),
        ("qcow2", qcow2(backing=400)),
        ("qcow2", qcow2(features=1 << 2)),
        ("qcow2", qcow2(features=1 << 4)),
        ("qcow2", qcow2(features=1 << 60)),
        ("qcow2", qcow2(encryption=1)),
        ("qcow2", qcow2(encryption=2)),
        ("qcow2", qcow2(size=1 << 63)),
        ("qcow2", qcow2(version=4)),
        ("qcow2", qcow2()[:90]),
        ("raw", qcow2()),
    ],
)
async def test_data_that_are_not_what_they_are_said_to_be_are_415(
    cloud: ImageCloud, disk_format: str, content: bytes
) -> None:
    image_id = await cloud.make(disk_format=disk_format)
    assert (await cloud.upload(image_id, content)).status == 415
    assert await is_as_before(cloud, image_id)


@pytest.mark.parametrize(
    ("container_format", "disk_format", "content"),
    [
        *((each, "qcow2", b"text") for each in ("ami", "ari", "aki", "ovf", "ova", "docker")),
        *((each, "raw", qcow2()) for each in CONTAINER_FORMATS),
        *((each, "qcow2", qcow2(backing=400)) for each in CONTAINER_FORMATS),
        ("ova", "vmdk", b"KDMV..."),
        ("compressed", "qcow2", qcow2()),
    ],
)
async def test_a_container_hides_no_data_that_are_something_else(
    cloud: ImageCloud, container_format: str, disk_format: str, content: bytes
) -> None:
    image_id = await cloud.make(disk_format=disk_format, container_format=container_format)
    assert (await cloud.upload(image_id, content)).status == 415
    assert await is_as_before(cloud, image_id)


async def test_containers_that_are_what_they_say_are_taken(cloud: ImageCloud) -> None:
    taken: dict[tuple[str, str], int | None] = {}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("disk.qcow2"))
    for container, kind, content in (
        ("ovf", "qcow2", qcow2(5 << 30)),
        ("aki", "raw", b"kernel"),
        ("ova", "qcow2", archive.getvalue()),
        ("docker", "raw", archive.getvalue()),
        ("compressed", "qcow2", gzip.compress(qcow2())),
    ):
        image_id = await cloud.filled(content, container_format=container, disk_format=kind)
        taken[container, kind] = (await cloud.show(image_id))["virtual_size"]
    assert taken == {
        ("ovf", "qcow2"): 5 << 30,
        ("aki", "raw"): 6,
        ("ova", "qcow2"): None,
        ("docker", "raw"): None,
        ("compressed", "qcow2"): None,
    }


async def test_other_formats_are_kept_as_they_come(cloud: ImageCloud) -> None:
    image_id = await cloud.filled(b"KDMV...", disk_format="vmdk")
    assert (await cloud.show(image_id))["virtual_size"] is None


async def test_another_content_type_is_415(cloud: ImageCloud) -> None:
    image_id = await cloud.make()
    for media in ("application/json", ""):
        assert (await cloud.upload(image_id, b"x", media=media)).status == 415
    assert await is_as_before(cloud, image_id)


async def test_an_image_without_formats_takes_no_data(cloud: ImageCloud) -> None:
    image_id = await cloud.make(disk_format=None)
    assert (await cloud.upload(image_id, b"x")).status == 400
    assert await is_as_before(cloud, image_id)


async def test_data_are_given_once(cloud: ImageCloud) -> None:
    image_id = await cloud.filled(b"first")
    assert (await cloud.upload(image_id, b"second")).status == 409
    got = await cloud.ask("GET", f"/images/{image_id}/file")
    assert (got.content, len(cloud.files())) == (b"first", 1)


async def test_a_body_over_the_limit_is_413(cloud: ImageCloud) -> None:
    cloud.limit(1000)
    image_id = await cloud.make()
    assert (await cloud.upload(image_id, bytes(1001))).status == 413
    assert (await cloud.upload(image_id, pieces(bytes(600), bytes(401)))).status == 413
    assert await is_as_before(cloud, image_id)
    assert (await cloud.upload(image_id, bytes(1000))).status == 204


async def test_a_second_upload_meanwhile_is_409(cloud: ImageCloud) -> None:
    image_id, go_on = await cloud.make(), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b"one"
        await go_on.wait()
        yield b"two"

    first = asyncio.create_task(cloud.upload(image_id, slowly()))
    await cloud.upload_begun()
    assert (await cloud.upload(image_id, b"other")).status == 409
    assert (await cloud.show(image_id))["status"] == "saving"
    frozen = {"op": "replace", "path": "/disk_format", "value": "qcow2"}
    assert (await cloud.patch(image_id, frozen)).status == 403
    await uploads.recover(cloud.image)
    go_on.set()
    assert (await first).status == 204
    assert (await cloud.ask("GET", f"/images/{image_id}/file")).content == b"onetwo"


async def test_an_image_deleted_meanwhile_leaves_nothing(cloud: ImageCloud) -> None:
    image_id, go_on = await cloud.make(), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b"one"
        await go_on.wait()

    first = asyncio.create_task(cloud.upload(image_id, slowly()))
    await cloud.upload_begun()
    assert (await cloud.ask("DELETE", f"/images/{image_id}")).status == 204
    go_on.set()
    assert (await first).status == 410
    assert cloud.files() == []


async def test_a_full_disk_is_413_and_says_so(cloud: ImageCloud) -> None:
    """A limit on the size of this process's files does as well as a small disk."""
    image_id = await cloud.make()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, hard))
    try:
        answer = await cloud.upload(image_id, bytes(4 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert (answer.status, "no room" in answer.text) == (413, True)
    assert await is_as_before(cloud, image_id)


async def test_lost_data_are_told_and_nothing_else(cloud: ImageCloud) -> None:
    image_id = await cloud.filled(b"x")
    (cloud.directory / cloud.files()[0]).unlink()
    with pytest.raises(NotFound, match="not here"):
        async with cloud.client.download(MEMBER, image_id):
            pass


async def test_a_stranger_may_read_what_is_open_and_no_more(cloud: ImageCloud) -> None:
    image_id = await cloud.filled(b"x", visibility="community")
    stranger = Who(user_id="stranger", token="stranger")
    async with cloud.client.download(stranger, image_id) as chunks:
        assert [chunk async for chunk in chunks] == [b"x"]
    await cloud.ask("POST", f"/images/{image_id}/actions/deactivate")
    with pytest.raises(Forbidden):
        async with cloud.client.download(stranger, image_id):
            pass
