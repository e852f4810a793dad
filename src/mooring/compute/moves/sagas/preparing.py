"""What is done before a guest is sent: its turn is awaited, and the destination made ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.create import spawning
from mooring.compute.hosts import guests
from mooring.compute.moves import turns
from mooring.compute.moves.sagas.move_notes import LiveMigrate
from mooring.errors import Conflict, NotFound
from mooring.saga.define import Park, Run

if TYPE_CHECKING:
    from mooring.agent_api.client import AgentClient
    from mooring.compute.service import Compute

_TURN_S = 15.0
"""How often a move that waits looks by itself: one before it may go to a host that fell silent."""
_LONGEST_QUEUE_S = 7 * 86400.0
"""How long a move waits for those before it, each of which has its own time."""


async def await_turn(notes: LiveMigrate, run: Run[Compute]) -> None:
    """Rest until the guest may leave its host, where only so many may at a time."""
    compute, now = run.service, run.now()
    if not await compute.store.write(lambda tx: turns.take(tx, compute, notes.migration_id, now)):
        raise Park(
            signal=turns.signal_of(notes.migration_id), seconds=_TURN_S, timeout_s=_LONGEST_QUEUE_S
        )


async def prepare_destination(notes: LiveMigrate, run: Run[Compute]) -> None:
    """Ask the source what the guest needs, and the destination to expect it. Raises Conflict.

    Where its root disk goes along, an empty one is made there over the same image, or over none; so
    is a swap disk.
    """
    await _check_encryption(notes, run)
    portrait = await guests.ask(
        run, notes.source, lambda agent: agent.show_portrait(notes.server_id)
    )
    if notes.is_local:
        if portrait.root is None:
            raise _too_old(notes.source)
        if portrait.root.image_id:
            await _bring_image(notes, run, portrait.root.image_id)

    async def verb(agent: AgentClient) -> None:
        await agent.put_arrival(notes.server_id, portrait, operation=run.operation)
        if not (notes.is_local or portrait.swap):
            return
        made = await agent.show_arrival(notes.server_id)
        if (notes.is_local and not made.root) or (portrait.swap and not made.swap):
            raise _too_old(notes.destination)

    await guests.ask(run, notes.destination, verb)


async def _check_encryption(notes: LiveMigrate, run: Run[Compute]) -> None:
    """Raise Conflict, before anything is begun, unless both hosts encrypt guests, or neither."""
    source, destination = notes.source, notes.destination
    encrypts = await _encrypts(run, source)
    if encrypts != await _encrypts(run, destination):
        here, there = ("only over TLS", "in the clear")[:: 1 if encrypts else -1]
        raise Conflict(
            f"Host {source} sends running guests {here}, and host {destination} takes them "
            f"{there}. The server is where it was. Give both the same setting move_tls: only hosts "
            "that joined get certificates for TLS, and have it when it is left out (docs/hosts.md, "
            "Over TLS).",
            **{guests.BY_HOST: destination},
        )


async def _encrypts(run: Run[Compute], host: str) -> bool:
    async def verb(agent: AgentClient) -> bool:
        try:
            return (await agent.move_certificates()).is_wanted
        except NotFound:
            return False  # An agent of a release that knew no TLS.

    return await guests.ask(run, host, verb)


async def _bring_image(notes: LiveMigrate, run: Run[Compute], image_id: str) -> None:
    """See that the destination has the image below the disk. Raises Conflict: nobody has it."""
    try:
        await spawning.bring_image(run, notes.destination, image_id)
    except NotFound as error:
        raise Conflict(
            f"The root disk of server {notes.server_id} lies over image {image_id}, which was "
            f"deleted, and which host {notes.destination} has not. The server is where it was; "
            "migrate it while it is off: then the image is copied with the disk.",
            private=error.public,
            **{guests.BY_HOST: notes.destination},
        ) from error


def _too_old(host: str) -> Conflict:
    return Conflict(
        f"The agent of host {host} is of a release that copies no disks of running guests. The "
        "server is where it was; upgrade the agent, or migrate the server while it is off."
    )
