"""Storage that fails under a host's verbs is asked again, and what a reboot took is mounted."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mooring.agent.app import open_agent
from mooring.agent.mounts import mount_point
from mooring.agent.settings import AgentSettings
from mooring.agent.simulated import SimulatedHypervisor
from mooring.agent_api.client import Agents
from mooring.agent_api.disks import STORAGE_AWAY, DiskSpec
from mooring.agent_api.servers import PowerRequest
from mooring.errors import Bug, MooringError, Unavailable
from tests.agent.hosts import TestHost, new_id, open_host, operation
from tests.agent.shares import EXPORT, Shares

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EIO, Unavailable),
        (errno.ESTALE, Unavailable),
        (errno.ENOTCONN, Unavailable),
        (errno.ENOENT, Bug),
        (errno.EBADF, Bug),
    ],
)
async def test_a_failing_device_is_no_mistake_of_ours_and_a_missing_file_may_be(
    tmp_path: Path, number: int, kind: type[MooringError]
) -> None:
    async with open_host(tmp_path) as (host, running):
        server_id, hypervisor = new_id(), running.agent.hypervisor
        await host.boot(server_id)
        assert isinstance(hypervisor, SimulatedHypervisor)
        hypervisor.knobs.fail("pause", OSError(number, "it failed"))
        pause = PowerRequest(state="pause")
        with pytest.raises(kind):
            await host.client.set_power(server_id, pause, operation=operation())
        await host.client.set_power(server_id, pause, operation=operation())


async def test_the_share_of_a_stopped_guests_volume_is_mounted_again_after_a_reboot(
    tmp_path: Path,
) -> None:
    shares = Shares(tmp_path / "nfs")
    volume = shares.export() / "volume-v1"
    volume.touch()
    os.truncate(volume, 1 << 20)
    data = {"export": EXPORT, "name": volume.name, "format": "raw"}
    spec = DiskSpec(
        volume_id="v1",
        attachment_id="a1",
        connection={"driver_volume_type": "nfs", "data": data},
    )
    settings = AgentSettings(
        name="host-1",
        state_dir=tmp_path / "state",
        hypervisor="simulated",
        roles=("compute",),
        mounts=shares.settings(),
    )
    async with open_agent(settings) as running:
        client, server_id = Agents().in_process("host-1", running.app), new_id()
        await TestHost(client, real=False).boot(server_id, [spec])
        await client.set_power(server_id, PowerRequest(state="off"), operation=operation())
        point = mount_point(tmp_path / "state" / "mnt", EXPORT)
        shares.forget_mounts()
        shares.tell("refuse")
        with pytest.raises(Unavailable, match="could not be mounted") as told:
            await client.show_disk_size(server_id, "v1")
        assert told.value.detail[STORAGE_AWAY] is True
        shares.tell("refuse", on=False)
        assert (await client.show_disk_size(server_id, "v1")).image_bytes == 1 << 20
        # It is in use for as long as the volume is connected.
        assert set(await running.agent.mounts.mounted()) == {point}
        shares.forget_mounts()
        await client.snapshot_disk(server_id, "v1", "s1", "volume-v1.s1", operation=operation())
        assert set(await running.agent.mounts.mounted()) == {point}
