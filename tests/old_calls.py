"""A volume that a server got by the calls of before attachments, as from a service before 3.44."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session as Transaction

from mooring.agent_api.disks import DiskSpec
from mooring.compute.tables import BlockDevice
from mooring.compute.volumes import disk_places
from tests.cloud import SimulatedCloud

DEVICE = "/dev/vdx"


async def give(cloud: SimulatedCloud, server_id: str, volume_id: str, host: str) -> None:
    """Give a server at a host an available volume, and write down that it came so."""

    async def act(action: str, arguments: Any) -> Any:
        path = f"/volume/v3/volumes/{volume_id}/action"
        how = {"user": "compute", "version": "3.43"}
        answer = await cloud.do("POST", path, {action: arguments}, **how)
        assert answer is not None
        assert answer.status < 300, answer.text
        return answer.body if answer.content else None

    agent = cloud.known_agents[host]
    await act("os-reserve", None)
    given = await act("os-initialize_connection", {"connector": await agent.connector()})
    disk = DiskSpec(
        volume_id=volume_id,
        attachment_id=volume_id,
        connection=given["connection_info"],
        device=DEVICE,
    )
    await agent.plug_disk(server_id, disk)
    await act("os-attach", {"instance_uuid": server_id, "mountpoint": DEVICE, "mode": "rw"})
    await cloud.cloud.stores["compute"].write(
        lambda tx: _write_down(tx, server_id, volume_id, host, cloud.clock.now())
    )


def _write_down(tx: Transaction, server_id: str, volume_id: str, host: str, now: datetime) -> None:
    tx.add(
        BlockDevice(
            id=volume_id,
            server_id=server_id,
            state="attached",
            source_type="volume",
            destination_type="volume",
            device_name=DEVICE,
            volume_id=volume_id,
            created_at=now,
            updated_at=now,
        )
    )
    tx.flush()
    disk_places.add(tx, volume_id, host, None, now)
    disk_places.change(tx, volume_id, host, now, state="attached")
