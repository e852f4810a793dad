"""Runs in the test kernel: two volumes on NFS 4.2 grow under a real guest that writes to them.

Its argument is the directory that tests/hosts/test_nfs_kernel.py has filled: a guest that was put
to sleep while it wrote, and its disks. The pools are those of an agent with the driver nfs.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from mooring.agent.app import open_agent
from mooring.agent.settings import AgentSettings, MountSettings, PoolSettings
from mooring.agent_api.client import AgentClient, Agents
from mooring.agent_api.volumes import VolumeSpec
from tests.agent.hosts import new_id, operation
from tests.hosts.plain_guest import Guest, booted, disk_options
from tests.hosts.written import BLOCK, read_written

GIB = 1 << 30
STATE = Path("/run/agent")
DISKS = {"raw": "vdb", "qcow2": "vdc"}
"""For each format, which is a pool too, the name that the guest gives the disk."""


class Disk(Struct, frozen=True):
    """One volume of a pool on NFS."""

    format: str
    volume_id: str
    path: Path


async def main(left: Path) -> None:
    """Wake the guest on NFS, grow both disks under it, and one more time without it."""
    pools = tuple(pool(one) for one in DISKS)
    # Each program starts twenty times as slowly as elsewhere.
    mounts = MountSettings(timeout_s=120)
    settings = AgentSettings(
        name="kernel", state_dir=STATE, roles=("volume",), pools=pools, mounts=mounts
    )
    async with open_agent(settings) as running:
        client = Agents().in_process(settings.name, running.app)
        disks = [await make(client, one, left / one) for one in DISKS]
        see_mounts()
        await grow_under_guest(client, left, disks)
        for disk in disks:
            written = await asyncio.to_thread(
                read_written, disk.path, disk.format, GIB, Path("/run")
            )
            say(f"{disk.format}: {written}")
            assert min(written.before, written.after) > 0
            grown = await client.extend_volume(disk.volume_id, 3, operation=operation())
            assert (grown.virtual_bytes, grown.needs_compute) == (3 * GIB, False)
            say(f"{disk.format}: it grows by itself when no guest has it")


def pool(disk_format: str) -> PoolSettings:
    """Return the settings of a pool on the share that is named after the format."""
    nfs = {
        "nas_host": "127.0.0.1",
        "nas_share_path": f"/{disk_format}",
        "nas_mount_options": "vers=4.2",
        "nfs_qcow2_volumes": disk_format == "qcow2",
    }
    return msgspec.convert({"name": disk_format, "driver": "nfs", "nfs": nfs}, PoolSettings)


async def make(client: AgentClient, disk_format: str, content: Path) -> Disk:
    """Make a volume, and let it hold what the guest has written so far."""
    volume_id = new_id()
    spec = VolumeSpec(pool=disk_format, size_gib=1)
    await client.put_volume(volume_id, spec, operation=operation())
    return await asyncio.to_thread(fill, Disk(disk_format, volume_id, STATE), content)


def fill(disk: Disk, content: Path) -> Disk:
    """Give a new volume its content, and return where it is."""
    [path] = STATE.glob(f"mnt/*/volume-{disk.volume_id}")
    subprocess.run(["cp", "--sparse=always", content, path], check=True)
    return Disk(disk.format, disk.volume_id, path)


def see_mounts() -> None:
    """See that the pools are what the test is about."""
    lines = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    mounts = [line for line in lines if " nfs4 " in line]
    assert len(mounts) == len(DISKS), lines
    assert all("vers=4.2," in line for line in mounts), mounts
    say("the pools are mounted with NFS 4.2")


async def grow_under_guest(client: AgentClient, left: Path, disks: list[Disk]) -> None:
    """Let a guest wake that has these disks, and grow them while it writes."""
    root = Path(shutil.copy(left / "root.qcow2", "/run/root.qcow2"))
    options = [word for one in disks for word in disk_options(one.format, one.path, one.format)]
    wake = ["-incoming", f"exec:cat {left / 'state'}"]
    with booted(root, Path("/run/control"), *options, *wake, first="writer has written") as guest:
        say("the guest is awake and writes")
        for disk in disks:
            asked = await client.extend_volume(disk.volume_id, 2, operation=operation())
            assert (asked.virtual_bytes, asked.needs_compute) == (GIB, True)
            await asyncio.to_thread(see_lock, disk)
            say(f"{disk.format}: only the guest's QEMU can make it grow")
            guest.order("block_resize", device=disk.format, size=2 * GIB)
        for disk in disks:
            await asyncio.to_thread(hear_growth, guest, disk)
            shown = await client.show_volume(disk.volume_id)
            assert shown is not None
            assert shown.virtual_bytes == 2 * GIB
        guest.order("quit")
        guest.process.wait(60)


def see_lock(disk: Disk) -> None:
    """See that qemu-img may not touch what QEMU has open, though another process asks."""
    command = ["qemu-img", "resize", "-f", disk.format, str(disk.path), "2G"]
    environment = {**os.environ, "LC_ALL": "C"}
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 1, refused
    assert re.search('Failed to get "(write|resize)" lock', refused.stderr), refused


def hear_growth(guest: Guest, disk: Disk) -> None:
    """Wait until the guest sees that a disk has grown and has written behind its old end."""
    name = DISKS[disk.format]
    guest.hear(f"disk {name} {2 * GIB} bytes serial={disk.format}")
    guest.hear(f"{name} writer goes on at block {GIB // BLOCK}")
    end = guest.said.index(f"{name} writer goes on at block")
    guest.hear(f"{name} writer has written", behind=end)
    say(f"{disk.format}: the guest sees {2 * GIB} bytes and writes on")


def say(words: str) -> None:
    """Tell the test outside, and after how many seconds of the kernel's life."""
    since = time.clock_gettime(time.CLOCK_BOOTTIME)
    sys.stdout.write(f"kernel: {since:.0f} s: {words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
