"""A real guest with volumes on a share: its hypervisor makes them grow, its host mounts for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.agent.mounts import mount_point, read_mount_points
from mooring.agent.qemu_img import GIB
from mooring.agent_api.disks import DiskSize
from mooring.agent_api.volumes import Extended
from mooring.errors import Conflict
from tests.agent.hosts import TestHost, new_id, operation, why_no_real_guests
from tests.agent.processes import agent_process
from tests.agent.shares import EXPORT, Shares

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]


@pytest.fixture
def shares(tmp_path: Path) -> Shares:
    made = Shares(tmp_path / "outside")
    made.export()
    return made


@pytest.fixture(params=["raw", "qcow2"])
async def host(
    request: pytest.FixtureRequest, tmp_path: Path, shares: Shares
) -> AsyncGenerator[TestHost]:
    if reason := why_no_real_guests():
        pytest.skip(reason)
    address, _, path = EXPORT.partition(":")
    storage = tmp_path / "storage.toml"
    # The pool's own mount is elsewhere, as if the guest's host were another.
    storage.write_text(
        f'[mounts]\nprogram_path = "{shares.directory}/bin"\ntable = "{shares.directory}/table"\n'
        f'[[pools]]\nname = "pool"\ndriver = "nfs"\n[pools.nfs]\nnas_host = "{address}"\n'
        f'nas_share_path = "{path}"\nnfs_mount_point_base = "{tmp_path}/pool"\n'
        f"nfs_qcow2_volumes = {str(request.param == 'qcow2').lower()}\n"
    )
    # A process can have one directory of guests with libvirt inside it, so this is one of its own.
    async with agent_process(tmp_path / "state", "libvirt", storage=str(storage)) as agent:
        yield agent.host


async def test_a_volume_on_a_share_grows_under_its_guest(
    host: TestHost, shares: Shares, tmp_path: Path
) -> None:
    client, server_id, disk = host.client, new_id(), await host.make_disk()
    volume_id = disk.volume_id
    await host.boot(server_id, [disk])
    mounted = mount_point(tmp_path / "state" / "mnt", EXPORT)
    assert mounted in read_mount_points(shares.directory / "table")
    asked = await client.extend_volume(volume_id, 2, operation=operation())
    assert asked == Extended(GIB, needs_compute=True)
    grown = await client.resize_disk(server_id, volume_id, 2 * GIB, operation=operation())
    assert grown == DiskSize(guest_bytes=2 * GIB, image_bytes=2 * GIB)
    shown = await client.show_volume(volume_id)
    assert shown is not None
    assert shown.virtual_bytes == 2 * GIB
    with pytest.raises(Conflict):
        await client.disconnect(disk.attachment_id, operation=operation())
    await client.unplug_disk(server_id, volume_id, operation=operation())
    await client.disconnect(disk.attachment_id, operation=operation())
    assert mounted not in read_mount_points(shares.directory / "table")
    alone = await client.extend_volume(volume_id, 3, operation=operation())
    assert alone == Extended(3 * GIB)
    await host.remove(server_id)
