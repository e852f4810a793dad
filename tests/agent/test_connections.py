"""What a host keeps of the volumes that it has connected, and what their end leaves as it was."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mooring.agent.connections import Connections
from mooring.agent.mounts import Mounts, mount_point
from mooring.errors import Unavailable
from tests.agent.shares import EXPORT, Shares, info

pytestmark = pytest.mark.anyio


async def test_a_pools_directory_that_is_a_mount_of_its_own_is_never_unmounted(
    connections: Connections, mounts: Mounts, shares: Shares, tmp_path: Path
) -> None:
    pool = tmp_path / "disk"
    pool.mkdir()
    (pool / "volume-v9").write_bytes(b"data")
    (shares.directory / "table").write_text(f"31 1 8:17 / {pool} rw - ext4 /dev/sdb1 rw\n")
    data = {"device_path": str(pool / "volume-v9"), "format": "raw"}
    await connections.connect("a1", "v9", {"driver_volume_type": "local", "data": data})
    await connections.disconnect("a1")
    assert shares.calls() == []
    assert set(await mounts.mounted()) == {pool}


async def shrink(connections: Connections, shares: Shares) -> Path:
    """Connect a volume of 4 MiB, have it as small as one that it is to replace, and restart."""
    volume = shares.export() / "volume-v1"
    os.truncate(volume, 4 << 20)
    await connections.connect("a1", "v1", info())
    await connections.fit("a1", 1 << 20, "op")
    assert volume.stat().st_size == 1 << 20
    shares.forget_mounts()
    return volume


async def test_a_volume_that_was_made_smaller_has_its_size_again_after_a_reboot(
    connections: Connections, mounts: Mounts, shares: Shares
) -> None:
    volume = await shrink(connections, shares)
    await connections.disconnect("a1")
    assert volume.stat().st_size == 4 << 20
    assert connections.connected() == []
    assert await mounts.mounted() == {}


async def test_a_volume_whose_share_is_refused_after_a_reboot_waits_for_it(
    connections: Connections, shares: Shares
) -> None:
    volume = await shrink(connections, shares)
    shares.tell("refuse")
    with pytest.raises(Unavailable, match="could not be mounted"):
        await connections.disconnect("a1")
    assert [one.volume_id for one in connections.connected()] == ["v1"]
    shares.tell("refuse", on=False)
    await connections.disconnect("a1")
    assert volume.stat().st_size == 4 << 20


async def test_a_damaged_record_of_a_connection_keeps_no_other_volume_and_no_agent(
    connections: Connections, mounts: Mounts, tmp_path: Path
) -> None:
    path = mount_point(mounts.base, EXPORT)
    await connections.connect("a1", "v1", info(), server_id="s1")
    await connections.connect("a2", "v2", info("volume-v2"), server_id="s1")
    record = tmp_path / "connections" / "a1.json"
    record.write_bytes(b"\0\0")
    assert [one.volume_id for one in connections.of_server("s1")] == ["v2"]
    with pytest.raises(Unavailable, match=r"a1\.json is damaged.*move it away"):
        await connections.disconnect("a1")
    await connections.disconnect("a2")
    # Nobody can tell that it does not lie there.
    await connections.release_unused()
    assert set(await mounts.mounted()) == {path}
    record.unlink()
    await connections.release_unused()
    assert await mounts.mounted() == {}


async def test_a_volume_that_is_gone_from_its_share_is_let_go(
    connections: Connections, mounts: Mounts, shares: Shares
) -> None:
    volume = await shrink(connections, shares)
    volume.unlink()
    await connections.disconnect("a1")
    assert connections.connected() == []
    assert await mounts.mounted() == {}


async def test_a_file_that_cannot_be_read_is_asked_for_again(
    connections: Connections, shares: Shares
) -> None:
    volume = await shrink(connections, shares)
    kept = volume.rename(volume.with_name("aside"))
    volume.mkdir()
    with pytest.raises(Unavailable, match="The files of volume v1 cannot be used on this host"):
        await connections.disconnect("a1")
    volume.rmdir()
    kept.rename(volume)
    await connections.disconnect("a1")
    assert volume.stat().st_size == 4 << 20


async def test_a_volume_that_an_older_agent_connected_waits_until_its_share_is_mounted(
    connections: Connections, shares: Shares, tmp_path: Path
) -> None:
    volume = await shrink(connections, shares)
    record = tmp_path / "connections" / "a1.json"
    noted = json.loads(record.read_text())
    del noted["mount"]
    record.write_text(json.dumps(noted))
    with pytest.raises(Unavailable, match="The share of volume v1 is not mounted"):
        await connections.disconnect("a1")
    await connections.connect("a2", "v2", info("volume-v2"))
    await connections.disconnect("a1")
    assert volume.stat().st_size == 4 << 20
