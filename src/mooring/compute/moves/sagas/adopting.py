"""A server that an administrator's reset takes out of the middle of a move.

Its guest is wherever it is: both hosts are asked, as at the end of a move, and the server is said
to be there. The other host is left, as at the end of a move: of the guest and its volumes it keeps
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mooring.agent_api.verbs import DELETE_ARRIVAL
from mooring.compute.groups import affinity
from mooring.compute.hosts import guests, hosts
from mooring.compute.moves import migrations, turns
from mooring.compute.moves.sagas import leaving
from mooring.compute.scheduling.needs import resources_of
from mooring.compute.servers import states
from mooring.compute.tables import Server
from mooring.compute.volumes import devices, disk_places, disks
from mooring.compute.volumes.disks import Disk
from mooring.saga.define import Together

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.client import AgentClient
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


class _Left(Struct, frozen=True):
    """A move that nobody ends any more; `host` is where its server says it is."""

    id: int
    uuid: str
    source: str
    destination: str
    host: str
    is_live: bool
    status: str


class _Other(Struct, frozen=True):
    """A volume at a host that is left."""

    block_device_id: str
    disk: Disk


async def adopt(run: Run[Compute], server_id: str) -> Together | None:
    """See where a guest is that was under way, and say so; nothing for one that was not.

    Raises Unavailable while a host does not tell.
    """
    left = await run.service.store.read(lambda tx: _find(tx, server_id))
    if left is None:
        return None
    kept = await (_find_live(run, server_id, left) if left.is_live else _keep(run, server_id, left))
    await _claim(run, server_id, kept)
    others = await run.service.store.read(lambda tx: _find_others(tx, server_id, kept))
    for other in others:
        await disks.leave(run, other.disk)
        await disks.end(run, other.disk)

    def write(tx: Session) -> None:
        now, host = run.now(), hosts.find(tx, kept)
        for other in others:
            disk_places.remove(tx, other.block_device_id, other.disk.host or "")
        zone = {"zone": host.zone} if host else {}
        states.change(tx, server_id, now, host=kept, held_vcpus=0, held_memory_mib=0, **zone)
        ended = migrations.ended_without_word(left.status)
        migrations.change(tx, left.id, now, status=ended)
        turns.pass_on(tx, run.service, left.source)
        affinity.leave_place(tx, server_id)

    return Together(write)


def _find(tx: Session, server_id: str) -> _Left | None:
    row, host = migrations.left_over(tx, server_id), states.host_of(tx, server_id) or ""
    if row is None:
        return None
    is_live = row.type == migrations.LIVE
    hosts = row.source, row.destination or ""
    return _Left(row.id, row.uuid, *hosts, host, is_live, row.status)


async def _find_live(run: Run[Compute], server_id: str, left: _Left) -> str:
    """Return the host that has a guest which was sent, and see that the other one has none."""
    both = (left.source, left.destination)
    found = await leaving.find_guest(run, server_id, both, run.operation)
    if found.state == "paused":
        await leaving.resume(run, found.host, server_id)
    if found.host == left.destination:
        await guests.destroy(run, left.source, server_id)
    else:
        await _turn_away(run, left.destination, server_id)
    return found.host


async def _keep(run: Run[Compute], server_id: str, left: _Left) -> str:
    """Return the host of a server that was off while it moved, and see that no other one has it.

    Its row tells: it says that the server is elsewhere once the guest has started there. What the
    move still asks of the host comes too late from now on.
    """
    operation = guests.other(run.operation, "room")
    await run.service.placement.release(left.uuid, operation=operation)
    for host in sorted({left.source, left.destination} - {left.host, ""}):
        await guests.destroy(run, host, server_id)
    if not await guests.is_lost(run, left.host):
        await guests.ask(
            run, left.host, lambda agent: agent.claim_server(server_id, operation=run.operation)
        )
    return left.host


def _find_others(tx: Session, server_id: str, kept: str) -> list[_Other]:
    """Return a server's volumes at every host but the one that has the guest."""
    return [
        _Other(row.id, replace(disks.disk_of(row, place.host), attachment_id=place.attachment_id))
        for row in disks.attached(devices.of_server(tx, server_id))
        for place in disk_places.of_device(tx, row.id)
        if place.host != kept
    ]


async def _turn_away(run: Run[Compute], host: str, server_id: str) -> None:
    async def verb(agent: AgentClient) -> None:
        await agent.delete_arrival(server_id, operation=run.operation)

    await guests.take_back(run, host, DELETE_ARRIVAL.target(server_id), verb)


async def _claim(run: Run[Compute], server_id: str, name: str) -> None:
    """Hold room for the server on the host that has it, whatever was held for the move."""
    compute = run.service
    server = await compute.store.read(lambda tx: tx.get_one(Server, server_id))
    host = await compute.store.read(lambda tx: hosts.find(tx, name))
    if host is None:
        return
    amounts = resources_of(server, root_is_volume=not server.image_id)
    await compute.placement.claim(
        server_id,
        {host.provider_id: amounts},
        project_id=server.project_id,
        user_id=server.user_id,
        operation=run.operation,
    )
