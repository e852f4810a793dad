"""Which volumes several guests may have at once: raw ones, and others to read only."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.agent_api.disks import DiskSpec
from mooring.agent_api.servers import PowerRequest, ServerSpec
from mooring.errors import Invalid
from tests.agent.hosts import TestHost, new_id, operation

pytestmark = pytest.mark.anyio
REFUSED = "is the qcow2 file .* several guests .* can have raw ones only"


async def make_guest(host: TestHost, disk: DiskSpec) -> str:
    server_id = new_id()
    spec = ServerSpec(name="x", vcpus=1, memory_mib=64, disks=[replace(disk, boot_index=0)])
    await host.client.put_server(server_id, spec, operation=operation())
    return server_id


async def disks_of(host: TestHost, server_id: str) -> list[str]:
    guest = await host.client.show_server(server_id)
    assert guest is not None
    return [disk.attachment_id for disk in guest.disks]


async def test_every_pool_says_that_it_has_volumes_for_several_guests(host: TestHost) -> None:
    [pool] = (await host.client.host()).pools
    assert pool.multiattach
    disk = await host.make_disk()
    assert disk.connection["data"]["format"] == "qcow2", "and its own format is another one"


async def test_no_guest_shares_a_file_that_is_not_raw(host: TestHost) -> None:
    shared = replace(await host.make_disk(disk_format="qcow2"), shareable=True)
    with pytest.raises(Invalid, match=REFUSED):
        await make_guest(host, shared)
    own = await host.make_disk()
    server_id = await make_guest(host, own)
    for state in ("on", "off"):
        request = PowerRequest(state=state)
        await host.client.set_power(server_id, request, operation=operation())
        with pytest.raises(Invalid, match=REFUSED):
            await host.plug(server_id, shared)
        assert await disks_of(host, server_id) == [own.attachment_id]
    reboot = PowerRequest(state="reboot", mode="hard", disks=[replace(own, boot_index=0), shared])
    with pytest.raises(Invalid, match=REFUSED):
        await host.client.set_power(server_id, reboot, operation=operation())
    assert await disks_of(host, server_id) == [own.attachment_id]


async def test_guests_share_raw_files_and_read_others(host: TestHost) -> None:
    raw = replace(await host.make_disk(disk_format="raw"), shareable=True)
    read = replace(await host.make_disk(disk_format="qcow2"), shareable=True, read_only=True)
    for _ in range(2):
        server_id = await make_guest(host, await host.make_disk())
        for disk in (raw, read):
            assert (await host.plug(server_id, disk)).live
        assert len(await disks_of(host, server_id)) == 3
