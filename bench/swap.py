"""How long QEMU copies a volume under a running guest, beside `qemu-img convert` of the same bytes.

A real host, without the control plane: of what a swap takes, the copy is all that grows with the
volume. Both read and write past the page cache, each into a file that has held data before. They
are measured in turns, and the least of each counts, as what came beside only adds.
Without QEMU and libvirt's binding it says why, and gives no figure.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.machine import scratch
from bench.rows import Row, tell
from mooring.agent.qemu_img import GIB
from mooring.agent.waiting import until_told
from tests.agent.hosts import TestHost, new_id, operation, why_no_real_guests
from tests.agent.processes import agent_process

if TYPE_CHECKING:
    from mooring.agent_api.disks import DiskSpec

ROUNDS, SIZE_GIB, LONGEST_S, MIB = 2, 4, 300.0, 1 << 20
BUDGET = 1.2
"""The most that a copy under a guest may take, in times of one without."""


async def measure(directory: Path) -> tuple[float, float]:
    """Return what a copy took under a guest and by itself, in seconds: the least of each."""
    under: list[float] = []
    alone: list[float] = []
    async with agent_process(directory, "libvirt") as agent:
        host = agent.host
        old, new, other = [await host.make_disk(SIZE_GIB, disk_format="raw") for _ in range(3)]
        for disk in (old, new, other):
            await asyncio.to_thread(fill, path_of(disk))
        server_id = new_id()
        await host.boot(server_id, [old])
        await host.hears(server_id, "vdb marker written")
        for _ in range(ROUNDS):
            under.append(await copy_under_guest(host, server_id, old, new))
            alone += [await asyncio.to_thread(convert, old, other) for _ in range(2)]
            under.append(await copy_under_guest(host, server_id, old, new))
        await host.remove(server_id)
    return min(under), min(alone)


async def copy_under_guest(host: TestHost, server_id: str, old: DiskSpec, new: DiskSpec) -> float:
    """Copy a volume until both are in step, then give the copy up; return the seconds till then."""
    names = server_id, old.volume_id
    start = time.perf_counter()
    await host.client.mirror_disk(*names, new, operation=operation())

    async def in_step() -> bool:
        return (await host.client.mirroring(*names)).in_step

    if not await until_told(in_step, LONGEST_S, pause_s=0.01):
        raise RuntimeError(f"the copy was not in step after {LONGEST_S} s")
    took = time.perf_counter() - start
    await host.client.stop_mirror(*names, new.attachment_id, operation=operation())
    return took


def convert(old: DiskSpec, new: DiskSpec) -> float:
    """Copy a volume with qemu-img; return the seconds."""
    # The guest has it open, and has nothing to write.
    command = ["qemu-img", "convert", "-U", "-n", "-t", "none", "-T", "none"]
    files = [str(path_of(old)), str(path_of(new))]
    start = time.perf_counter()
    subprocess.run([*command, "-f", "raw", "-O", "raw", *files], check=True)
    return time.perf_counter() - start


def fill(path: Path) -> None:
    """Write data that cannot be left out to all of a file."""
    with path.open("r+b") as file:
        for _ in range(SIZE_GIB * GIB // MIB):
            file.write(os.urandom(MIB))
        os.fsync(file.fileno())


def path_of(disk: DiskSpec) -> Path:
    """Return the file of a volume on this very host."""
    return Path(disk.connection["data"]["device_path"])


def main() -> None:
    """Measure both, and tell."""
    if reason := why_no_real_guests():
        print(f"bench: no swap is measured: {reason}", file=sys.stderr)
        return
    with scratch() as directory:
        under, alone = asyncio.run(measure(directory))
    note = f"{SIZE_GIB} GiB: {under:.2f} s and {alone:.2f} s"
    what = "swap: copy under a guest, in times of qemu-img convert"
    tell(Row(what=what, measured=under / alone, unit="", budget=BUDGET, note=note))


if __name__ == "__main__":
    main()
