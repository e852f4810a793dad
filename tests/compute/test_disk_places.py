"""A volume in two places: shown where its server runs, and ended in both."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from mooring.compute.tables import BlockDevice, DiskPlace
from mooring.compute.volumes import disk_places
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path, database: str) -> AsyncGenerator[ComputeCloud]:
    async with ComputeCloud(tmp_path, database=database, hosts=("host1", "host2")) as opened:
        yield opened


async def attached_twice(cloud: ComputeCloud) -> tuple[str, str, str]:
    """Return a server, its volume, and the attachment by which another host has that volume."""
    server_id = await cloud.make_server()
    volume_id = await cloud.make_volume()
    await cloud.attach(server_id, volume_id)
    await cloud.settle()
    here = (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"]
    elsewhere = next(host for host in cloud.hosts if host != here)
    agent, volumes = cloud.known_agents[elsewhere], cloud.compute.volumes
    connector = await agent.connector()
    made = await volumes.create_attachment(None, volume_id, server_id, connector=connector)
    await agent.connect(made.id, volume_id, made.connection_info)
    await volumes.complete_attachment(None, made.id)

    def write(tx: Any) -> None:
        device = tx.scalars(select(BlockDevice).where(BlockDevice.volume_id == volume_id)).one()
        disk_places.add(tx, device.id, elsewhere, made.id, cloud.clock.now())

    await cloud.compute.store.write(write)
    return server_id, volume_id, made.id


async def left_elsewhere(cloud: ComputeCloud) -> tuple[str, str]:
    """Return a server whose host has its volume no more, and the volume, which another one has."""
    server_id, volume_id, elsewhere = await attached_twice(cloud)
    here = str((await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"])
    volumes = cloud.compute.volumes
    for found in await volumes.attachments(None, volume_id=volume_id):
        if found.id != elsewhere:
            await cloud.known_agents[here].unplug_disk(server_id, volume_id, found.id)
            await volumes.delete_attachment(None, found.id)

    def write(tx: Any) -> None:
        device = tx.scalars(select(BlockDevice).where(BlockDevice.volume_id == volume_id)).one()
        disk_places.remove(tx, device.id, here)

    await cloud.compute.store.write(write)
    return server_id, volume_id


async def places(cloud: ComputeCloud) -> list[str]:
    return list(await cloud.compute.store.read(lambda tx: tx.scalars(select(DiskPlace.host)).all()))


async def everywhere(cloud: ComputeCloud) -> list[str]:
    return [one for host in cloud.hosts for one in await cloud.connections(host)]


async def test_a_server_shows_the_attachment_of_the_place_it_runs_in(cloud: ComputeCloud) -> None:
    server_id, volume_id, elsewhere = await attached_twice(cloud)
    there = await cloud.compute.volumes.attachments(None, volume_id=volume_id)
    here = next(found.id for found in there if found.id != elsewhere)
    assert [one["attachment_id"] for one in await cloud.attachments(server_id)] == [here]


async def test_a_volume_in_two_places_is_detached_in_both(cloud: ComputeCloud) -> None:
    server_id, volume_id, _ = await attached_twice(cloud)
    assert sorted(await everywhere(cloud)) == [volume_id, volume_id]
    assert (await cloud.detach(server_id, volume_id)).status == 202
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "available"
    assert (await everywhere(cloud), await places(cloud)) == ([], [])


async def test_a_volume_in_two_places_is_released_in_both(cloud: ComputeCloud) -> None:
    server_id, volume_id, _ = await attached_twice(cloud)
    cloud.silent = ("", "/servers/")
    await cloud.detach(server_id, volume_id)
    await cloud.compute.sagas.settle(1800.0)
    assert (await cloud.server(server_id))["status"] == "ERROR"
    cloud.silent = None
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert await cloud.volume_status(volume_id) == "available"
    assert (await everywhere(cloud), await places(cloud)) == ([], [])


async def test_deleting_a_server_ends_its_volume_in_both_places(cloud: ComputeCloud) -> None:
    server_id, volume_id, _ = await attached_twice(cloud)
    await cloud.ask("DELETE", f"/servers/{server_id}")
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "available"
    assert (await everywhere(cloud), await places(cloud)) == ([], [])


@pytest.mark.parametrize("verb", ["detach", "delete"])
async def test_a_volume_that_another_host_alone_still_has_leaves_that_one(
    cloud: ComputeCloud, verb: str
) -> None:
    server_id, volume_id = await left_elsewhere(cloud)
    assert await everywhere(cloud) == [volume_id]
    if verb == "detach":
        assert (await cloud.detach(server_id, volume_id)).status == 202
    else:
        assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "available"
    assert (await everywhere(cloud), await places(cloud)) == ([], [])
    assert await cloud.complaints() == []


@pytest.mark.parametrize("left", [attached_twice, left_elsewhere], ids=["both", "another"])
async def test_a_volume_that_another_host_still_has_is_not_swapped(
    cloud: ComputeCloud, left: Callable[[ComputeCloud], Awaitable[tuple[str, ...]]]
) -> None:
    server_id, volume_id, *_ = await left(cloud)
    there, new_id = await places(cloud), await cloud.make_volume()
    body = {"volumeAttachment": {"volumeId": new_id}}
    path = f"/servers/{server_id}/os-volume_attachments/{volume_id}"
    answer = await cloud.ask("PUT", path, body, user="admin")
    assert (answer.status, "which server" in str(answer.body)) == (409, True)
    assert (await places(cloud), await everywhere(cloud)) == (there, [volume_id] * len(there))
    assert await cloud.volume_status(new_id) == "available"
    assert await cloud.volume_status(volume_id) == "in-use"


async def test_an_operation_takes_no_attachment_of_any_place_for_its_own_work(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id, elsewhere = await attached_twice(cloud)
    rows = await cloud.compute.store.read(lambda tx: disk_places.attachments_of(tx, volume_id))
    there = await cloud.compute.volumes.attachments(None, volume_id=volume_id)
    assert rows == {found.id for found in there}
    assert elsewhere in rows
    assert {found.server_id for found in there} == {server_id}


async def test_volumes_of_a_new_server_are_at_its_host(cloud: ComputeCloud) -> None:
    volume_id = await cloud.make_volume(bootable=True)
    root = {"source_type": "volume", "destination_type": "volume", "uuid": volume_id}
    wanted = [{**root, "boot_index": 0}]
    server_id = await cloud.make_server(imageRef="", block_device_mapping_v2=wanted)
    here = (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"]
    assert (await cloud.connections(here), await places(cloud)) == ([volume_id], [here])
