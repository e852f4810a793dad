"""A real guest that writes without end while its volume is copied to others: nothing is missing.

QEMU may lose a write in the moment in which a copy begins, which happens too rarely to be waited
for. So it is seen, too, that the guest stood still in each of these moments.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.waiting import until_told
from mooring.agent_api.disks import DiskSpec
from mooring.agent_api.mirrors import SwitchRequest
from mooring.agent_api.servers import PowerRequest
from mooring.fence.threads import run_to_end
from tests.agent.hosts import BOOT_S, TestHost, new_id, open_host, operation, why_no_real_guests
from tests.hosts.written import LABEL, read_written

libvirt: Any = pytest.importorskip("libvirt", reason="libvirt's Python binding is missing")
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.hosts,
    pytest.mark.skipif(bool(why_no_real_guests()), reason=why_no_real_guests()),
]
GIB = 1 << 30
COPIES = 6


async def writes_on(host: TestHost, server_id: str) -> None:
    """Wait until the guest has written more, and says so."""
    told = (await host.client.read_console(server_id)).count("has written")
    await host.hears(server_id, "vdb writer has written", told + 1)


async def move_on(host: TestHost, server_id: str, old: DiskSpec, new: DiskSpec) -> None:
    """Have the guest's volume copied to another one, and the guest go on with that."""
    names = server_id, old.volume_id
    await host.client.mirror_disk(*names, new, operation=operation())

    async def in_step() -> bool:
        return (await host.client.mirroring(*names)).in_step

    assert await until_told(in_step, BOOT_S)
    await writes_on(host, server_id)
    wanted = SwitchRequest(volume_id=new.volume_id, attachment_id=new.attachment_id)
    await host.client.switch_disk(*names, wanted, operation=operation())
    await host.client.disconnect(old.attachment_id, operation=operation())


def watch_standstills(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is noted whenever libvirt is asked to hold a guest still, or to let it go on."""
    noted: list[str] = []
    suspend, resume = libvirt.virDomain.suspend, libvirt.virDomain.resume

    def note_suspend(domain: Any) -> Any:
        noted.append("stands" if not domain.blockJobInfo("vdb", 0) else "late")
        return suspend(domain)

    def note_resume(domain: Any) -> Any:
        job = domain.blockJobInfo("vdb", 0)
        noted.append("goes on" if job and job["end"] > 1 else "early")
        return resume(domain)

    monkeypatch.setattr(libvirt.virDomain, "suspend", note_suspend)
    monkeypatch.setattr(libvirt.virDomain, "resume", note_resume)
    return noted


async def test_no_write_is_missing_on_the_last_of_many_volumes(
    libvirt_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_id, noted = new_id(), watch_standstills(monkeypatch)
    async with open_host(libvirt_dir, "libvirt") as (host, _):
        disk = await host.make_disk(disk_format="raw")
        with path_of(disk).open("r+b") as file:
            os.pwrite(file.fileno(), LABEL, 0)
        await host.boot(server_id, [disk])
        await host.hears(server_id, "vdb writer has written")
        for number in range(COPIES):
            await writes_on(host, server_id)
            new = await host.make_disk(disk_format="raw" if number % 2 else "qcow2")
            await move_on(host, server_id, disk, new)
            disk = new
        assert noted == ["stands", "goes on"] * COPIES
        await writes_on(host, server_id)
        off = PowerRequest(state="off")
        await host.client.set_power(server_id, off, operation=operation())
        last = path_of(disk)
        written = await run_to_end(lambda: read_written(last, "raw", GIB, tmp_path))
        assert written.before > 32 * COPIES


def path_of(disk: DiskSpec) -> Path:
    return Path(disk.connection["data"]["device_path"])
