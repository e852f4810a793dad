"""How a guest is ended at one host and begun at another, or on its own host with another size.

It is off in between, so there are never two. From the moment it is to stop there is only forward:
what does not start at the destination is started again where it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.agent_api.servers import PowerRequest
from mooring.compute.create import spawning
from mooring.compute.drives import config_drives
from mooring.compute.hosts import guests
from mooring.compute.moves import migrations
from mooring.compute.moves.sagas import root_disk
from mooring.compute.moves.sagas.move_notes import ColdMove, items, there
from mooring.compute.scheduling.needs import PAGE_SIZE
from mooring.compute.servers import states
from mooring.compute.shares import folders
from mooring.compute.tables import Server
from mooring.compute.volumes import disks
from mooring.errors import Conflict, MooringError, NotFound
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import Run
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.client import AgentClient
    from mooring.agent_api.disks import DiskSpec
    from mooring.compute.flavors.sizes import Size
    from mooring.compute.service import Compute

_START = "start_there"


def begin_switch(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    """Say that the guest is about to stop."""
    if not notes.reverted:
        states.move(tx, notes.server_id, "resize_migrating", run.now())
        migrations.change(tx, notes.migration_id, run.now(), status="migrating")


async def stop_guest(notes: ColdMove, run: Run[Compute]) -> ColdMove | None:
    """Shut the guest down where it is; one that is gone is off."""
    if await guests.is_lost(run, notes.source) and not notes.reverted:
        return replace(notes, reason=_lost(notes, notes.source))
    timeout_s = run.service.settings.shutdown_timeout_s
    request = PowerRequest(state="off", mode="soft", timeout_s=timeout_s)

    async def verb(agent: AgentClient) -> None:
        await agent.set_power(notes.server_id, request, operation=run.operation)

    try:
        if not await guests.is_lost(run, notes.source):
            await guests.ask(run, notes.source, verb)
    except NotFound:
        return None
    except MooringError as error:
        if is_unavailable(error):
            raise
        return replace(notes, reason=error.public)
    return None


def begin_start(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    """Say that the guest is off, and about to start."""
    if not notes.reverted:
        states.move(tx, notes.server_id, "resize_finish", run.now())


async def start_there(notes: ColdMove, run: Run[Compute]) -> ColdMove | None:
    """Define the guest at the destination, with its new size, and start it if it ran.

    A refusal is why it stays where it was. So is a volume whose image another emulator keeps for
    three minutes, where the host that is left was forced down: its guest may be alive there.
    """
    if notes.reason:
        return None
    if await guests.is_lost(run, notes.destination):
        return replace(notes, reason=_lost(notes, notes.destination))
    try:
        await _put(notes, run, notes.destination, notes.size)
    except MooringError as error:
        if is_unavailable(error) and not await _is_kept_open(notes, run, error):
            raise
        return replace(notes, reason=error.public)
    return None


async def _is_kept_open(notes: ColdMove, run: Run[Compute], error: MooringError) -> bool:
    """Whether a host that was forced down keeps an image for long: nobody can make it let go."""
    if not isinstance(error, Conflict) or run.attempt < COMPUTE_UNDO_ATTEMPTS:
        return False
    return not notes.stays and await guests.is_lost(run, notes.source)


async def settle_guest(notes: ColdMove, run: Run[Compute]) -> ColdMove:
    """Say where the guest is. One that did not start there is started where it was.

    Nothing of it may be at the destination by then, and nothing may come late.
    """
    if not notes.reason:
        return replace(notes, kept=notes.destination)
    if not notes.stays:
        await end_there(notes, run)
    if await guests.is_lost(run, notes.source):
        # A server that goes back may try that again: it was to leave this host anyway.
        return replace(notes, kept=notes.source, lost=_runs(notes) and not notes.reverted)
    if notes.exchanges_disk:
        await _take_disk_back(notes, run)
    await _put(notes, run, notes.source, notes.former)
    return replace(notes, kept=notes.source)


async def end_there(notes: ColdMove, run: Run[Compute]) -> None:
    """Remove what the destination has of the guest, and see that it does not start late.

    One that was to go back may be asked to once more: its own disk stays.
    """
    if notes.goes_with_disk and not notes.reverted:
        await root_disk.drop_copy(notes, run)
    starting = run.operation.of_step(_START)
    keeps_disks = notes.goes_with_disk and bool(notes.reverted)
    await guests.destroy(run, notes.destination, notes.server_id, starting, keeps_disks=keeps_disks)


async def _take_disk_back(notes: ColdMove, run: Run[Compute]) -> None:
    """Give the server the disk that it had, once no call can start it with the other one."""
    if notes.brought:
        starting = run.operation.of_step(_START)
        await guests.destroy(run, notes.source, notes.server_id, starting, keeps_disks=True)
    await root_disk.take_back(notes, run)


async def _put(notes: ColdMove, run: Run[Compute], host: str, size: Size) -> None:
    server = await run.service.store.read(lambda tx: tx.get_one(Server, notes.server_id))
    given = await _specify(notes, run, host)
    drive = await config_drives.read(run, notes.server_id, host)
    power = "on" if _runs(notes) else "off"
    spec = spawning.specify_guest(server, "", given, drive=drive, power=power)
    shares = await run.service.store.read(lambda tx: folders.specify(tx, notes.server_id, host))
    sized = replace(
        spec,
        root=root_disk.specify(notes, host, server.image_id) if server.image_id else None,
        vcpus=size.vcpus,
        memory_mib=size.memory_mib,
        metadata={**spec.metadata, "flavor": size.flavor_name},
        shares=shares,
        mem_page_size=size.extra_specs.get(PAGE_SIZE, ""),
        swap_mib=size.swap_mib,
    )
    await guests.put(run, host, notes.server_id, sized)


async def _specify(notes: ColdMove, run: Run[Compute], host: str) -> list[DiskSpec]:
    """Return the server's volumes at a host, with connection data that is fresh."""
    if notes.stays or host == notes.source:
        return await disks.specify_all(run, host, notes.server_id)
    return [await disks.specify(run, there(notes, item)) for item in items(notes)]


def _runs(notes: ColdMove) -> bool:
    return (notes.reverted or notes.vm_state) == "active"


def _lost(notes: ColdMove, host: str) -> str:
    said = f"Host {host} was forced down. Server {notes.server_id} stays where it was."
    return said if host != notes.source else f"{said} Reboot it hard once the host is back."
