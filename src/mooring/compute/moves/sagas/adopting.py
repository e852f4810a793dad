"""A server that an administrator's reset takes out of the middle of a move.

Its guest is wherever it is: both hosts are asked, as at the end of a move, and the server is said
to be there. The other host is left, as at the end of a move: of the guest and its volumes it keeps
nothing but what it, or the storage, refuses for good to let go: that stays on record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mooring.agent_api.servers import PowerRequest
from mooring.agent_api.verbs import DELETE_ARRIVAL, TAKE_BACK_RESTORED, WITHDRAW_OFFER
from mooring.compute.actions import faults
from mooring.compute.groups import affinity
from mooring.compute.hosts import guest_disks, guests, hosts
from mooring.compute.moves import migrations, turns
from mooring.compute.moves.sagas import claiming, finding, sharing
from mooring.compute.servers import states
from mooring.compute.tables import Server
from mooring.compute.volumes import devices, disk_places, disks
from mooring.compute.volumes.disks import Disk
from mooring.errors import MooringError, NoCapacity
from mooring.fence.rules import is_fenced
from mooring.saga.define import Together
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.client import AgentClient
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


class _Left(Struct, frozen=True):
    """A move that nobody ends any more; `host` is where its server says it is.

    is_local       whether its root disk lies on its host
    has_new_size   whether it has the size to which it was to be resized
    is_to_be_back  whether it was about to get its former size back on its host, and has not got it
    """

    id: int
    uuid: str
    source: str
    destination: str
    host: str
    is_live: bool
    status: str
    is_local: bool
    has_new_size: bool
    is_to_be_back: bool

    def is_where_it_was(self, host: str) -> bool:
        """Return whether the room that the move holds is the server's own, on that host."""
        return host == self.source and not (host == self.destination and self.has_new_size)


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
    full = await _hold_room(run, server_id, kept, left)
    others = await run.service.store.read(lambda tx: _find_others(tx, server_id, kept))
    freed = [other for other in others if await _free(run, other.disk)]

    def write(tx: Session) -> None:
        now, host = run.now(), hosts.find(tx, kept)
        for other in freed:
            disk_places.remove(tx, other.block_device_id, other.disk.host or "")
        sharing.leave_others(tx, run, server_id, kept)
        zone = {"zone": host.zone} if host else {}
        states.change(tx, server_id, now, host=kept, held_vcpus=0, held_memory_mib=0, **zone)
        ended = migrations.ended_without_word(left.status)
        migrations.change(tx, left.id, now, status=ended)
        turns.pass_on(tx, run.service, left.source)
        affinity.leave_place(tx, server_id)
        if full is not None:
            faults.record(tx, server_id, full, now)

    return Together(write)


def _find(tx: Session, server_id: str) -> _Left | None:
    row = migrations.left_over(tx, server_id)
    if row is None:
        return None
    server = tx.get_one(Server, server_id)
    is_new = server.flavor_id == row.new_flavor_id != row.old_flavor_id
    return _Left(
        id=row.id,
        uuid=row.uuid,
        source=row.source,
        destination=row.destination or "",
        host=server.host or "",
        is_live=row.type == migrations.LIVE,
        status=row.status,
        is_local=bool(server.image_id),
        has_new_size=is_new,
        is_to_be_back=row.status == "reverting" and is_new and row.source == row.destination,
    )


async def _find_live(run: Run[Compute], server_id: str, left: _Left) -> str:
    """Return the host that has a guest which was sent, and see that the other one has none."""
    both = (left.source, left.destination)
    found = await finding.find_guest(run, server_id, both, run.operation)
    if found.state == "paused":
        await finding.resume(run, found.host, server_id)
    if found.host == left.destination:
        await guests.destroy(run, left.source, server_id)
    else:
        await _turn_away(run, left.destination, server_id)
    return found.host


async def _keep(run: Run[Compute], server_id: str, left: _Left) -> str:
    """Return the host of a server that was off while it moved, and see that no other one has it.

    Its row tells: it says that the server is elsewhere once the guest has come there (`arrived`).
    What the move still asks of the host comes too late from now on.
    """
    for host in sorted({left.source, left.destination} - {left.host, ""}):
        await guest_disks.remove_all(run, host, server_id, is_local=left.is_local)
    if not await guests.is_lost(run, left.host):
        await guests.ask(
            run, left.host, lambda agent: agent.claim_server(server_id, operation=run.operation)
        )
    if left.is_local:
        await _leave_disk(run, server_id, left)
    return left.host


async def _leave_disk(run: Run[Compute], server_id: str, left: _Left) -> None:
    """Leave a host the one root disk that its server has, as large as the server is.

    Nobody copies it any more, and what was kept beside it is removed.
    """
    if left.is_to_be_back:

        async def take_back(agent: AgentClient) -> None:
            if await agent.show_server(server_id):
                # It may run from the disk that it is not to have.
                off = PowerRequest(state="off")
                await agent.set_power(server_id, off, operation=run.operation)
            await agent.take_back_restored(server_id, operation=run.operation)

        path = TAKE_BACK_RESTORED.target(server_id)
        await guests.take_back(run, left.host, path, take_back)

    async def withdraw(agent: AgentClient) -> None:
        await agent.withdraw_offer(server_id, operation=run.operation)

    await guests.take_back(run, left.host, WITHDRAW_OFFER.target(server_id), withdraw)
    await guest_disks.forget_kept(run, left.host, server_id)


def _find_others(tx: Session, server_id: str, kept: str) -> list[_Other]:
    """Return a server's volumes at every host but the one that has the guest."""
    return [
        _Other(row.id, replace(disks.disk_of(row, place.host), attachment_id=place.attachment_id))
        for row in disks.attached(devices.of_server(tx, server_id))
        for place in disk_places.of_device(tx, row.id)
        if place.host != kept
    ]


async def _free(run: Run[Compute], disk: Disk) -> bool:
    """Take a volume from a host that is left; return whether that lets it go. Raises Unavailable.

    One that stays goes when the volume is detached, or the server deleted.
    """
    try:
        await disks.leave(run, disk)
        await disks.end(run, disk)
    except MooringError as error:
        if is_unavailable(error) or is_fenced(error):
            raise
        return False
    return True


async def _turn_away(run: Run[Compute], host: str, server_id: str) -> None:
    async def verb(agent: AgentClient) -> None:
        await agent.delete_arrival(server_id, operation=run.operation)

    await guests.take_back(run, host, DELETE_ARRIVAL.target(server_id), verb)


async def _hold_room(
    run: Run[Compute], server_id: str, name: str, left: _Left
) -> NoCapacity | None:
    """Hold room for the server on the host that has it, and none in the name of the move.

    What the move holds there is taken over, and so is given to nobody else meanwhile. Returns what
    is to be told where the host has no room all the same: the guest is there, with or without it.
    """
    if left.is_where_it_was(name):
        await claiming.give_back(run, server_id, left.uuid)
    operation = guests.other(run.operation, "room")
    await run.service.placement.release(left.uuid, operation=operation)
    return await claiming.claim_there(run, server_id, name)
