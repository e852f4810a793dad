"""Captures of volumes: the same on hosts with files and on simulated ones."""

from __future__ import annotations

import hashlib

import pytest

from mooring import qcow2
from mooring.agent.qemu_img import GIB
from mooring.agent_api.captures import Capture, DiskFormat
from mooring.agent_api.images import ImageSpec
from mooring.agent_api.snapshots import SnapshotSpec
from mooring.agent_api.volumes import VolumeSpec
from mooring.errors import Conflict, NotFound, Unavailable
from tests.agent.hosts import TestHost, new_id, operation, stream

pytestmark = pytest.mark.anyio


async def make(host: TestHost, image_id: str = "") -> str:
    volume_id = new_id()
    spec = VolumeSpec(pool="local", size_gib=1, image_id=image_id)
    await host.client.put_volume(volume_id, spec, operation=operation())
    return volume_id


async def capture(
    host: TestHost, volume_id: str, image_id: str, disk_format: DiskFormat = "qcow2"
) -> Capture:
    making = operation()
    return await host.client.put_volume_capture(volume_id, image_id, disk_format, operation=making)


async def read(host: TestHost, volume_id: str, captured: Capture) -> bytes:
    return b"".join([piece async for piece in host.client.read_volume_capture(volume_id, captured)])


async def test_a_volume_is_captured_once_and_read_whole(host: TestHost) -> None:
    volume_id, image_id = await make(host), new_id()
    before = await host.client.show_volume(volume_id)
    assert await host.client.show_volume_capture(volume_id, image_id) is None
    made = await capture(host, volume_id, image_id)
    assert await capture(host, volume_id, image_id) == made
    assert await host.client.show_volume_capture(volume_id, image_id) == made
    data = await read(host, volume_id, made)
    assert len(data) == made.size_bytes
    assert hashlib.sha256(data).hexdigest() == made.sha256
    assert qcow2.read_alone(data[: qcow2.HEADER_BYTES]) == GIB
    assert await host.client.show_volume(volume_id) == before
    for _ in range(2):
        await host.client.delete_volume_capture(volume_id, image_id, operation=operation())
    assert await host.client.show_volume_capture(volume_id, image_id) is None
    await host.client.delete_volume(volume_id, operation=operation())


async def test_a_raw_capture_is_as_large_as_its_volume(host: TestHost) -> None:
    volume_id, image_id = await make(host), new_id()
    assert (await capture(host, volume_id, image_id, "raw")).size_bytes == GIB
    await host.client.delete_volume(volume_id, operation=operation())


async def test_a_volume_is_made_from_what_was_captured_of_another(host: TestHost) -> None:
    first, image_id = await make(host), new_id()
    data = await read(host, first, await capture(host, first, image_id))
    spec = ImageSpec(disk_format="qcow2", size_bytes=len(data))
    await host.client.put_image(image_id, spec, stream(data), operation=operation())
    second = await make(host, image_id)
    found = await host.client.show_volume(second)
    assert found is not None
    assert found.virtual_bytes == GIB
    for volume_id in (first, second):
        await host.client.delete_volume(volume_id, operation=operation())


async def test_a_volume_that_is_not_there_or_that_somebody_has_is_not_captured(
    host: TestHost,
) -> None:
    with pytest.raises(NotFound):
        await capture(host, new_id(), new_id())
    with pytest.raises(NotFound):
        await read(host, new_id(), Capture(image_id=new_id(), size_bytes=1, sha256="0"))
    volume_id, attachment_id = await make(host), new_id()
    connector = await host.client.connector()
    await host.client.export_volume(volume_id, attachment_id, connector, operation=operation())
    with pytest.raises(Conflict, match=attachment_id):
        await capture(host, volume_id, new_id())
    await host.client.unexport_volume(volume_id, attachment_id, operation=operation())
    await host.client.delete_volume(volume_id, operation=operation())


async def test_a_snapshot_is_captured_whoever_has_its_volume(host: TestHost) -> None:
    volume_id, snapshot_id, attachment_id = await make(host), new_id(), new_id()
    taken = SnapshotSpec("taken")
    await host.client.put_snapshot(volume_id, snapshot_id, taken, operation=operation())
    connector = await host.client.connector()
    await host.client.export_volume(volume_id, attachment_id, connector, operation=operation())
    made = await host.client.put_volume_capture(
        volume_id, new_id(), "qcow2", snapshot_id=snapshot_id, operation=operation()
    )
    data = await read(host, volume_id, made)
    assert qcow2.read_alone(data[: qcow2.HEADER_BYTES]) == GIB
    with pytest.raises(NotFound):
        await host.client.put_volume_capture(
            volume_id, new_id(), "qcow2", snapshot_id=new_id(), operation=operation()
        )
    await host.client.unexport_volume(volume_id, attachment_id, operation=operation())
    await host.client.delete_snapshot(volume_id, snapshot_id, operation=operation())
    await host.client.delete_volume(volume_id, operation=operation())


async def test_what_was_taken_back_is_not_made_late(host: TestHost) -> None:
    volume_id, image_id, making = await make(host), new_id(), operation()
    await host.client.delete_volume_capture(volume_id, image_id, operation=making)
    with pytest.raises(Conflict):
        await host.client.put_volume_capture(volume_id, image_id, "raw", operation=making)
    assert await host.client.show_volume_capture(volume_id, image_id) is None
    await host.client.delete_volume(volume_id, operation=operation())


async def test_damaged_data_do_not_come_to_their_end(host: TestHost) -> None:
    volume_id, image_id = await make(host), new_id()
    made = await capture(host, volume_id, image_id)
    other = Capture(image_id=image_id, size_bytes=made.size_bytes, sha256="0" * 64)
    got: list[int] = []

    async def take() -> None:
        pieces = host.client.read_volume_capture(volume_id, other)
        got.extend([len(piece) async for piece in pieces])

    with pytest.raises(Unavailable, match="damaged"):
        await take()
    assert sum(got) < made.size_bytes
    await host.client.delete_volume(volume_id, operation=operation())


async def test_captures_go_with_their_volume(host: TestHost) -> None:
    volume_id, image_id = await make(host), new_id()
    await capture(host, volume_id, image_id)
    await capture(host, volume_id, new_id(), "raw")
    await host.client.delete_volume(volume_id, operation=operation())
    assert await host.client.show_volume_capture(volume_id, image_id) is None
    assert (await host.client.inventory()).leftovers == []
