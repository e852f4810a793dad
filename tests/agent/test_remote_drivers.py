"""What the drivers of remote file systems have beside the contract of all drivers."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.agent.app import open_agent
from mooring.agent.brick.requests import MountRequest
from mooring.agent.connections import Connections
from mooring.agent.drivers.base import ExtendNeedsCompute, SourceImage
from mooring.agent.drivers.remote import open_remote_pools
from mooring.agent.drivers.remote_cache import CachePolicy, ShareCache
from mooring.agent.drivers.remote_files import INDICATOR, Tools
from mooring.agent.fitting import Fitting
from mooring.agent.mounts import Mounts, mount_point
from mooring.agent.pool_threads import PoolThreads
from mooring.agent.qemu_img import GIB, QemuImg
from mooring.agent.run import Runner
from mooring.agent.settings import AgentSettings, PoolSettings
from mooring.agent.sources import FileSource, file_of
from mooring.agent_api.client import Agents
from mooring.agent_api.volumes import VolumeFile
from mooring.errors import Invalid, NoCapacity, Unavailable
from mooring.fence.journal import Journal
from tests.agent.remote_pools import CONTENT, KINDS, remote_pool, volume
from tests.agent.shares import EXPORT, Shares, processes_of

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]
HERE = {"host": "host-1"}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_guests_host_reaches_the_file_through_its_own_mount(
    kind: str, tmp_path: Path, journal: Journal
) -> None:
    async with remote_pool(kind, "qcow2", tmp_path, journal) as remote:
        await remote.driver.setup()
        await remote.driver.create(volume(remote), None, "op")
        assert (await remote.driver.stats()).driver == kind
        told = await remote.driver.export("v1", "a1", {"host": "another"})
        assert told["driver_volume_type"] == ("quobyte" if kind == "quobyte" else "nfs")
        assert told["mount_point_base"] == str(remote.mounts.base)
        assert told["data"]["name"] == "volume-v1"
        assert told["data"]["format"] == "qcow2"
        # The other host knows the share under the same export, and mounts it for itself.
        elsewhere = Mounts(remote.shares.settings(), tmp_path / "elsewhere", Runner(journal))
        elsewhere.prepare()
        connections = Connections(
            tmp_path / "connections", elsewhere, Fitting(QemuImg(Runner(journal))), simulated=False
        )
        connections.prepare()
        connected = await connections.connect("a1", "v1", told)
        path = Path(file_of(connected, "reading").path)
        assert path.parent.parent == tmp_path / "elsewhere" / "mnt"
        assert is_one_file(path, remote.driver.path("v1"))
        await connections.disconnect("a1")
        await elsewhere.close()


def is_one_file(first: Path, second: Path) -> bool:
    return first.samefile(second)


async def test_a_share_in_a_file_of_shares_is_a_pool_with_its_own_options(
    tmp_path: Path, journal: Journal
) -> None:
    shares = Shares(tmp_path / "outside")
    listed = tmp_path / "shares"
    listed.write_text(f"# ours\n{EXPORT} -o vers=4.1\n\n192.0.2.8:/second\n")
    shares.export("192.0.2.8:/second")
    options = {"nfs_shares_config": str(listed), "nfs_mount_options": "hard"}
    pool = msgspec.convert({"name": "pool", "driver": "nfs", "nfs": options}, PoolSettings)
    share = shares.export()
    mounts = shares.mounts(journal)
    tools = Tools("h1", QemuImg(Runner(journal)), mounts, Runner(journal))
    drivers = open_remote_pools(pool, tools)
    assert [one.pool.name for one in drivers] == [
        "pool-192.0.2.7-volumes",
        "pool-192.0.2.8-second",
    ]
    for driver in drivers:
        await driver.setup()
    first = mount_point(mounts.base, EXPORT)
    options = "hard,vers=4,minorversion=2"
    assert remote_calls(shares)[0] == f"mount -t nfs -o {options} -o vers=4.1 {EXPORT} {first}"
    wanted = VolumeFile(volume_id="v1", pool=drivers[0].pool.name, size_gib=1, format="raw")
    await drivers[0].create(wanted, None, "op")
    assert (share / "volume-v1").stat().st_size == GIB
    told = await drivers[0].export("v1", "a1", HERE)
    assert told["data"]["options"] == "-o vers=4.1"
    assert await drivers[1].volumes() == []
    await mounts.close()


def remote_calls(shares: Shares) -> list[str]:
    return [line for line in shares.calls() if line.startswith("mount")]


async def test_a_server_that_hangs_keeps_neither_the_host_nor_its_other_pools_waiting(
    tmp_path: Path,
) -> None:
    shares = Shares(tmp_path / "outside")
    shares.export()
    shares.tell("hang")
    plain = [
        {"name": "gone", "driver": "nfs", "nfs": {"nas_host": "h", "nas_share_path": "/x"}},
        {"name": "local", "driver": "simulated"},
    ]
    settings = AgentSettings(
        name="host-1",
        state_dir=tmp_path / "state",
        hypervisor="simulated",
        pools=msgspec.convert(plain, tuple[PoolSettings, ...]),
        mounts=shares.settings(),
    )
    began = time.monotonic()
    async with open_agent(settings) as running:
        client = Agents().in_process("host-1", running.app)
        pools = {pool.name: pool for pool in (await client.host()).pools}
        assert "does not answer" in pools["gone"].problem
        assert pools["local"].free_gib > 0
        assert time.monotonic() - began < 25
    assert processes_of(shares.directory) == []


@pytest.mark.parametrize("kind", ["nfs", "quobyte"])
async def test_thick_volumes_take_their_space_at_once(
    kind: str, tmp_path: Path, journal: Journal, image: SourceImage
) -> None:
    thin = {f"{kind}_sparsed_volumes": False}
    async with remote_pool(kind, "raw", tmp_path, journal, **thin) as remote:
        await remote.driver.setup()
        await remote.driver.create(volume(remote), image, "op")
        path = remote.driver.path("v1")
        assert path.stat().st_blocks * 512 >= GIB
        with path.open("rb") as file:
            assert file.read(len(CONTENT)) == CONTENT
        await remote.driver.delete("v1")
        with pytest.raises(NoCapacity):
            await remote.driver.create(volume(remote, "v2", 1_000_000), None, "op")


async def test_qcow2_volumes_get_their_metadata_at_once(tmp_path: Path, journal: Journal) -> None:
    async with remote_pool("nfs", "qcow2", tmp_path, journal) as remote:
        await remote.driver.setup()
        await remote.driver.create(volume(remote), None, "op")
        assert remote.driver.path("v1").stat().st_size > GIB


@pytest.mark.parametrize(
    ("option", "held", "mode"),
    [
        ("auto", False, 0o660),
        ("auto", True, 0o666),
        ("true", True, 0o660),
        ("false", False, 0o666),
    ],
)
async def test_files_are_for_their_owner_where_the_share_is_secure(
    tmp_path: Path, journal: Journal, option: str, *, held: bool, mode: int
) -> None:
    secure = {"nas_secure_file_permissions": option}
    async with remote_pool("nfs", "raw", tmp_path, journal, **secure) as remote:
        if held:
            (remote.shares.export() / "something").touch()
        await remote.driver.setup()
        await remote.driver.create(volume(remote), None, "op")
        assert remote.driver.path("v1").stat().st_mode & 0o777 == mode
        assert (remote.shares.export() / INDICATOR).exists() is not held


async def test_a_share_that_lets_root_in_is_no_secure_one(tmp_path: Path, journal: Journal) -> None:
    secure = {"nas_secure_file_operations": "true"}
    async with remote_pool("nfs", "raw", tmp_path, journal, **secure) as remote:
        if os.geteuid() == 0:
            with pytest.raises(Invalid, match="gives this agent the rights of root"):
                await remote.driver.setup()
        else:
            await remote.driver.setup()


@pytest.mark.parametrize("kind", ["nfs", "quobyte"])
async def test_a_snapshot_is_an_overlay_that_guests_are_given(
    kind: str, tmp_path: Path, journal: Journal
) -> None:
    support = {"nfs_snapshot_support": True} if kind == "nfs" else {}
    async with remote_pool(kind, "raw", tmp_path, journal, **support) as remote:
        driver = remote.driver
        await driver.setup()
        await driver.create(volume(remote), None, "op")
        await driver.take_snapshot("v1", "s1", "op")
        path = driver.active_path("v1")
        assert path.name == "volume-v1.s1"
        modes = {one.stat().st_mode & 0o777 for one in (path, driver.path("v1"))}
        assert len(modes) == 1
        told = await driver.export("v1", "a1", HERE)
        assert (told["data"]["name"], told["data"]["format"]) == ("volume-v1.s1", "qcow2")
        await driver.unexport("v1", "a1")
        await driver.delete_snapshot("v1", "s1", "op")
        assert driver.active_path("v1") == driver.path("v1")
        assert await driver.leftovers() == []


async def test_nfs_takes_no_snapshots_unless_it_is_told_to(
    tmp_path: Path, journal: Journal
) -> None:
    async with remote_pool("nfs", "raw", tmp_path, journal) as remote:
        await remote.driver.setup()
        await remote.driver.create(volume(remote), None, "op")
        with pytest.raises(Invalid, match="nfs_snapshot_support"):
            await remote.driver.take_snapshot("v1", "s1", "op")
        assert await remote.driver.leftovers() == []


async def test_where_locks_are_not_seen_an_attached_volume_is_left_to_its_guest(
    tmp_path: Path, journal: Journal
) -> None:
    async with remote_pool("nfs", "raw", tmp_path, journal) as remote:
        remote.shares.set_options("rw,vers=3,nolock")
        await remote.driver.setup()
        await remote.driver.create(volume(remote), None, "op")
        assert (await remote.driver.extend("v1", 2, "op")).size_gib == 2
        await remote.driver.export("v1", "a1", HERE)
        with pytest.raises(ExtendNeedsCompute):
            await remote.driver.extend("v1", 3, "op")
        assert remote.driver.path("v1").stat().st_size == 2 * GIB
        await remote.driver.unexport("v1", "a1")
        assert (await remote.driver.extend("v1", 3, "op")).size_gib == 3


async def test_where_locks_are_seen_an_attached_volume_of_a_stopped_guest_grows(
    tmp_path: Path, journal: Journal
) -> None:
    async with remote_pool("nfs", "raw", tmp_path, journal) as remote:
        await remote.driver.setup()
        await remote.driver.create(volume(remote), None, "op")
        await remote.driver.export("v1", "a1", HERE)
        assert (await remote.driver.extend("v1", 2, "op")).size_gib == 2


async def test_a_server_that_is_down_takes_its_pool_with_it_until_it_is_back(
    tmp_path: Path, journal: Journal
) -> None:
    once = {"nfs_mount_attempts": 1}
    async with remote_pool("nfs", "raw", tmp_path, journal, **once) as remote:
        remote.shares.tell("refuse")
        await remote.driver.setup()
        with pytest.raises(Unavailable, match="could not be mounted"):
            await remote.driver.stats()
        remote.shares.tell("refuse", on=False)
        assert (await remote.driver.stats()).total_gib > 0
        await remote.driver.create(volume(remote), None, "op")


async def test_a_full_share_keeps_nothing_of_what_did_not_fit(
    tmp_path: Path, journal: Journal
) -> None:
    async with remote_pool("nfs", "raw", tmp_path, journal) as remote:
        small = mount_point(remote.shares.directory / "shares", EXPORT)
        command = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(small)]
        process = await asyncio.create_subprocess_exec(*command)
        if await process.wait():
            pytest.skip("mounting takes root")
        try:
            packed = tmp_path / "packed.raw"
            packed.write_bytes(b"x" * 20 * 1024**2)
            source = SourceImage("i1", FileSource(str(packed), "raw"), 20 * 1024**2)
            await remote.driver.setup()
            with pytest.raises(NoCapacity):
                await remote.driver.create(volume(remote), source, "op")
            assert await remote.driver.leftovers() == []
            assert await remote.driver.volumes() == []
        finally:
            process = await asyncio.create_subprocess_exec("umount", str(small))
            await process.wait()


async def test_cached_images_go_when_space_is_short_and_nobody_used_them(
    tmp_path: Path, journal: Journal, image: SourceImage
) -> None:
    policy = CachePolicy(start_percent=101, stop_percent=101, expiry_minutes=60)
    cache = ShareCache("h1", QemuImg(Runner(journal)), PoolThreads("pool"), policy)
    share = tmp_path / "share"
    share.mkdir()
    old, recent = share / "img-cache-old.raw", share / "img-cache-recent.raw"
    for path in (old, recent):
        path.touch()
    os.utime(old, (0, 0))
    kept = await cache.keep(share, image, "raw", "op")
    assert kept.read_bytes() == CONTENT
    assert sorted(share.iterdir()) == [kept, recent]


@pytest.mark.parametrize(
    ("driver", "options", "told"),
    [
        ("nfs", {}, "names no share"),
        ("nfs", {"nas_host": "h"}, "names no share"),
        ("nfs", {"nfs_shares_config": "/none"}, "cannot be read"),
        ("nfs", {"nas_host": "-o", "nas_share_path": "/x"}, "cannot be one of nfs"),
        ("nfs", {"nas_host": "h", "nas_share_path": "/x", "nfs_mount_attempts": 0}, "below 1"),
        (
            "nfs",
            {"nas_host": "h", "nas_share_path": "/x", "nfs_mount_point_base": "mnt"},
            "not absolute",
        ),
        ("quobyte", {"quobyte_volume_url": "quobyte://"}, "cannot be one of quobyte"),
        ("quobyte", None, "no options for it"),
        (
            "netapp_nfs",
            {
                "nas_host": "h",
                "nas_share_path": "/x",
                "netapp_server_hostname": "h",
                "netapp_login": "l",
                "netapp_password": "p",
                "netapp_vserver": "v",
                "netapp_use_legacy_client": True,
            },
            "REST API only",
        ),
        (
            "powerstore_nfs",
            {"nas_host": "h", "nas_share_path": "/x", "san_ip": "h"},
            "without san_login",
        ),
    ],
)
def test_wrong_options_are_told_in_one_line(
    driver: str, options: dict[str, Any] | None, told: str, tmp_path: Path
) -> None:
    settings = {"name": "pool", "driver": driver} | ({driver: options} if options else {})
    if options == {}:
        settings[driver] = {}
    pool = msgspec.convert(settings, PoolSettings)
    journal = Journal(tmp_path / "journal.sqlite")
    runner = Runner(journal)
    mounts = Mounts(Shares(tmp_path / "outside").settings(), tmp_path, runner)
    with pytest.raises(Invalid, match=told) as caught:
        open_remote_pools(pool, Tools("h1", QemuImg(runner), mounts, runner))
    assert "\n" not in caught.value.public


@pytest.mark.parametrize(
    ("driver", "options"),
    [
        ("nfs", {"nfs_qcow_volumes": True}),
        ("nfs", {"netapp_login": "x"}),
        ("quobyte", {}),
        ("netapp_nfs", {"nas_host": "h"}),
        ("powerstore_nfs", {"san_private_key": "x"}),
    ],
)
def test_options_that_a_driver_does_not_have_are_refused(
    driver: str, options: dict[str, Any]
) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"name": "p", "driver": driver, driver: options}, PoolSettings)


async def test_a_share_that_does_not_answer_is_given_up_in_its_time(
    tmp_path: Path, journal: Journal
) -> None:
    shares = Shares(tmp_path / "outside")
    mounts = shares.mounts(journal)
    request = MountRequest(kind="nfs", export="192.0.2.9:/gone", base=str(mounts.base))
    with pytest.raises(Unavailable, match="could not be mounted"):
        async with mounts.held(request):
            pass
    with pytest.raises(Unavailable, match="does not answer"):
        await mounts.space(tmp_path / "nothing")
    await mounts.close()
