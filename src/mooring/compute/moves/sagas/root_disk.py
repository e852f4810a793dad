"""A root disk that lies on its host, while its server moves or gets another size.

Until its user's word there are two of them: the one that the server had when its guest stopped,
which nobody writes to, and the one that the guest goes on with. A server that goes elsewhere leaves
the first one where it was, and has the second one copied (ADR 8). One that stays has the first one
kept beside the second: a copy, because that can be thrown away, or be given its name back, whatever
became of the other one. A layer would be faster to make, and would have to be merged into what it
lies on before it could be confirmed (ADR 9).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.agent_api.servers import PowerRequest, RootDisk
from mooring.agent_api.verbs import TAKE_BACK_RESTORED
from mooring.compute.hosts import guest_disks, guests
from mooring.errors import MooringError
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import Park
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from mooring.agent_api.client import AgentClient
    from mooring.compute.moves.sagas.move_notes import ColdMove
    from mooring.compute.service import Compute
    from mooring.saga.define import Run

_BRING = "bring_disk"
_LONGEST_S = 7 * 86400.0
"""For how long a copy may go on that gets on."""


async def bring(notes: ColdMove, run: Run[Compute]) -> ColdMove | None:
    """Copy the disk to the destination, or keep it as it is beside the one that is to grow.

    A refusal is why the server stays where it was, and so is a copy that does not get on. Behind
    the pivot there is no undo: `settle_guest` removes what has come.
    """
    if notes.reason or not (notes.goes_with_disk or notes.exchanges_disk):
        return None
    for host in (notes.source, notes.destination):
        if await guests.is_lost(run, host):
            return replace(notes, reason=_lost(notes, host))
    try:
        if notes.exchanges_disk:
            await _keep(notes, run)
        else:
            await _copy(notes, run)
    except MooringError as error:
        if is_unavailable(error):
            await _see_progress(notes, run)
            if run.attempt < COMPUTE_UNDO_ATTEMPTS:
                raise
        return replace(notes, reason=error.public)
    return replace(notes, brought=True)


async def bring_back(notes: ColdMove, run: Run[Compute]) -> ColdMove | None:
    """Give a server that goes back to its former size its former disk; elsewhere it is there."""
    if notes.reason or not notes.exchanges_disk:
        return None
    if await guests.is_lost(run, notes.source):
        return replace(notes, reason=_lost(notes, notes.source))

    async def verb(agent: AgentClient) -> None:
        await agent.restore_kept(notes.server_id, operation=run.operation)

    try:
        await guests.ask(run, notes.source, verb)
    except MooringError as error:
        if is_unavailable(error):
            raise
        return replace(notes, reason=error.public)
    return replace(notes, brought=True)


async def switch_off(notes: ColdMove, run: Run[Compute]) -> None:
    """See that the guest does not run from the disk that its server is not to have."""

    async def verb(agent: AgentClient) -> None:
        if await agent.show_server(notes.server_id):
            off = PowerRequest(state="off")
            operation = guests.other(run.operation, "off")
            await agent.set_power(notes.server_id, off, operation=operation)

    if not await guests.is_lost(run, notes.source):
        await guests.ask(run, notes.source, verb)


async def take_back(notes: ColdMove, run: Run[Compute]) -> None:
    """Give a server that stays the disk that it had before this move, and let nothing come late.

    One that was to go back keeps the former disk, and may be asked to go back once more.
    """
    bringing = run.operation.of_step(_BRING)
    if notes.reverted:

        async def take(agent: AgentClient) -> None:
            await agent.take_back_restored(notes.server_id, operation=bringing)

        path = TAKE_BACK_RESTORED.target(notes.server_id)
        await guests.take_back(run, notes.source, path, take)
        return

    async def restore(agent: AgentClient) -> None:
        await agent.restore_kept(notes.server_id, operation=run.operation)

    if not await guests.is_lost(run, notes.source):
        await guests.ask(run, notes.source, restore)
    await guest_disks.forget_kept(run, notes.source, notes.server_id, bringing)


async def forget(notes: ColdMove, run: Run[Compute]) -> None:
    """Remove the disk to which a server might have gone back."""
    if notes.goes_with_disk:
        await guests.destroy(run, notes.source, notes.server_id)
    elif notes.is_local:
        await guest_disks.forget_kept(run, notes.source, notes.server_id)


async def drop_copy(notes: ColdMove, run: Run[Compute]) -> None:
    """Remove what has come to the destination, and see that nothing comes late."""
    bringing = run.operation.of_step(_BRING)
    await guest_disks.discard_copy(run, notes.destination, notes.server_id, bringing)


def specify(notes: ColdMove, host: str, image_id: str) -> RootDisk:
    """Return the disk that is on a host already; at its destination it is as large as its flavor.

    One that was there before is left as it was.
    """
    grows = host == notes.destination and not notes.reverted and not notes.reason
    grown = notes.size.disk_gib if grows and notes.size.disk_gib != notes.former.disk_gib else 0
    return RootDisk(image_id=image_id, size_gib=grown, copied=True)


async def _copy(notes: ColdMove, run: Run[Compute]) -> None:
    """Have the destination fetch what the source offers. It goes on where it stopped.

    The key of the offer is good for this copy, and is written down nowhere.
    """

    async def fetch(agent: AgentClient) -> None:
        await agent.put_copy(notes.server_id, offer, operation=run.operation)

    offer = await guests.ask(
        run,
        notes.source,
        lambda agent: agent.put_offer(notes.server_id, operation=run.operation),
    )
    await guests.ask(run, notes.destination, fetch)


async def _keep(notes: ColdMove, run: Run[Compute]) -> None:
    async def keep(agent: AgentClient) -> None:
        await agent.keep_disks(notes.server_id, operation=run.operation)

    await guests.ask(run, notes.source, keep)


async def _see_progress(notes: ColdMove, run: Run[Compute]) -> None:
    """Raise Park when more has come than when this was last looked at: that is no vain try."""
    if not notes.goes_with_disk:
        return
    try:
        seen = await guests.ask(
            run, notes.destination, lambda agent: agent.show_copy(notes.server_id)
        )
    except MooringError:
        # It tells nothing, or has begun nothing; why the copy failed is about to be told.
        return
    if seen.copied_bytes > notes.copied:
        going_on = replace(notes, copied=seen.copied_bytes)
        raise Park(seconds=1.0, timeout_s=_LONGEST_S, notes=going_on)


def _lost(notes: ColdMove, host: str) -> str:
    return f"Host {host} was forced down. Server {notes.server_id} stays where it was."
