"""What holds for overlays on every hypervisor: the same tests on the simulated one and libvirt."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.agent.app import RunningAgent
from mooring.agent.qemu_img import GIB
from mooring.agent.settings import HypervisorKind
from mooring.agent.simulated import SimulatedHypervisor
from mooring.agent_api.disks import STORAGE_AWAY, DiskSpec
from mooring.agent_api.overlays import ActiveFile, MergeRequest
from mooring.agent_api.servers import PowerRequest
from mooring.errors import Conflict, Invalid, NotFound, Unavailable
from tests.agent.hosts import TestHost, new_id, open_host, operation

pytestmark = pytest.mark.anyio


class Disk:
    """A volume of one guest, and the names of its files."""

    def __init__(self, host: TestHost, server_id: str, spec: DiskSpec) -> None:
        self.host, self.server_id, self.spec = host, server_id, spec
        self.path = Path(spec.connection["data"]["device_path"])
        self.base, self.format = self.path.name, spec.connection["data"]["format"]

    def make_overlay(self, name: str, below: str, below_format: str = "qcow2") -> str:
        """Make an overlay where there are files; return its name."""
        file = f"{self.base}.{name}"
        if self.host.real:
            command = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", below, "-F", below_format]
            subprocess.run([*command, file, "1G"], check=True, cwd=self.path.parent)
        return file

    def info(self, file: str) -> str:
        """What qemu-img says of a file, where there are files."""
        if not self.host.real:
            return ""
        command = ["qemu-img", "info", "-U", "--output=json", file]
        run = subprocess.run(command, check=True, cwd=self.path.parent, capture_output=True)
        return run.stdout.decode()

    async def snapshot(self, snapshot_id: str, file: str) -> ActiveFile:
        return await self.host.client.snapshot_disk(
            self.server_id, self.spec.volume_id, snapshot_id, file, operation=operation()
        )

    async def take_back(self, snapshot_id: str, file: str) -> None:
        await self.host.client.take_back_snapshot(
            self.server_id, self.spec.volume_id, snapshot_id, file, operation=operation()
        )

    async def merge(self, snapshot_id: str, file: str | None, into: str | None) -> ActiveFile:
        merge = MergeRequest(file_to_merge=file, merge_target_file=into)
        return await self.host.client.merge_disk(
            self.server_id, self.spec.volume_id, snapshot_id, merge, operation=operation()
        )

    async def active(self) -> tuple[str, str]:
        """The file that the guest writes to, as guest and connection tell alike."""
        guest = await self.host.client.show_server(self.server_id)
        assert guest is not None
        inventory = await self.host.client.inventory()
        (disk,) = [one for one in guest.disks if one.volume_id == self.spec.volume_id]
        (link,) = [one for one in inventory.connections if one.volume_id == self.spec.volume_id]
        assert (disk.path, disk.format) == (link.path, link.format)
        assert (disk.live, disk.persistent) == (guest.state != "stopped", True)
        assert disk.path.rpartition("/")[0] == str(self.path).rpartition("/")[0]
        return disk.path.rpartition("/")[2], disk.format


async def boot(host: TestHost) -> Disk:
    server_id, spec = new_id(), await host.make_disk()
    await host.boot(server_id, [spec])
    return Disk(host, server_id, spec)


async def power(disk: Disk, request: PowerRequest) -> None:
    await disk.host.client.set_power(disk.server_id, request, operation=operation())


async def test_a_running_guest_writes_to_its_newest_file_and_keeps_it(host: TestHost) -> None:
    disk = await boot(host)
    first = disk.make_overlay("s1", disk.base, disk.format)
    for _ in range(2):
        assert await disk.snapshot("s1", first) == ActiveFile(file=first, format="qcow2")
    assert await disk.active() == (first, "qcow2")
    second = disk.make_overlay("s2", first)
    await disk.snapshot("s2", second)
    with pytest.raises(Conflict, match="lies below"):
        await disk.snapshot("s1", first)
    with pytest.raises(Conflict, match=f"writes to {second}, above {first}"):
        await disk.take_back("s1", first)
    assert await disk.active() == (second, "qcow2")
    await power(disk, PowerRequest(state="off"))
    assert await disk.active() == (second, "qcow2")
    await power(disk, PowerRequest(state="on"))
    assert await disk.active() == (second, "qcow2")


async def test_a_stopped_guest_starts_on_its_newest_file(host: TestHost) -> None:
    disk = await boot(host)
    await power(disk, PowerRequest(state="off"))
    first = disk.make_overlay("s1", disk.base, disk.format)
    for _ in range(2):
        assert (await disk.snapshot("s1", first)).file == first
    assert await disk.active() == (first, "qcow2")
    await power(disk, PowerRequest(state="on"))
    assert await disk.active() == (first, "qcow2")


@pytest.mark.parametrize("state", ["on", "off"])
async def test_a_snapshot_that_is_taken_back_leaves_the_former_file(
    host: TestHost, state: str
) -> None:
    disk = await boot(host)
    if state == "off":
        await power(disk, PowerRequest(state="off"))
    first = disk.make_overlay("s1", disk.base, disk.format)
    await disk.snapshot("s1", first)
    for _ in range(2):
        await disk.take_back("s1", first)
        assert await disk.active() == (disk.base, disk.format)
    await disk.take_back("s9", "never-seen")
    await host.remove(disk.server_id)
    await disk.take_back("s1", first)


@pytest.mark.parametrize("state", ["on", "off"])
async def test_files_are_merged_from_the_middle_and_into_the_newest(
    host: TestHost, state: str
) -> None:
    disk = await boot(host)
    files: list[str] = []
    below = (disk.base, disk.format)
    for name in ("s1", "s2", "s3"):
        file = disk.make_overlay(name, *below)
        await disk.snapshot(name, file)
        files.append(file)
        below = (file, "qcow2")
    if state == "off":
        await power(disk, PowerRequest(state="off"))
    newest = ActiveFile(file=files[2], format="qcow2")
    for _ in range(2):
        assert await disk.merge("s2", files[1], files[0]) == newest
    for _ in range(2):
        assert await disk.merge("s3", disk.base, None) == newest
    for _ in range(2):
        assert await disk.merge("s3", None, None) == newest
    assert await disk.active() == (files[2], "qcow2")
    assert "backing" not in disk.info(files[2])


@pytest.mark.parametrize("state", ["on", "off"])
async def test_files_that_do_not_lie_so_are_not_merged(host: TestHost, state: str) -> None:
    disk = await boot(host)
    files = [disk.base]
    for name in ("s1", "s2", "s3"):
        files.append(disk.make_overlay(name, files[-1], "qcow2" if files[1:] else disk.format))
        await disk.snapshot(name, files[-1])
    if state == "off":
        await power(disk, PowerRequest(state="off"))
    base, first, second, newest = files
    for wanted, said in (
        (("stranger", None), "stranger does not lie below"),
        ((newest, None), "does not lie below"),
        ((first, "stranger"), "stranger does not lie below"),
        ((second, base), f"{base} does not lie right below {second}"),
        ((first, second), f"{second} does not lie right below {first}"),
    ):
        with pytest.raises(Invalid, match=said):
            await disk.merge("s1", *wanted)
    assert await disk.active() == (newest, "qcow2")
    # What is gone was merged before.
    for _ in range(2):
        assert (await disk.merge("s2", second, first)).file == newest
    with pytest.raises(Invalid, match=f"{second} does not lie below"):
        await disk.merge("s2", second, None)
    assert (await disk.merge("s1", None, None)).file == newest


@contextmanager
def files_away(running: RunningAgent, disk: Disk) -> Generator[None]:
    """Have the directory of a volume's files away in the body, as a share is after a reboot."""
    hypervisor, directory = running.agent.hypervisor, disk.path.parent
    if isinstance(hypervisor, SimulatedHypervisor):
        hypervisor.away.add(disk.spec.volume_id)
        yield
        hypervisor.away.clear()
        return
    aside = directory.rename(directory.with_name("aside"))
    yield
    aside.rename(directory)


async def test_a_stopped_guest_whose_files_are_away_is_asked_again_when_they_are_back(
    kind: HypervisorKind, inner_dirs: dict[str, Path]
) -> None:
    async with open_host(inner_dirs[kind], kind) as (host, running):
        disk = await boot(host)
        files = [disk.make_overlay("s1", disk.base, disk.format)]
        await disk.snapshot("s1", files[0])
        await power(disk, PowerRequest(state="off"))
        files.append(disk.make_overlay("s2", files[0]))
        named = disk.server_id, disk.spec.volume_id
        with files_away(running, disk):
            await host.client.stop_merge(*named, "s1", operation=operation())
            for asked in (
                disk.snapshot("s2", files[1]),
                disk.take_back("s1", files[0]),
                disk.merge("s1", None, None),
                host.client.show_disk_size(*named),
                host.client.resize_disk(*named, GIB, operation=operation()),
            ):
                with pytest.raises(Unavailable, match="cannot be used on this host") as told:
                    await asked
                assert told.value.detail[STORAGE_AWAY] is True
        assert (await host.client.show_disk_size(*named)).image_bytes == GIB
        assert await disk.merge("s1", None, None) == ActiveFile(file=files[0], format="qcow2")
        await host.remove(disk.server_id)


async def test_what_makes_no_sense_changes_nothing(host: TestHost) -> None:
    disk = await boot(host)
    for name in ("../etc/passwd", "/etc/passwd", "..", ".hidden", "", "a/b"):
        with pytest.raises(Invalid, match="plain file name"):
            await disk.snapshot("s1", name)
        with pytest.raises(Invalid, match="plain file name"):
            await disk.merge("s1", name, disk.base)
    with pytest.raises(Invalid, match="file_to_merge"):
        await disk.merge("s1", None, disk.base)
    first = disk.make_overlay("s1", disk.base, disk.format)
    await disk.snapshot("s1", first)
    with pytest.raises(Conflict, match="writes to"):
        await disk.merge("s1", first, disk.base)
    assert await disk.active() == (first, "qcow2")
    with pytest.raises(NotFound):
        await host.client.snapshot_disk(new_id(), new_id(), "s1", "f", operation=operation())
    with pytest.raises(NotFound):
        await host.client.merge_disk(
            disk.server_id, new_id(), "s1", MergeRequest(), operation=operation()
        )


async def test_a_late_snapshot_behind_its_undo_has_no_effect(host: TestHost) -> None:
    disk = await boot(host)
    first = disk.make_overlay("s1", disk.base, disk.format)
    named = (disk.server_id, disk.spec.volume_id, "s1", first)
    once = operation()
    await host.client.take_back_snapshot(*named, operation=once)
    with pytest.raises(Conflict) as caught:
        await host.client.snapshot_disk(*named, operation=once)
    assert caught.value.detail["status"] == 410
    assert await disk.active() == (disk.base, disk.format)
