"""Guests' own disks that go from host to host. Every verb may be repeated.

Here hosts do call each other: the one that is to have the disks calls the one that has them, by the
control plane's order, with a key that is good for these disks and this operation.
"""

from __future__ import annotations

from pathlib import Path

from mooring.agent import blocks, files
from mooring.agent.copies import Copies, check_room
from mooring.agent.door import Door
from mooring.agent.host import Agent
from mooring.agent.hypervisor import Hypervisor
from mooring.agent.images import ImageCache
from mooring.agent.local_disks import LocalDisk, check_off
from mooring.agent.offers import Offers
from mooring.agent.serving import Call, Handlers
from mooring.agent.settings import AgentSettings
from mooring.agent_api import verbs
from mooring.agent_api.copies import CopyProgress, Offer
from mooring.errors import Conflict, NotFound
from mooring.fence.journal import Answer
from mooring.fence.threads import run_to_end
from mooring.probe import Probe

handlers = Handlers[Agent]()
KEPT, ASIDE = ".kept", ".aside"


class Copying:
    """What a host needs to give and to take disks."""

    def __init__(self, settings: AgentSettings, hypervisor: Hypervisor, images: ImageCache) -> None:
        self.offers = Offers()
        self.door = Door(settings, self.offers)
        self.copies = Copies(hypervisor.guest_directory, images)

    def watch(self, probe: Probe) -> None:
        """Pass the points of a probe in the middle of copies."""
        self.door.probe = self.copies.probe = probe

    async def withdraw(self, server_id: str) -> None:
        """Offer a guest's disks no more."""
        self.offers.withdraw(server_id)
        if not self.offers:
            await self.door.close()


@handlers.of(verbs.PUT_OFFER)
async def put_offer(call: Call[Agent]) -> Answer:
    """Offer the disks of a guest that is off."""
    agent, copying = call.agent, call.agent.copying
    server_id = call.path["server_id"]
    standing = await copying.offers.make(agent.hypervisor, server_id, call.operation_key)
    shown = await copying.door.open(agent.credentials)
    offer = Offer(
        address=shown.address,
        identity=shown.identity,
        authority=shown.authority,
        key=standing.make_key(),
        disks=standing.disks,
    )
    # The journal keeps no key: asked again, this gives another one.
    return Answer(body=offer, secret=True)


@handlers.of(verbs.WITHDRAW_OFFER)
async def withdraw_offer(call: Call[Agent]) -> Answer:
    """Offer the disks no more."""
    await call.agent.copying.withdraw(call.path["server_id"])
    return Answer(status=204)


@handlers.of(verbs.PUT_COPY)
async def put_copy(call: Call[Agent]) -> Answer:
    """Fetch what another host offers, and give it the names that a guest will know it by."""
    agent, server_id, offer = call.agent, call.path["server_id"], call.body
    hypervisor, copies = agent.hypervisor, agent.copying.copies
    if await hypervisor.guest(server_id) is not None:
        raise Conflict(f"Host {agent.settings.name} has a guest {server_id} already.")
    names = [disk.name for disk in offer.disks]
    if names and tuple(names) not in hypervisor.local_kinds:
        raise Conflict(
            f"Host {agent.settings.name} has another kind of disks for its guests than the host "
            f"that offers them. Choose a host with the same hypervisor."
        )
    brought = await copies.bring(server_id, offer)
    agent.probe.at("agent/put_copy/brought")
    if brought:
        await hypervisor.take_in(server_id, [copies.coming(server_id, one) for one in brought])
        agent.probe.at("agent/put_copy/taken")
    copies.note_taken(server_id)
    return Answer(body=_show(call))


@handlers.of(verbs.SHOW_COPY)
async def show_copy(call: Call[Agent]) -> Answer:
    """Answer how much has come."""
    return Answer(body=_show(call))


@handlers.of(verbs.DISCARD_COPY)
async def discard_copy(call: Call[Agent]) -> Answer:
    """Remove what has come, unless a guest has it. What fetched it has ended before."""
    agent, server_id = call.agent, call.path["server_id"]
    agent.copying.copies.forget(server_id)
    if await agent.hypervisor.guest(server_id) is None:
        await agent.hypervisor.remove(server_id)
    return Answer(status=204)


@handlers.of(verbs.KEEP_DISKS)
async def keep_disks(call: Call[Agent]) -> Answer:
    """Copy what the guest writes to, beside it."""
    for disk in await _written(call):
        kept = _beside(disk.path, KEPT)
        if await run_to_end(kept.exists):
            continue
        check_room(kept.parent, call.path["server_id"], disk.path.stat().st_blocks * 512)
        written = files.partial(kept, call.operation_key)
        try:
            with files.full_disk_told(kept):
                await blocks.copy(disk.path, written)
            await run_to_end(lambda one=written, to=kept: files.finish(one, to))
        finally:
            written.unlink(missing_ok=True)
    return Answer(status=204)


@handlers.of(verbs.FORGET_KEPT)
async def forget_kept(call: Call[Agent]) -> Answer:
    """Remove what was kept and what was put aside, also of a guest that is gone."""
    for own in _own_paths(call):
        if await run_to_end(own.exists):
            for other in (_beside(own, KEPT), _beside(own, ASIDE)):
                await run_to_end(lambda one=other: one.unlink(missing_ok=True))
    return Answer(status=204)


@handlers.of(verbs.RESTORE_KEPT)
async def restore_kept(call: Call[Agent]) -> Answer:
    """Give back what was kept, and put aside what is in its place."""
    await _exchange(call, KEPT, ASIDE)
    return Answer(status=204)


@handlers.of(verbs.TAKE_BACK_RESTORED)
async def take_back_restored(call: Call[Agent]) -> Answer:
    """Give back what was put aside, and keep what is in its place as before."""
    await _exchange(call, ASIDE, KEPT)
    return Answer(status=204)


async def _exchange(call: Call[Agent], wanted: str, other: str) -> None:
    """Give disks' names to the files beside them that are wanted, if there are any.

    Raises Conflict while a guest may write to them.
    """
    server_id = call.path["server_id"]
    found = [own for own in _own_paths(call) if await run_to_end(_beside(own, wanted).exists)]
    if not found:
        return
    await call.agent.copying.withdraw(server_id)
    if (guest := await call.agent.hypervisor.guest(server_id)) is not None:
        check_off(server_id, guest.state)
    for own in found:
        await run_to_end(lambda one=own: _swap(one, wanted, other))


def _own_paths(call: Call[Agent]) -> list[Path]:
    """Return where the disks of a guest are, whether it is defined or not."""
    hypervisor = call.agent.hypervisor
    own = hypervisor.guest_directory / call.path["server_id"]
    names = {name: None for kind in hypervisor.local_kinds for name in kind}
    return [own / name for name in names]


def _beside(own: Path, suffix: str) -> Path:
    return own.with_name(own.name + suffix)


def _swap(own: Path, wanted: str, other: str) -> None:
    """Give a disk's name to the file beside it that is wanted; what had it is the other one now.

    It may be repeated: a process that died in between left no file of that name.
    """
    if own.exists():
        files.finish(own, _beside(own, other))
    files.finish(_beside(own, wanted), own)


async def _written(call: Call[Agent]) -> list[LocalDisk]:
    """Return the disks that a guest which is off writes to when it is on."""
    found = await call.agent.hypervisor.local_disks(call.path["server_id"])
    return [disk for disk in found if disk.is_written]


def _show(call: Call[Agent]) -> CopyProgress:
    server_id = call.path["server_id"]
    if (progress := call.agent.copying.copies.progress(server_id)) is None:
        raise NotFound(f"Host {call.agent.settings.name} copies no disks of server {server_id}.")
    return progress
