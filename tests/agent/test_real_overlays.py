"""Files that change under a real guest: what was written before and after stays, also in a crash.

The guest's writes are made by its own QEMU, at the place where the guest's requests come in.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.app import RunningAgent
from mooring.agent_api.disks import DiskSpec
from mooring.agent_api.overlays import MergeRequest
from mooring.agent_api.servers import PowerRequest
from mooring.errors import Invalid, NotFound
from mooring.fence.threads import run_to_end
from tests.agent.hosts import TestHost, new_id, open_host, operation, why_no_real_guests

pytest.importorskip("libvirt_qemu", reason="libvirt's Python binding is missing")

import libvirt_qemu

from mooring.agent.libvirt.overlays import look

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]
HUMAN = 1
"""The monitor's language for people."""
MIB = 1024**2
COMMIT_ACTIVE = 4
"""libvirt's flag for a commit of the file that is written to."""


class RealDisk:
    """A volume in files, under a guest."""

    def __init__(self, host: TestHost, running: RunningAgent, server_id: str, path: Path) -> None:
        self.host, self.server_id = host, server_id
        self.volume_id, self.attachment_id = new_id(), new_id()
        self.path, self.directory = path, path.parent
        self.running = running

    @property
    def spec(self) -> DiskSpec:
        data = {"device_path": str(self.path), "format": "raw", "size_bytes": 64 * MIB}
        return DiskSpec(
            volume_id=self.volume_id,
            attachment_id=self.attachment_id,
            connection={"driver_volume_type": "local", "data": data},
        )

    async def ask(self, fn: Callable[[Any], Any]) -> Any:
        """Ask libvirt itself about the guest."""
        hypervisor: Any = self.running.agent.hypervisor
        connection = hypervisor._connection  # noqa: SLF001  (looks past the agent)
        domain = await connection.call(lambda: connection.handle.lookupByUUIDString(self.server_id))
        return await connection.call(lambda: fn(domain))

    async def _io(self, command: str) -> None:
        device = f"/machine/peripheral/ua-{self.attachment_id}/virtio-backend"
        line = f'qemu-io -d {device} "{command}"'
        binding: Any = libvirt_qemu
        said = await self.ask(lambda one: binding.qemuMonitorCommand(one, line, HUMAN))
        assert "Error" not in said, said
        assert "failed" not in said, said

    async def write(self, pattern: int, size_mib: int = 1) -> None:
        """Let the guest's QEMU write a pattern at a place of its own."""
        await self._io(f"write -P {pattern} {pattern}M {size_mib}M")

    async def holds(self, *patterns: int) -> None:
        """See that the guest's QEMU reads them."""
        for pattern in patterns:
            await self._io(f"read -P {pattern} {pattern}M 1M")

    async def file_holds(self, file: str, disk_format: str, *patterns: int) -> None:
        """See that a file by itself, with what lies below it, has patterns and nothing behind."""
        commands = [f"read -P {pattern} {pattern}M 1M" for pattern in patterns]
        commands.append(f"read -P 0 {max(patterns) + 1}M 1M")
        argv = ["qemu-io", "-r", "-U", "-f", disk_format]
        for command in commands:
            argv += ["-c", command]
        said = await self.run(*argv, file)
        assert "failed" not in said, said

    async def overlay(self, name: str, below: str, below_format: str = "qcow2") -> str:
        """Make an empty overlay; return its name."""
        file = f"{self.path.name}.{name}"
        await self.run(
            "qemu-img", "create", "-q", "-f", "qcow2", "-b", below, "-F", below_format, file
        )
        return file

    async def chain(self, file: str) -> list[str]:
        """The files of a chain from the top down, as qemu-img tells."""
        said = await self.run("qemu-img", "info", "-U", "--backing-chain", file)
        lines = [line for line in said.splitlines() if line.startswith("image: ")]
        return [Path(line.removeprefix("image: ")).name for line in lines]

    async def run(self, *argv: str) -> str:
        """Run a program where the files are."""
        return await run_to_end(
            lambda: (
                subprocess.run(
                    argv, cwd=self.directory, check=True, capture_output=True, text=True
                ).stdout
            )
        )

    async def snapshot(self, name: str, file: str) -> None:
        await self.host.client.snapshot_disk(
            self.server_id, self.volume_id, name, file, operation=operation()
        )

    async def merge(self, name: str, file: str | None = None, into: str | None = None) -> None:
        merge = MergeRequest(file_to_merge=file, merge_target_file=into)
        await self.host.client.merge_disk(
            self.server_id, self.volume_id, name, merge, operation=operation()
        )

    async def job(self) -> dict[str, int]:
        """The job that runs on the disk; empty when there is none."""
        return await self.ask(lambda one: one.blockJobInfo("vdb", 0))


class JustEnded:
    """A domain whose job ends just before anybody hears of it."""

    def __init__(self, domain: Any) -> None:
        self._domain = domain

    def __getattr__(self, name: str) -> Any:
        return getattr(self._domain, name)

    def blockJobInfo(self, device: str, flags: int) -> dict[str, int]:  # noqa: N802  (libvirt calls it so)
        """Let it end, and return what is left of it."""
        self._domain.blockJobSetSpeed(device, 1024, 0)
        while job := self._domain.blockJobInfo(device, flags):
            # Each question goes to the emulator and lets other threads run meanwhile.
            continue
        return job


async def make_guest(host: TestHost, running: RunningAgent, state_dir: Path) -> RealDisk:
    """Start a guest with a raw volume that has one pattern."""
    path = state_dir / "files" / f"volume-{new_id()}"
    path.parent.mkdir(mode=0o711, exist_ok=True)
    disk = RealDisk(host, running, new_id(), path)
    await disk.run("qemu-img", "create", "-q", "-f", "raw", path.name, "64M")
    await host.boot(disk.server_id, [disk.spec])
    await disk.write(1)
    return disk


@asynccontextmanager
async def a_guest(state_dir: Path) -> AsyncGenerator[RealDisk]:
    """A running guest with a raw volume that has one pattern."""
    async with open_host(state_dir, "libvirt") as (host, running):
        disk = await make_guest(host, running, state_dir)
        yield disk
        await host.remove(disk.server_id)


@pytest.fixture(scope="module")
def state_dir(libvirt_dir: Path) -> Path:
    """One directory for all tests: finding out about a host takes seconds, once."""
    if reason := why_no_real_guests():
        pytest.skip(reason)
    return libvirt_dir


async def test_a_guest_keeps_all_that_it_wrote_through_snapshots_and_merges(
    state_dir: Path,
) -> None:
    async with a_guest(state_dir) as disk:
        base = disk.path.name
        files: list[str] = []
        below = (base, "raw")
        for number, name in enumerate(("s1", "s2", "s3"), 2):
            file = await disk.overlay(name, *below)
            await disk.snapshot(name, file)
            await disk.write(number)
            files.append(file)
            below = (file, "qcow2")
        assert await disk.chain(files[2]) == [*reversed(files), base]
        # Each snapshot's content is the file below its overlay, and nobody writes there.
        await disk.file_holds(base, "raw", 1)
        await disk.file_holds(files[0], "qcow2", 1, 2)
        await disk.merge("s2", files[1], files[0])
        assert await disk.chain(files[2]) == [files[2], files[0], base]
        await disk.file_holds(files[0], "qcow2", 1, 2, 3)
        await disk.merge("s3", base)
        assert await disk.chain(files[2]) == [files[2], base]
        await disk.merge("s3")
        assert await disk.chain(files[2]) == [files[2]]
        await disk.holds(1, 2, 3, 4)
        await disk.write(5)
        guest = await disk.host.client.show_server(disk.server_id)
        assert guest is not None
        assert guest.state == "running"
        await disk.host.client.set_power(
            disk.server_id, PowerRequest(state="off"), operation=operation()
        )
        await disk.file_holds(files[2], "qcow2", 1, 2, 3, 4, 5)
        await disk.host.client.set_power(
            disk.server_id, PowerRequest(state="on"), operation=operation()
        )
        await disk.holds(1, 2, 3, 4, 5)


async def test_a_snapshot_that_is_taken_back_loses_no_write(state_dir: Path) -> None:
    async with a_guest(state_dir) as disk:
        file = await disk.overlay("s1", disk.path.name, "raw")
        await disk.snapshot("s1", file)
        await disk.write(2)
        # An agent that died had begun to take it back.
        await disk.ask(lambda one: one.blockCommit("vdb", None, None, 1, COMMIT_ACTIVE))
        await disk.host.client.take_back_snapshot(
            disk.server_id, disk.volume_id, "s1", file, operation=operation()
        )
        await disk.write(3)
        await disk.file_holds(disk.path.name, "raw", 1, 2, 3)
        await disk.host.client.set_power(
            disk.server_id, PowerRequest(state="reboot", mode="hard"), operation=operation()
        )
        await disk.holds(1, 2, 3)


async def test_a_merge_goes_on_without_its_agent_and_the_next_one_joins_it(
    state_dir: Path,
) -> None:
    async with open_host(state_dir, "libvirt") as (host, running):
        disk = await make_guest(host, running, state_dir)
        await disk.write(8, size_mib=32)
        file = await disk.overlay("s1", disk.path.name, "raw")
        await disk.snapshot("s1", file)
        await disk.write(2)
        # One MiB a second, so that the agent ends before it.
        await disk.ask(lambda one: one.blockRebase("vdb", None, 1, 0))
    async with open_host(state_dir, "libvirt") as (host, running):
        disk.host, disk.running = host, running
        joining = asyncio.create_task(disk.merge("s1"))
        await asyncio.wait({joining}, timeout=2.5)
        assert not joining.done()
        assert (await disk.job())["end"] > 0
        await disk.ask(lambda one: one.blockJobSetSpeed("vdb", 1024, 0))
        await joining
        assert await disk.job() == {}
        assert await disk.chain(file) == [file]
        await disk.holds(1, 2, 8)
        await host.remove(disk.server_id)


async def test_a_merge_that_ends_while_its_disk_is_looked_at_is_seen_as_it_ended(
    state_dir: Path,
) -> None:
    async with a_guest(state_dir) as disk:
        await disk.write(8, size_mib=8)
        file = await disk.overlay("s1", disk.path.name, "raw")
        await disk.snapshot("s1", file)
        await disk.ask(lambda one: one.blockRebase("vdb", None, 1, 0))
        stand = await disk.ask(lambda one: look(JustEnded(one), disk.volume_id))
        assert (stand.job, stand.names) == (None, [file])


async def test_a_merge_that_is_stopped_leaves_the_disk_as_it_was(state_dir: Path) -> None:
    async with a_guest(state_dir) as disk:
        await disk.write(8, size_mib=32)
        file = await disk.overlay("s1", disk.path.name, "raw")
        await disk.snapshot("s1", file)
        await disk.ask(lambda one: one.blockRebase("vdb", None, 1, 0))
        names = (disk.server_id, disk.volume_id, "s1")
        once = operation()
        merging = asyncio.create_task(
            disk.host.client.merge_disk(*names, MergeRequest(), operation=once)
        )
        await asyncio.wait({merging}, timeout=0.5)
        await disk.host.client.stop_merge(*names, operation=once)
        with pytest.raises(Exception, match="undone"):
            await merging
        assert await disk.job() == {}
        assert await disk.chain(file) == [file, disk.path.name]
        await disk.holds(1, 8)
        await disk.merge("s1")
        assert await disk.chain(file) == [file]
        await disk.holds(1, 8)


async def test_an_overlay_of_something_else_is_refused(state_dir: Path) -> None:
    async with a_guest(state_dir) as disk:
        base = disk.path.name
        await disk.run("qemu-img", "create", "-q", "-f", "raw", "other", "64M")
        foreign = await disk.overlay("foreign", "other", "raw")
        absolute = await disk.overlay("absolute", str(disk.path), "raw")
        large = f"{base}.large"
        await disk.run(
            "qemu-img", "create", "-q", "-f", "qcow2", "-b", base, "-F", "raw", large, "65M"
        )
        plain = f"{base}.plain"
        await disk.run("qemu-img", "create", "-q", "-f", "raw", plain, "64M")
        (disk.directory / f"{base}.link").symlink_to(absolute)
        for file in (foreign, absolute, large, plain):
            with pytest.raises(Invalid):
                await disk.snapshot("s1", file)
        for file in (f"{base}.link", f"{base}.missing"):
            with pytest.raises(NotFound):
                await disk.snapshot("s1", file)
        assert await disk.chain(base) == [base]
        await disk.holds(1)
