"""What has no owner is found."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from mooring.compute.hosts.sagas.fence_host import FENCE_HOST
from mooring.compute.tables import HostFencing, Migration
from mooring.doctor.examine import look
from mooring.image.tables import ImageRow, UploadRow
from mooring.saga.tables import SagaRow
from tests.cloud import SimulatedCloud

pytestmark = pytest.mark.anyio


async def make_image(cloud: SimulatedCloud) -> str:
    body = {"name": "word", "disk_format": "raw", "container_format": "bare"}
    answer = await cloud.do("POST", "/image/v2/images", body)
    assert answer is not None
    return answer.body["id"]


def receive(tx: Session, image_id: str, beat_at: datetime) -> None:
    tx.execute(update(ImageRow).where(ImageRow.id == image_id).values(status="saving"))
    tx.add(UploadRow(id="upload", image_id=image_id, owner="control-0", beat_at=beat_at))


async def test_an_image_that_nobody_receives_is_found(cloud: SimulatedCloud) -> None:
    image_id = await make_image(cloud)
    assert await cloud.complaints() == []
    saving = update(ImageRow).where(ImageRow.id == image_id).values(status="saving")
    await cloud.cloud.stores["image"].write(lambda tx: tx.execute(saving))
    assert await cloud.complaints() == [f"image {image_id}: saving, and nobody receives its data"]


async def test_an_upload_without_a_sign_of_life_is_found(cloud: SimulatedCloud) -> None:
    image_id, now = await make_image(cloud), cloud.clock.now()
    await cloud.cloud.stores["image"].write(lambda tx: receive(tx, image_id, now))
    assert await cloud.complaints() == []
    cloud.clock.advance(timedelta(minutes=6).total_seconds())
    assert [line.partition(":")[0] for line in await cloud.complaints()] == [f"image {image_id}"]


async def test_a_host_whose_fence_has_no_operation_is_found(cloud: SimulatedCloud) -> None:
    now = cloud.clock.now()
    row = HostFencing(host="h1", status="fencing", user_id="admin", started_at=now)
    await cloud.cloud.stores["compute"].write(lambda tx: tx.add(row))
    assert await cloud.complaints() == [
        f"host h1: it is being fenced since {now}, and no operation"
    ]


async def test_an_operation_that_is_stuck_is_advised_upon_by_its_id(cloud: SimulatedCloud) -> None:
    now = cloud.clock.now()
    row = {"id": "op1", "name": FENCE_HOST.name, "version": FENCE_HOST.version, "stuck": True}
    row |= {"state": "ready", "heading": "forward", "step": "end_host", "owner": "nobody"}
    row |= {"notes": {"host": "h1", "user_id": "admin"}, "lease_until": now + timedelta(hours=1)}
    row |= {"created_at": now, "updated_at": now}
    await cloud.cloud.stores["compute"].write(lambda tx: tx.add(SagaRow(**row)))
    found = await look(cloud.every_store(), cloud.known_agents, cloud.clock, cloud.settings)
    [advice] = [one.advice for one in found if one.resource == "operation op1"]
    assert "mooring operations show op1." in advice
    assert advice.endswith("mooring operations abort op1")


async def test_a_move_that_no_operation_ends_is_found(cloud: SimulatedCloud) -> None:
    now = cloud.clock.now()
    row = {"uuid": "m1", "server_id": "s1", "saga_id": "s", "type": "migration"}
    row |= {"status": "migrating", "source": "h1", "old_flavor_id": "1", "new_flavor_id": "1"}
    who = {"user_id": "u", "project_id": "p", "created_at": now, "updated_at": now}
    await cloud.cloud.stores["compute"].write(lambda tx: tx.add(Migration(**row, **who)))
    assert await cloud.complaints() == ["server s1: its move m1 is migrating, and no operation"]
