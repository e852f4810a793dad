"""What a loss of power leaves of an agent's records."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.agent.connections import Connections
from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.fitting import Fitting
from mooring.agent.mounts import Mounts
from mooring.agent.qemu_img import QemuImg
from mooring.agent.run import Runner
from mooring.agent.settings import MountSettings, PoolSettings
from mooring.agent_api.volumes import VolumeFile
from mooring.errors import Unavailable
from mooring.fence.journal import Journal
from tests.agent.caches import make_cache
from tests.agent.hosts import IMAGE_ID, new_id, open_host, spec_of, stream
from tests.agent.places import place

pytestmark = pytest.mark.anyio


@pytest.fixture
async def driver(tmp_path: Path, journal: Journal) -> AsyncGenerator[DirectoryDriver]:
    pool = PoolSettings(name="local", format="raw")
    made = DirectoryDriver(pool, place(tmp_path / "pool"), QemuImg(Runner(journal)))
    await made.setup()
    yield made
    await made.close()


class Disk:
    """Knows which files, as they are now, were forced to disk since it looks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._forced = set[tuple[int, int]]()
        force = os.fsync

        def note(handle: int) -> None:
            found = os.fstat(handle)
            self._forced.add((found.st_ino, found.st_mtime_ns))
            force(handle)

        monkeypatch.setattr(os, "fsync", note)

    def has(self, path: Path) -> bool:
        found = path.stat()
        return (found.st_ino, found.st_mtime_ns) in self._forced


@pytest.mark.hosts
async def test_what_a_volume_is_is_on_disk_when_it_is_made_or_exported(
    driver: DirectoryDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, volume_id = Disk(monkeypatch), new_id()
    made = VolumeFile(volume_id=volume_id, pool="local", size_gib=1, format="raw")
    await driver.create(made, None, "s.create")
    record = driver.record_path(volume_id)
    assert disk.has(record)
    assert disk.has(record.parent)
    await driver.export(volume_id, "a1", {"host": "h1"})
    assert disk.has(record)


@pytest.mark.parametrize("content", [b"", b'{"format":'])
async def test_a_damaged_record_is_named_and_its_volume_is_not_gone(
    driver: DirectoryDriver, content: bytes
) -> None:
    volume_id = new_id()
    record = driver.record_path(volume_id)
    driver.path(volume_id).write_bytes(b"data")
    # Forced to disk it is never empty: what is, was damaged.
    record.write_bytes(content)
    with pytest.raises(Unavailable, match=f"{record.name} is damaged"):
        await driver.find(volume_id)
    with pytest.raises(Unavailable, match=f"{record.name} is damaged"):
        await driver.unexport(volume_id, "a1")


async def test_how_big_a_volume_was_is_on_disk_until_it_is_disconnected(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitting = Fitting(QemuImg(Runner(journal)))
    mounts = Mounts(MountSettings(), tmp_path / "state", Runner(journal))
    connections = Connections(tmp_path / "connections", mounts, fitting, simulated=False)
    connections.prepare()
    volume, record = tmp_path / "volume-v1", tmp_path / "connections" / "a1.json"
    volume.touch()
    os.truncate(volume, 4 << 20)
    data = {"device_path": str(volume), "format": "raw"}
    info = {"driver_volume_type": "local", "data": data}
    await connections.connect("a1", "v1", info)
    disk = Disk(monkeypatch)
    await connections.fit("a1", 1 << 20, "op")
    assert disk.has(record)
    # Each writes the record anew.
    await connections.connect("a1", "v1", info, server_id="s1")
    assert disk.has(record)
    connections.follow("a1", str(volume), "qcow2")
    assert disk.has(record)
    connections.release("s1")
    assert disk.has(record)


async def test_an_image_with_an_empty_record_comes_anew(tmp_path: Path) -> None:
    async with open_host(tmp_path) as (host, _):
        await host.push_image()
        (tmp_path / "images" / f"{IMAGE_ID}.json").write_bytes(b"")
        assert await host.client.show_image(IMAGE_ID) is None
        await host.push_image()
        assert await host.client.show_image(IMAGE_ID) is not None


async def test_what_a_cached_image_is_is_on_disk_when_it_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, disk, data = make_cache(tmp_path / "images"), Disk(monkeypatch), b"MOORING"
    await cache.put("i1", spec_of(data, "raw"), stream(data), "op")
    for path in (cache.path("i1"), cache.path("i1.json"), tmp_path / "images"):
        assert disk.has(path)
