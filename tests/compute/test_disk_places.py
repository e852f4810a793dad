"""A volume in two places: shown where its server runs, and ended in both."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from mooring.compute.tables import BlockDevice, DiskPlace
from mooring.compute.volumes import disk_places
from tests.compute.yard import Yard

pytestmark = pytest.mark.anyio


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncGenerator[Yard]:
    made = Yard(tmp_path, hosts=2)
    await made.open()
    yield made
    await made.close()


async def attached_twice(yard: Yard) -> tuple[str, str, str]:
    """Return a server, its volume, and the attachment by which another host has that volume."""
    server_id = await yard.make_server()
    volume_id = await yard.make_volume()
    await yard.attach(server_id, volume_id)
    await yard.settle()
    here = (await yard.server(server_id))["OS-EXT-SRV-ATTR:host"]
    elsewhere = next(host for host in yard.host_names if host != here)
    agent, volumes = yard.agents[elsewhere], yard.compute.volumes
    connector = await agent.connector()
    made = await volumes.create_attachment(None, volume_id, server_id, connector=connector)
    await agent.connect(made.id, volume_id, made.connection_info)
    await volumes.complete_attachment(None, made.id)

    def write(tx: Any) -> None:
        device = tx.scalars(select(BlockDevice).where(BlockDevice.volume_id == volume_id)).one()
        disk_places.add(tx, device.id, elsewhere, made.id, yard.clock.now())

    await yard.compute.store.write(write)
    return server_id, volume_id, made.id


async def places(yard: Yard) -> list[str]:
    return list(await yard.compute.store.read(lambda tx: tx.scalars(select(DiskPlace.host)).all()))


async def everywhere(yard: Yard) -> list[str]:
    return [one for host in yard.host_names for one in await yard.connections(host)]


async def test_a_server_shows_the_attachment_of_the_place_it_runs_in(yard: Yard) -> None:
    server_id, volume_id, elsewhere = await attached_twice(yard)
    there = await yard.compute.volumes.attachments(None, volume_id=volume_id)
    here = next(found.id for found in there if found.id != elsewhere)
    assert [one["attachment_id"] for one in await yard.attachments(server_id)] == [here]


async def test_a_volume_in_two_places_is_detached_in_both(yard: Yard) -> None:
    server_id, volume_id, _ = await attached_twice(yard)
    assert sorted(await everywhere(yard)) == [volume_id, volume_id]
    assert (await yard.detach(server_id, volume_id)).status_code == 202
    await yard.settle()
    assert await yard.volume_status(volume_id) == "available"
    assert (await everywhere(yard), await places(yard)) == ([], [])


async def test_a_volume_in_two_places_is_released_in_both(yard: Yard) -> None:
    server_id, volume_id, _ = await attached_twice(yard)
    yard.silent = ("", "/servers/")
    await yard.detach(server_id, volume_id)
    await yard.compute.sagas.settle(1800.0)
    assert (await yard.server(server_id))["status"] == "ERROR"
    yard.silent = None
    await yard.settle()
    assert (await yard.server(server_id))["status"] == "ACTIVE"
    assert await yard.volume_status(volume_id) == "available"
    assert (await everywhere(yard), await places(yard)) == ([], [])


async def test_deleting_a_server_ends_its_volume_in_both_places(yard: Yard) -> None:
    server_id, volume_id, _ = await attached_twice(yard)
    await yard.ask("DELETE", f"/servers/{server_id}")
    await yard.settle()
    assert await yard.volume_status(volume_id) == "available"
    assert (await everywhere(yard), await places(yard)) == ([], [])


async def test_an_operation_takes_no_attachment_of_any_place_for_its_own_work(yard: Yard) -> None:
    server_id, volume_id, elsewhere = await attached_twice(yard)
    rows = await yard.compute.store.read(lambda tx: disk_places.attachments_of(tx, volume_id))
    there = await yard.compute.volumes.attachments(None, volume_id=volume_id)
    assert rows == {found.id for found in there}
    assert elsewhere in rows
    assert {found.server_id for found in there} == {server_id}


async def test_volumes_of_a_new_server_are_at_its_host(yard: Yard) -> None:
    volume_id = await yard.make_volume(bootable=True)
    root = {"source_type": "volume", "destination_type": "volume", "uuid": volume_id}
    wanted = [{**root, "boot_index": 0}]
    server_id = await yard.make_server(imageRef="", block_device_mapping_v2=wanted)
    here = (await yard.server(server_id))["OS-EXT-SRV-ATTR:host"]
    assert (await yard.connections(here), await places(yard)) == ([volume_id], [here])
