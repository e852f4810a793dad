"""Runs in the test kernel: volumes on NFS 4.2 grow under a real guest, as an agent makes them.

Its arguments are the state directory of tests/hosts/nfs_agent.py and, as JSON, the guest that
sleeps there. Where the guest's console, the agent and the files agree, it says so.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from pathlib import Path

import msgspec
from msgspec.structs import replace

from mooring.agent.app import open_agent
from mooring.agent.settings import MountSettings
from mooring.agent.waiting import until_told
from mooring.agent_api.client import AgentClient, Agents
from mooring.agent_api.servers import PowerRequest
from mooring.errors import Unavailable
from tests.agent.hosts import operation
from tests.hosts.nfs_agent import FORMATS, NAME, Sleeper, settings
from tests.hosts.written import BLOCK, Written, read_written

GIB = 1 << 30
HEARS_S = 480.0
"""Guests here are emulated on an emulated machine, which may be one of many on its host."""
DEVICES = {"raw": "vdb", "qcow2": "vdc"}


class Host:
    """The agent, and what the console of its one guest has said."""

    def __init__(self, client: AgentClient, sleeper: Sleeper, state_dir: Path) -> None:
        self.client, self.sleeper, self._state_dir = client, sleeper, state_dir

    async def hears(self, pattern: str) -> None:
        """Wait until the guest has said something that fits."""

        async def heard() -> bool:
            said = await self.client.read_console(self.sleeper.server_id)
            return re.search(pattern, said, re.DOTALL) is not None

        if not await until_told(heard, HEARS_S):
            said = await self.client.read_console(self.sleeper.server_id)
            raise AssertionError(f"never said: {pattern}; said: {said[-2000:]}")

    async def wake(self) -> None:
        """Let the guest go on where it was, and wait until it writes."""
        said = await self.client.read_console(self.sleeper.server_id)
        await self.power("on")
        await self.hears(re.escape(said[-200:]) + ".*writer has written")

    async def find(self, disk_format: str) -> None:
        """See that a volume is there, which takes until its share is mounted."""

        async def shown() -> bool:
            try:
                found = await self.client.show_volume(self.sleeper.volumes[disk_format])
            except Unavailable:
                # Asked again, as a service does: mounting may take longer than one call may.
                return False
            assert found is not None
            assert found.virtual_bytes == GIB, found
            return True

        assert await until_told(shown, HEARS_S), "its share was never mounted"

    async def power(self, state: str) -> None:
        """Switch the guest on, or off without asking it."""
        request = msgspec.convert({"state": state, "mode": "hard"}, PowerRequest)
        await self.client.set_power(self.sleeper.server_id, request, operation=operation())

    async def grow(self, disk_format: str) -> None:
        """Grow a volume as the volume service and the compute service do together."""
        volume_id, server_id = self.sleeper.volumes[disk_format], self.sleeper.server_id
        asked = await self.client.extend_volume(volume_id, 2, operation=operation())
        assert (asked.virtual_bytes, asked.needs_compute) == (GIB, True), asked
        say(f"{disk_format}: only the guest's QEMU can make it grow")
        grown = await self.client.resize_disk(server_id, volume_id, 2 * GIB, operation=operation())
        assert (grown.guest_bytes, grown.image_bytes) == (2 * GIB, 2 * GIB), grown
        shown = await self.client.show_volume(volume_id)
        assert shown is not None
        assert shown.virtual_bytes == 2 * GIB
        say(f"{disk_format}: it has grown to {2 * GIB} bytes")

    async def hear_growth(self, disk_format: str) -> None:
        """Wait until the guest sees the new size and has written behind the old end."""
        device, volume_id = DEVICES[disk_format], self.sleeper.volumes[disk_format]
        await self.hears(f"disk {device} {2 * GIB} bytes serial={volume_id[:20]}")
        began = f"{device} writer goes on at block {GIB // BLOCK}"
        await self.hears(f"{began}.*{device} writer has written")
        say(f"{disk_format}: the guest sees {2 * GIB} bytes and writes on")

    def written(self, disk_format: str) -> Written:
        """Read all that the guest has written."""
        [path] = self._state_dir.glob(f"mnt/*/volume-{self.sleeper.volumes[disk_format]}")
        return read_written(path, disk_format, GIB, Path("/run"))

    async def grow_at_rest(self, disk_format: str) -> None:
        """Grow a volume that no guest has open."""
        volume_id = self.sleeper.volumes[disk_format]
        grown = await self.client.extend_volume(volume_id, 3, operation=operation())
        assert (grown.virtual_bytes, grown.needs_compute) == (3 * GIB, False), grown
        say(f"{disk_format}: it grows by itself when no guest has it")


async def main(state_dir: Path, sleeper: Sleeper) -> None:
    """Wake the guest on NFS, grow both disks under it, and one more time without it."""
    # Each program starts twenty times as slowly as elsewhere.
    wanted = replace(
        settings(state_dir, MountSettings(timeout_s=240)), guest_answer_s=240.0, guest_start_s=480.0
    )
    async with open_agent(wanted) as running:
        say("the agent is up")
        host = Host(Agents().in_process(NAME, running.app), sleeper, state_dir)
        for one in FORMATS:
            await host.find(one)
        see_mounts()
        await host.wake()
        say("the guest is awake and writes")
        for one in FORMATS:
            await host.grow(one)
        for one in FORMATS:
            await host.hear_growth(one)
        await host.power("off")
        for one in FORMATS:
            written = await asyncio.to_thread(host.written, one)
            assert min(written.before, written.after) > 0, written
            say(f"{one}: {written}")
            await host.grow_at_rest(one)


def see_mounts() -> None:
    """See that the pools are what the test is about."""
    lines = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    mounts = [line for line in lines if " nfs4 " in line]
    assert len(mounts) == len(FORMATS), lines
    assert all("vers=4.2," in line for line in mounts), mounts
    say("the pools are mounted with NFS 4.2")


def say(words: str) -> None:
    """Tell the test outside, and after how many seconds of the kernel's life."""
    since = time.clock_gettime(time.CLOCK_BOOTTIME)
    sys.stdout.write(f"kernel: {since:.0f} s: {words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), msgspec.json.decode(sys.argv[2], type=Sleeper)))
