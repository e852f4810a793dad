"""What holds for every volume driver: the same tests on the simulated one and on files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent import files, simulated_pool
from mooring.agent.drivers.base import ExtendNeedsCompute, SourceImage, VolumeDriver
from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.drivers.file_snapshots import FileSnapshots
from mooring.agent.drivers.file_volumes import FileVolumes
from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent.qemu_img import FORMATS, GIB, QemuImg
from mooring.agent.run import Runner
from mooring.agent.settings import PoolSettings
from mooring.agent.sources import Address, FileSource, NetworkSource
from mooring.agent.world import SimulatedDisk, SimulatedGuest, World
from mooring.agent_api.volumes import VolumeFile
from mooring.errors import Conflict, Invalid, NoCapacity, NotFound, Unavailable
from mooring.fence.journal import Journal
from mooring.volume.backends import targets
from tests.agent.places import place
from tests.agent.remote_pools import HOST, KINDS, remote_pool
from tests.contract.holders import held_by_qemu

pytestmark = pytest.mark.anyio
HERE = {"host": HOST}
REMOTE = ("nfs/raw", "nfs/qcow2", "netapp_nfs/raw", "powerstore_nfs/qcow2", "quobyte/qcow2")
"""Their files are made alike, so each format once is enough here."""
MIB = 1024**2


@pytest.fixture(
    params=[
        "simulated",
        pytest.param("raw", marks=pytest.mark.hosts),
        pytest.param("qcow2", marks=pytest.mark.hosts),
        *(pytest.param(kind, marks=pytest.mark.hosts) for kind in REMOTE),
    ]
)
async def driver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[VolumeDriver]:
    journal = Journal(tmp_path / "journal.sqlite")
    kind, _, disk_format = request.param.partition("/")
    async with AsyncExitStack() as stack:
        if kind in KINDS:
            remote = remote_pool(kind, disk_format, tmp_path, journal)
            made: VolumeDriver = (await stack.enter_async_context(remote)).driver
        else:
            made = make_driver(kind, tmp_path, journal)
        await made.setup()
        yield made
        await made.close()
    await journal.close()


def make_driver(
    kind: str, directory: Path, journal: Journal, hosts: tuple[str, ...] = ()
) -> VolumeDriver:
    if kind == "simulated":
        pool = PoolSettings(name="pool", driver="simulated", total_gib=100, oversubscription=1)
        return SimulatedDriver(replace(pool, hosts=hosts), directory / "pool.sqlite")
    pool = PoolSettings(name="pool", format="qcow2" if kind == "qcow2" else "raw", hosts=hosts)
    return DirectoryDriver(pool, place(directory / "volumes", HOST), QemuImg(Runner(journal)))


async def run(*argv: str) -> int:
    process = await asyncio.create_subprocess_exec(*argv)
    return await process.wait()


def volume(driver: VolumeDriver, size_gib: int = 1, volume_id: str = "v1") -> VolumeFile:
    return VolumeFile(
        volume_id=volume_id,
        pool="pool",
        size_gib=size_gib,
        format=driver.pool.format,
        virtual_bytes=size_gib * GIB,
    )


def image(directory: Path, size_bytes: int = 3 * MIB) -> SourceImage:
    file = directory / "image"
    file.write_bytes(b"MOORING" + b"\0" * (size_bytes - 7))
    return SourceImage("i1", FileSource(str(file), "raw"), size_bytes)


async def test_a_volume_is_made_found_and_removed(driver: VolumeDriver) -> None:
    for _ in range(2):
        assert await driver.create(volume(driver), None, "op") == volume(driver)
    assert await driver.find("v1") == volume(driver)
    assert await driver.volumes() == [volume(driver)]
    stats = await driver.stats()
    assert (stats.volumes, stats.provisioned_gib) == (1, 1)
    for _ in range(2):
        await driver.delete("v1")
    assert await driver.find("v1") is None
    assert await driver.leftovers() == []
    assert (await driver.stats()).provisioned_gib == 0


async def test_every_pool_has_raw_volumes_for_several_guests(driver: VolumeDriver) -> None:
    assert (await driver.stats()).multiattach
    raw = replace(volume(driver), format="raw")
    assert await driver.create(raw, None, "op") == raw
    assert await driver.extend("v1", 2, "op2") == replace(volume(driver, 2), format="raw")
    assert (await driver.export("v1", "a1", HERE))["data"]["format"] == "raw"


async def test_another_size_under_the_same_id_is_refused(driver: VolumeDriver) -> None:
    await driver.create(volume(driver), None, "op")
    with pytest.raises(Conflict, match="is there already"):
        await driver.create(volume(driver, 2), None, "op2")


async def test_a_volume_holds_an_images_content(driver: VolumeDriver, tmp_path: Path) -> None:
    await driver.create(volume(driver), image(tmp_path), "op")
    info = await driver.export("v1", "a1", HERE)
    assert info["data"]["size_bytes"] == GIB
    assert info["data"]["format"] == driver.pool.format
    if info["driver_volume_type"] == "local":
        raw = tmp_path / "back.raw"
        convert = ["qemu-img", "convert", "-f", driver.pool.format, "-O", "raw"]
        assert await run(*convert, info["data"]["device_path"], str(raw)) == 0
        assert raw.stat().st_size == GIB
        with raw.open("rb") as file:
            assert file.read(7) == b"MOORING"


async def test_a_volume_smaller_than_its_image_is_refused(
    driver: VolumeDriver, tmp_path: Path
) -> None:
    large = SourceImage("i1", FileSource(str(tmp_path / "image"), "raw"), 2 * GIB)
    with pytest.raises(Invalid, match="needs a volume of 2 GiB"):
        await driver.create(volume(driver), large, "op")
    assert await driver.leftovers() == []


async def test_an_image_on_the_network_is_no_source(driver: VolumeDriver) -> None:
    elsewhere = NetworkSource(protocol="rbd", name="images/i1", hosts=(Address("192.0.2.1"),))
    with pytest.raises(Invalid, match="the rbd image images/i1 is no file of this host"):
        await driver.create(volume(driver), SourceImage("i1", elsewhere, GIB), "op")
    assert await driver.find("v1") is None
    await driver.create(volume(driver), None, "op")
    with pytest.raises(Invalid, match="is no file of this host"):
        await driver.replace("v1", SourceImage("i1", elsewhere, GIB), "op")


async def test_a_volume_grows_and_never_shrinks(driver: VolumeDriver) -> None:
    with pytest.raises(NotFound):
        await driver.extend("v1", 2, "op")
    await driver.create(volume(driver), None, "op")
    for size_gib in (3, 3, 2, 1):
        assert await driver.extend("v1", size_gib, f"op-{size_gib}") == volume(driver, 3)
    assert await driver.find("v1") == volume(driver, 3)
    assert (await driver.stats()).provisioned_gib == 3
    info = await driver.export("v1", "a1", HERE)
    assert info["data"]["size_bytes"] == 3 * GIB
    with pytest.raises(NoCapacity, match="has no room for 9999997 GiB more"):
        await driver.extend("v1", 10_000_000, "op")
    assert await driver.find("v1") == replace(volume(driver, 3), exports=["a1"])
    assert await driver.leftovers() == []


@pytest.mark.hosts
@pytest.mark.parametrize(
    ("driver", "read_only"),
    [
        *((disk_format, held) for disk_format in FORMATS for held in (False, True)),
        *((f"{kind}/{disk_format}", False) for kind in KINDS for disk_format in FORMATS),
    ],
    indirect=["driver"],
)
async def test_a_volume_that_qemu_holds_is_left_as_it_is(
    driver: FileSnapshots, *, read_only: bool
) -> None:
    await driver.create(volume(driver), None, "op")
    path = driver.active_path("v1")
    before = (path.read_bytes()[:4096], path.stat().st_size)
    async with held_by_qemu(path, driver.pool.format, read_only=read_only):
        with pytest.raises(ExtendNeedsCompute) as caught:
            await driver.extend("v1", 2, "op")
        assert caught.value.volume == volume(driver)
        assert await driver.find("v1") == volume(driver)
        assert await driver.extend("v1", 1, "op") == volume(driver)
        assert (path.read_bytes()[:4096], path.stat().st_size) == before
    assert await driver.extend("v1", 2, "op") == volume(driver, 2)


@pytest.mark.hosts
@pytest.mark.parametrize("driver", ["qcow2"], indirect=True)
async def test_only_the_lock_is_taken_for_the_lock(driver: DirectoryDriver) -> None:
    await driver.create(volume(driver), None, "op")
    with driver.active_path("v1").open("r+b") as file:
        file.seek(4)
        file.write(b"\0\0\0\x09")
    with pytest.raises(Unavailable, match="resizing volume-v1"):
        await driver.extend("v1", 2, "op")
    with driver.active_path("v1").open("r+b") as file:
        file.write(b"none")
    damaged = await driver.find("v1")
    assert damaged is not None
    assert (damaged.size_gib, damaged.virtual_bytes) == (0, 0)
    assert await driver.volumes() == [damaged], "one damaged file hides no other"


async def test_a_simulated_guest_holds_its_volume_as_qemu_does(tmp_path: Path) -> None:
    pool = PoolSettings(name="pool", driver="simulated", total_gib=100)
    guests = World(tmp_path / "world.sqlite")
    for who, needs_compute in (("compute", True), ("storage", False)):
        settings = replace(pool, name=who, online_extend=who)
        driver = SimulatedDriver(settings, tmp_path / f"{who}.sqlite")
        await driver.setup()
        await driver.create(volume(driver), None, "op")
        path = (await driver.export("v1", "a1", HERE))["data"]["device_path"]
        simulated_pool.note_opener(path, guests.path)
        assert (await driver.extend("v1", 2, "op")).virtual_bytes == 2 * GIB
        disk = SimulatedDisk(
            volume_id="v1",
            attachment_id="a1",
            device="/dev/vdb",
            path=path,
            format="raw",
            size_bytes=2 * GIB,
            live=True,
        )
        guests.save(SimulatedGuest(server_id="s1", name="x", vcpus=1, memory_mib=1, disks=[disk]))
        if needs_compute:
            with pytest.raises(ExtendNeedsCompute):
                await driver.extend("v1", 3, "op")
        else:
            await driver.extend("v1", 3, "op")
        guests.remove("s1")
        await driver.extend("v1", 3, "op")
        await driver.close()
    guests.close()


async def test_exports_are_kept_and_hold_the_volume(driver: VolumeDriver) -> None:
    await driver.create(volume(driver), None, "op")
    first = await driver.export("v1", "a1", HERE)
    assert await driver.export("v1", "a1", HERE) == first
    await driver.export("v1", "a2", HERE)
    found = await driver.find("v1")
    assert found is not None
    assert found.exports == ["a1", "a2"]
    with pytest.raises(Conflict, match="is exported"):
        await driver.delete("v1")
    for attachment_id in ("a1", "a2", "a2", "a3"):
        await driver.unexport("v1", attachment_id)
    await driver.delete("v1")
    await driver.unexport("v1", "a1")


async def test_what_is_not_there_cannot_be_exported(driver: VolumeDriver) -> None:
    with pytest.raises(NotFound):
        await driver.export("v1", "a1", HERE)
    await driver.create(volume(driver), None, "op")
    with pytest.raises(Invalid):
        await driver.export("v1", "a1", {})


async def test_no_pool_has_targets_that_hosts_share(driver: VolumeDriver) -> None:
    protocol = (await driver.stats()).storage_protocol
    assert targets.are_shared(protocol) is False


async def test_a_pool_promises_no_more_than_it_may(driver: VolumeDriver) -> None:
    with pytest.raises(NoCapacity, match="has no room for"):
        await driver.create(volume(driver, 10_000_000), None, "op")
    assert await driver.volumes() == []
    assert await driver.leftovers() == []


async def test_what_a_dead_agent_left_is_gone_after_setup(driver: VolumeDriver) -> None:
    if isinstance(driver, FileVolumes):
        files.partial(driver.path("v1"), "op", HOST).write_bytes(b"half")
        assert await driver.leftovers() != []
    await driver.setup()
    assert await driver.leftovers() == []


@pytest.mark.hosts
async def test_only_the_host_of_a_directory_reaches_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    driver = make_driver("raw", tmp_path, journal)
    await driver.setup()
    assert (await driver.stats()).hosts == [HOST]
    await driver.create(volume(driver), None, "op")
    with pytest.raises(Invalid, match="host host-2 cannot reach it"):
        await driver.export("v1", "a1", {"host": "host-2"})
    await journal.close()


async def test_a_pool_says_which_hosts_reach_it(driver: VolumeDriver) -> None:
    alone = isinstance(driver, DirectoryDriver)
    assert (await driver.stats()).hosts == ([HOST] if alone else None)
    assert driver.hosts == (await driver.stats()).hosts


@pytest.mark.parametrize("kind", ["simulated", pytest.param("raw", marks=pytest.mark.hosts)])
async def test_the_hosts_of_a_pool_reach_it_and_no_other(kind: str, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    driver = make_driver(kind, tmp_path, journal, (HOST, "host-2"))
    await driver.setup()
    assert (await driver.stats()).hosts == [HOST, "host-2"]
    await driver.create(volume(driver), None, "op")
    for host in (HOST, "host-2"):
        info = await driver.export("v1", f"a-{host}", {"host": host})
        assert info["data"]["volume_id"] == "v1"
    with pytest.raises(Invalid, match=f"host host-3 cannot reach it. Use a server on {HOST} or"):
        await driver.export("v1", "a3", {"host": "host-3"})
    with pytest.raises(Invalid, match="names no host"):
        await driver.export("v1", "a3", {})
    assert (await driver.find("v1")) is not None
    assert len((await driver.holders("v1")).holders) in {0, 2}
    await driver.close()
    await journal.close()


@pytest.mark.hosts
@pytest.mark.parametrize("driver", ["raw", "qcow2", *REMOTE], indirect=True)
async def test_a_capture_has_the_bytes_of_its_volume(driver: VolumeDriver, tmp_path: Path) -> None:
    await driver.create(volume(driver), image(tmp_path), "op")
    for disk_format in FORMATS:
        captured, raw = tmp_path / f"captured.{disk_format}", tmp_path / f"{disk_format}.raw"
        await driver.capture("v1", (captured, disk_format), "op")
        convert = ["qemu-img", "convert", "-f", disk_format, "-O", "raw"]
        assert await run(*convert, str(captured), str(raw)) == 0
        assert raw.stat().st_size == GIB
        with raw.open("rb") as file:
            assert file.read(8) == b"MOORING\0"
        # What is a hole in the volume is none to be filled.
        assert captured.stat().st_blocks * 512 < 2 * MIB
    assert await driver.leftovers() == []


@pytest.mark.hosts
async def test_a_disk_that_fills_up_during_a_copy_keeps_nothing(tmp_path: Path) -> None:
    small, packed = tmp_path / "volumes", tmp_path / "packed"
    small.mkdir()
    source = image(tmp_path)
    source.file()[0].write_bytes(b"x" * 20 * MIB)
    convert = ["qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2"]
    assert await run(*convert, str(source.file()[0]), str(packed)) == 0
    if await run("mount", "-t", "tmpfs", "-o", "size=8m", "none", str(small)):
        pytest.skip("mounting takes root")
    journal = Journal(tmp_path / "journal.sqlite")
    try:
        pool = PoolSettings(name="pool", format="raw", reserved_percent=0, oversubscription=1000)
        qemu_img = QemuImg(Runner(journal))
        driver = DirectoryDriver(pool, place(small), qemu_img)
        await driver.setup()
        with pytest.raises(NoCapacity, match="no room for the content"):
            await driver.create(volume(driver), source, "op")
        unpacked = SourceImage("i1", FileSource(str(packed), "qcow2"), 20 * MIB)
        with pytest.raises(NoCapacity, match="The disk is full"):
            await driver.create(volume(driver), unpacked, "op")
        assert await driver.leftovers() == []
        roomy = DirectoryDriver(pool, place(tmp_path / "roomy"), qemu_img)
        await roomy.setup()
        await roomy.create(volume(roomy), source, "op")
        with pytest.raises(NoCapacity, match="The disk is full"):
            await roomy.capture("v1", (small / "captured", "raw"), "op")
        assert await roomy.find("v1") == volume(roomy)
    finally:
        await journal.close()
        await run("umount", str(small))


async def test_a_volume_gets_another_id_and_keeps_the_rest(
    driver: VolumeDriver, tmp_path: Path
) -> None:
    await driver.create(volume(driver, 2), image(tmp_path), "op")
    assert not (await driver.volume_source("v1")).lasting
    for _ in range(2):
        await driver.rename("v1", "v2")
        assert await driver.volumes() == [volume(driver, 2, "v2")]
        assert await driver.leftovers() == []
    await driver.rename("none", "v3")
    assert await driver.find("v3") is None
    await driver.extend("v2", 3, "op2")
    info = await driver.export("v2", "a1", HERE)
    assert info["data"]["size_bytes"] == 3 * GIB
    await driver.unexport("v2", "a1")
    await driver.delete("v2")
    assert (await driver.volumes(), await driver.leftovers()) == ([], [])
