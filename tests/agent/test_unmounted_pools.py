"""A pool whose disk is not mounted is an empty directory, and says nothing of its volumes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.agent.connections import Connections
from mooring.agent.fitting import Fitting
from mooring.agent.qemu_img import QemuImg
from mooring.agent.run import Runner
from mooring.errors import Unavailable
from mooring.fence.journal import Journal
from tests.agent.shares import Shares

pytestmark = pytest.mark.anyio
MIB = 1024**2


async def test_a_volume_made_smaller_is_not_taken_for_gone_while_its_pool_is_not_mounted(
    tmp_path: Path, journal: Journal
) -> None:
    mounts = Shares(tmp_path / "nfs").mounts(journal)
    fitting = Fitting(QemuImg(Runner(journal)))
    connections = Connections(tmp_path / "connections", mounts, fitting, simulated=False)
    connections.prepare()
    pool, away = tmp_path / "pool", tmp_path / "away"
    (pool / ".mooring").mkdir(parents=True)
    path = pool / "volume-v1"
    path.write_bytes(b"\0" * 2 * MIB)
    data = {"device_path": str(path), "format": "raw"}
    await connections.connect("a1", "v1", {"driver_volume_type": "local", "data": data})
    await connections.fit("a1", MIB, "op")
    assert path.stat().st_size == MIB
    pool.rename(away)
    pool.mkdir()
    with pytest.raises(Unavailable):
        await connections.disconnect("a1")
    assert connections.find("a1") is not None
    pool.rmdir()
    away.rename(pool)
    await connections.disconnect("a1")
    assert (path.stat().st_size, connections.find("a1")) == (2 * MIB, None)
    await connections.connect("a2", "v1", {"driver_volume_type": "local", "data": data})
    await connections.fit("a2", MIB, "op2")
    path.unlink()
    await connections.disconnect("a2")
    assert connections.find("a2") is None, "it is gone for good"
    await mounts.close()
