"""The room that a server takes on both hosts while it moves: each has its own consumer.

The migration holds what the server had, and the server holds the destination, so that nobody
else is given either meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from mooring.compute.hosts import guests, hosts
from mooring.compute.moves import migrations
from mooring.compute.moves.sagas.move_notes import ColdMove, Evacuate, LiveMigrate, Move
from mooring.compute.scheduling import mounting, needs, picking, tried
from mooring.compute.scheduling.picking import Owner
from mooring.compute.scheduling.reach import find_reach
from mooring.compute.shares import folders
from mooring.compute.tables import Server
from mooring.compute.volumes import devices
from mooring.errors import Invalid, NoCapacity

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.saga.define import Run

M = TypeVar("M", LiveMigrate, Evacuate)


async def hold_source(notes: Move, run: Run[Compute]) -> None:
    """Let the migration hold the room that the server has, so that the server can hold another."""
    placement = run.service.placement
    await placement.move(notes.server_id, notes.migration_uuid, operation=run.operation)


async def claim_destination(notes: M, run: Run[Compute]) -> M:
    """Choose a host with room, and hold it there. Raises NoCapacity."""
    server, asked = await run.service.store.read(lambda tx: _look(tx, notes.server_id))
    wanted = needs.of_server(
        server,
        root_is_volume=not notes.is_local,
        besides=asked,
        zone=server.pinned_zone,
        host=notes.wished_host,
        leaving=notes.source,
        tried=tried.names(notes.tried),
        hypervisor=notes.hypervisor,
        reach=await find_reach(run.service.volumes, [disk.volume_id for disk in notes.disks]),
        group_id=notes.group_id,
    )
    chosen = await picking.claim(run, wanted, Owner(notes.project_id, notes.user_id))
    return replace(notes, destination=chosen.host, zone=chosen.zone)


async def leave_destination(notes: Move, run: Run[Compute]) -> None:
    """Hold no room there, nor a place in the group; the migration holds what the server has."""
    await picking.release(run, notes.server_id, notes.group_id)


async def claim_for_size(notes: ColdMove, run: Run[Compute]) -> ColdMove:
    """Choose a host with room for the new size, and hold it there.

    A resize stays where it is as long as there is room for both sizes; no volume goes along then.
    Raises NoCapacity; Invalid: a disk is not made smaller (facts/compute.md 1.4: accepted, then
    refused, the server as it was).
    """
    server, asked = await run.service.store.read(lambda tx: _look(tx, notes.server_id))
    mounts, letting_go = await run.service.store.read(lambda tx: _look_at_shares(tx, notes))
    if notes.is_local and notes.size.disk_gib < notes.former.disk_gib:
        raise Invalid(
            f"The root disk of server {server.id} has {notes.former.disk_gib} GiB, and flavor "
            f"{notes.size.flavor_name} has {notes.size.disk_gib}: it is not made smaller. Nothing "
            "was changed; choose a flavor with as large a disk."
        )
    shared = needs.traits_for_shares(notes.size.extra_specs) if notes.shares else []
    wanted = needs.of_server(
        server,
        root_is_volume=not server.image_id,
        resources=needs.resources_of(notes.size, root_is_volume=not server.image_id),
        besides=[*asked, *shared],
        zone=server.pinned_zone,
        host=notes.wished_host,
        leaving="" if notes.action == "resize" else notes.source,
        tried=tried.names(notes.tried),
        preferred=notes.source,
        hypervisor=notes.hypervisor,
        reach=await find_reach(run.service.volumes, [disk.volume_id for disk in notes.disks]),
        group_id=notes.group_id,
        specs=notes.size.extra_specs,
        mounts=mounts,
        letting_go=letting_go,
    )
    chosen = await picking.claim(run, wanted, Owner(notes.project_id, notes.user_id))
    found = replace(notes, destination=chosen.host, zone=chosen.zone)
    return replace(found, to_make=[], to_share=[]) if found.stays else found


def _look(tx: Session, server_id: str) -> tuple[Server, list[str]]:
    """Return a server, and what its volumes ask of a host."""
    return tx.get_one(Server, server_id), devices.traits_of(tx, server_id)


def _look_at_shares(tx: Session, notes: ColdMove) -> tuple[dict[str, str], list[str]]:
    """Return where the source mounts the shares that go along, and who still has them to let go."""
    source = hosts.find(tx, notes.source)
    protocols = (share.protocol for share in notes.shares)
    others = {one.host for one in folders.everywhere(tx, notes.server_id)} - {notes.source}
    return mounting.bases_for(source, protocols) if source else {}, sorted(others)


def save_destination(tx: Session, notes: Move, run: Run[Compute]) -> None:
    """Say where the server is to go."""
    migrations.change(tx, notes.migration_id, run.now(), destination=notes.destination)


async def settle_claim(notes: Move, run: Run[Compute]) -> None:
    """Hold room for the server on the host that has it, and on no other."""
    if notes.has_moved:
        await run.service.placement.release(notes.migration_uuid, operation=run.operation)
    else:
        await return_claim(notes, run)


async def return_claim(notes: Move, run: Run[Compute]) -> None:
    """Give the server what the migration holds for it, in place of what it holds."""
    await give_back(run, notes.server_id, notes.migration_uuid)


async def give_back(run: Run[Compute], server_id: str, migration_uuid: str) -> None:
    """Give a server what a migration holds for it, in place of what it holds."""
    placement = run.service.placement
    if await _has_room(run, server_id, migration_uuid):
        operation = guests.other(run.operation, "destination")
        await placement.release(server_id, operation=operation)
        await placement.move(migration_uuid, server_id, operation=run.operation)


async def _has_room(run: Run[Compute], server_id: str, migration_uuid: str) -> bool:
    """Return whether the migration holds anything; if it does not, see that it never will.

    The call that lets it hold something may still be on its way. It is refused once the server's
    claim is renewed, or has come before that.
    """
    placement = run.service.placement
    if (await placement.allocations(migration_uuid)).allocations:
        return True
    operation = guests.other(run.operation, "source")
    if await placement.renew(server_id, operation=operation):
        return False
    return bool((await placement.allocations(migration_uuid)).allocations)


async def release_source(notes: Move, run: Run[Compute]) -> None:
    """Hold no room in the migration's name."""
    await run.service.placement.release(notes.migration_uuid, operation=run.operation)


async def release_owed(notes: Move, run: Run[Compute]) -> None:
    """Hold no room in the migration's name, once another operation has ended the move.

    Until then that one has the room, and may give it back to the server: nobody else is to get it.
    """
    left = await run.service.store.read(lambda tx: migrations.left_over(tx, notes.server_id))
    if left is None or left.uuid != notes.migration_uuid:
        await release_source(notes, run)


async def claim_there(run: Run[Compute], server_id: str, name: str) -> NoCapacity | None:
    """Hold for a server what it has on that host; return why nothing is held, if so."""
    compute = run.service
    server = await compute.store.read(lambda tx: tx.get_one(Server, server_id))
    host = await compute.store.read(lambda tx: hosts.find(tx, name))
    if host is None:
        return None
    amounts = needs.resources_of(server, root_is_volume=not server.image_id)
    try:
        await compute.placement.claim(
            server_id,
            {host.provider_id: amounts},
            project_id=server.project_id,
            user_id=server.user_id,
            operation=run.operation,
        )
    except NoCapacity:
        return NoCapacity(
            f"The server is on host {name}, and placement has no room left to hold for it there. "
            "Make room there, then have it held: openstack resource provider allocation set. Or "
            "delete the server."
        )
    return None
