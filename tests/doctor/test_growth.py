"""What is left of a growing volume, and does not agree, is found."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import update
from sqlalchemy.orm import Session

from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent_api.volumes import VolumeFile
from mooring.volume.tables import ReservationRow, VolumeRow
from tests.cloud import SimulatedCloud

pytestmark = pytest.mark.anyio


async def make_volume(cloud: SimulatedCloud) -> str:
    answer = await cloud.do("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
    assert answer is not None
    await cloud.settle()
    return answer.body["volume"]["id"]


async def set_row(cloud: SimulatedCloud, volume_id: str, **columns: Any) -> None:
    changed = update(VolumeRow).where(VolumeRow.id == volume_id).values(**columns)
    await cloud.cloud.stores["volume"].write(lambda tx: tx.execute(changed) and None)


async def test_an_extending_volume_without_an_operation_is_found(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    await set_row(cloud, volume_id, status="extending")
    assert await cloud.complaints() == [f"volume {volume_id}: extending, and no operation"]


async def test_keys_that_nobody_waits_with_are_found(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    await set_row(cloud, volume_id, extend_new_size=2)
    (line,) = await cloud.complaints()
    assert "waits for the completion of an extend, and no operation" in line


async def test_a_reservation_without_an_operation_is_found(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)

    def reserve(tx: Session) -> None:
        row = tx.get_one(VolumeRow, volume_id)
        values = {"project_id": row.project_id, "volume_type_id": row.volume_type_id}
        gone = {"id": "r", "saga_id": "gone", "created_at": cloud.clock.now()}
        tx.add(ReservationRow(volume_id=volume_id, delta_gib=3, **values, **gone))

    await cloud.cloud.stores["volume"].write(reserve)
    assert await cloud.complaints() == [
        f"volume {volume_id}: 3 GiB are reserved for it, and no operation"
    ]


async def test_a_file_that_is_bigger_than_its_volume_is_found(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    (agent,) = [cloud.known_agents[name] for name in cloud.known_agents]
    await agent.extend_volume(volume_id, 2)
    assert await cloud.complaints() == [
        f"volume {volume_id}: 1 GiB here and 2 GiB on host {agent.name}"
    ]
    reset = {"os-reset_status": {"status": "extending"}}
    path = f"/volume/v3/volumes/{volume_id}/action"
    await cloud.do("POST", path, reset, user="admin")
    await cloud.settle()
    reset = {"os-reset_status": {"status": "available"}}
    await cloud.do("POST", path, reset, user="admin")
    await cloud.settle()
    assert await cloud.complaints() == []


async def test_a_thick_volume_without_all_of_its_space_is_found(
    cloud: SimulatedCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume_id, volumes = await make_volume(cloud), SimulatedDriver.volumes

    async def hollow(self: SimulatedDriver) -> list[VolumeFile]:
        return [replace(one, untaken_bytes=1 << 29) for one in await volumes(self)]

    monkeypatch.setattr(SimulatedDriver, "volumes", hollow)
    (line,) = await cloud.complaints()
    assert line.startswith(f"volume {volume_id}: 0.5 GiB of it have no space in pool ")
