"""The place of a new server: a host that has room, and the resources held there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.create import scheduling
from mooring.compute.hosts import hosts
from mooring.compute.tables import Server
from mooring.errors import NoCapacity

if TYPE_CHECKING:
    from mooring.compute.create.sagas.create_notes import CreateServer
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


async def claim_host(notes: CreateServer, run: Run[Compute]) -> CreateServer:
    """Choose a host with room and hold the resources there. Raises NoCapacity."""
    compute, now = run.service, run.now()
    server = await compute.store.read(lambda tx: tx.get_one(Server, notes.server_id))
    known = await compute.store.read(hosts.find_all)
    root_is_volume = not notes.image_id
    held = await compute.placement.allocations(notes.server_id)
    for provider_id in held.allocations:
        for host in known:
            if host.provider_id == provider_id:
                return replace(notes, host=host.name, zone=host.zone)
    candidates = await compute.placement.candidates(
        scheduling.resources_of(server, root_is_volume=root_is_volume),
        scheduling.traits_of(server.extra_specs, notes.traits),
        scheduling.CANDIDATES,
    )
    wish = scheduling.Wish(notes.wished_zone, notes.wished_host)
    down_after_s = compute.settings.host_down_s
    for chosen in scheduling.choose(candidates, known, wish, now, down_after_s):
        try:
            await compute.placement.claim(
                notes.server_id,
                chosen.allocations,
                project_id=notes.project_id,
                user_id=notes.user_id,
                operation=run.operation,
            )
        except NoCapacity:
            continue
        return replace(notes, host=chosen.host, zone=chosen.zone)
    raise NoCapacity(scheduling.NO_HOST)


async def release_claim(notes: CreateServer, run: Run[Compute]) -> None:
    """Hold nothing on any host."""
    await run.service.placement.release(notes.server_id, operation=run.operation)
