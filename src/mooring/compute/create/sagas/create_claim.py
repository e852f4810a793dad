"""The place of a new server: a host that has room, and the resources held there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.scheduling import picking
from mooring.compute.scheduling.needs import Needs, resources_of, traits_of
from mooring.compute.scheduling.picking import Owner
from mooring.compute.scheduling.reach import find_reach
from mooring.compute.tables import Server

if TYPE_CHECKING:
    from mooring.compute.create.sagas.create_notes import CreateServer
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


async def claim_host(notes: CreateServer, run: Run[Compute]) -> CreateServer:
    """Choose a host with room and hold the resources there. Raises NoCapacity."""
    server = await run.service.store.read(lambda tx: tx.get_one(Server, notes.server_id))
    needs = Needs(
        server_id=notes.server_id,
        resources=resources_of(server, root_is_volume=not notes.image_id),
        traits=traits_of(server.extra_specs, notes.traits),
        zone=notes.wished_zone,
        host=notes.wished_host,
        reach=await find_reach(
            run.service.volumes, [disk.volume_id for disk in notes.disks if disk.volume_id]
        ),
        group_id=notes.group_id,
        project_id=notes.project_id,
        specs=server.extra_specs,
        hints=server.scheduler_hints,
    )
    chosen = await picking.claim(run, needs, Owner(notes.project_id, notes.user_id))
    return replace(notes, host=chosen.host, zone=chosen.zone)


async def release_claim(notes: CreateServer, run: Run[Compute]) -> None:
    """Hold nothing on any host."""
    await picking.release(run, notes.server_id, notes.group_id)
