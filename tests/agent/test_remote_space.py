"""The space that volumes on a share take."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mooring.agent.qemu_img import GIB
from mooring.agent_api.volumes import VolumeFile
from mooring.fence.journal import Journal
from tests.agent.remote_pools import remote_pool

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]


async def test_a_thick_volume_takes_the_space_that_it_grows_by_and_nothing_else(
    tmp_path: Path, journal: Journal
) -> None:
    wanted = VolumeFile(volume_id="v1", pool="pool", size_gib=1, format="raw")
    async with remote_pool("nfs", "raw", tmp_path, journal, nfs_sparsed_volumes=False) as remote:
        await remote.driver.setup()
        await remote.driver.create(wanted, None, "op")
        path = remote.driver.path("v1")
        os.truncate(path, 0)
        os.truncate(path, GIB)
        assert (await remote.driver.extend("v1", 2, "op")).virtual_bytes == 2 * GIB
        assert GIB <= path.stat().st_blocks * 512 < 1.5 * GIB
