"""Set a server's state by hand, ending whatever holds it (os-resetState)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mooring.compute.actions import actions, faults
from mooring.compute.actions.story import Told, tell
from mooring.compute.hosts import guests
from mooring.compute.moves.sagas import adopting, arrived
from mooring.compute.power.sagas import actual
from mooring.compute.servers import states
from mooring.compute.shares import folders
from mooring.compute.shares.folders import Folder
from mooring.compute.shares.sagas import release_share, settling
from mooring.compute.shelve.sagas import shelved_image
from mooring.compute.tables import Server
from mooring.compute.volumes import keeping
from mooring.compute.volumes.sagas.release_device import release_left
from mooring.errors import Conflict
from mooring.saga.define import Each, Run, Saga, Step, Together, exclusive

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


_LETS_GO = frozenset({"deleting", "shelving_offloading"})
"""The task_states of what gives back the room of a server before it is gone from its host."""


class ResetState(Struct, frozen=True, kw_only=True):
    """The notes: `vm_state` is active or error."""

    server_id: str
    action_id: int
    vm_state: str
    deleting: str | None = None
    """The host that may still end the guest for a deletion that was given up."""
    task: str = ""
    """The task_state that it took from the server: what was under way may leave it no guest."""
    shares: list[Folder] = []
    """Shares whose attaching or detaching it ended, at each host that may be let in."""


def set_state(tx: Session, notes: ResetState, run: Run[Compute]) -> ResetState | None:
    """Set vm_state, and task_state to nothing, and free what was half given or half taken.

    A server whose creation never ended keeps no volume, and is not active. One whose creation was
    refused meanwhile is gone. One that was put away, and is at no host, is put away still when it
    is to be active: so it can be brought back.
    """
    now, server = run.now(), tx.get(Server, notes.server_id)
    if server is None:
        return None
    task = server.task_state or ""
    deleting = server.host if task == "deleting" else None
    release_left(tx, run, notes.server_id, everything=server.launched_at is None)
    actions.fail_left(tx, notes.server_id, now)
    vm_state = notes.vm_state
    if vm_state == "active" and server.launched_at is None:
        vm_state = "error"
        if server.vm_state != vm_state:  # what failed in its creation is told already
            why = "Its creation never ended, so it cannot be active. Delete it, and create another."
            faults.record(tx, notes.server_id, Conflict(why), now)
    elif vm_state == "active" and server.host is None:
        vm_state = states.OFFLOADED
    values = {"vm_state": vm_state, "task_state": None, "state_before_error": None}
    states.change(tx, notes.server_id, now, **values)
    shares = settling.break_off(tx, run, notes.server_id)
    return replace(notes, deleting=deleting, task=task, shares=shares)


async def claim_guest(notes: ResetState, run: Run[Compute]) -> Together | None:
    """See that no call of a deletion that was given up ends the guest later, or that one has.

    A host that is lost is asked for nothing: it ends foreign guests before it may be up again.
    """
    host = notes.deleting
    if host is None or await guests.is_lost(run, host):
        return None
    if await guests.claim(run, host, notes.server_id) is not None:
        return None
    server = await run.service.store.read(lambda tx: tx.get(Server, notes.server_id))
    image_id = server.shelved_image_id if server else ""
    has_image = bool(image_id) and await shelved_image.is_whole(run, image_id)
    return Together(lambda tx: _mourn(tx, notes, run, has_image=has_image))


def leave_open(tx: Session, notes: ResetState, run: Run[Compute]) -> None:
    """Leave what this reset had in hand to the operation that took its place.

    That one has to know that a deletion, or what else was under way, may have ended the guest, and
    may still: whether this reset had asked the host already makes no difference, as asking it again
    does no harm. What it broke off with shares nobody else would find.
    """
    for folder in notes.shares:
        release_share.hand_over(tx, run, folder)
    task = notes.task or ("deleting" if notes.deleting else "")
    if task:
        states.move(tx, notes.server_id, task, run.now())


def _mourn(tx: Session, notes: ResetState, run: Run[Compute], *, has_image: bool) -> None:
    """Say that a server has no guest any more, whatever state was asked for."""
    settling.leave(tx, run, notes.server_id, notes.shares)
    server = tx.get(Server, notes.server_id)
    if notes.vm_state != "active" or server is None:
        return
    why = "The deletion that this reset gave up had already ended the guest"
    if has_image:
        why += ". Delete the server, or reboot it hard: an image has its disk, which is made anew."
    elif server.image_id:
        why += ", with the disk on its host. Delete the server, or rebuild it from an image."
    else:
        why += ". Delete the server, and boot another one from its volume."
    _break_down(tx, notes, run, why)


def _break_down(tx: Session, notes: ResetState, run: Run[Compute], why: str) -> None:
    if states.break_down(tx, notes.server_id, run.now()):
        faults.record(tx, notes.server_id, Conflict(why), run.now())


async def place_guest(notes: ResetState, run: Run[Compute]) -> Together | None:
    """Say that the server is at the host to which a cold move has brought its guest, if it has.

    Nobody else would say so, and its data there would go with the guest: no operator lets go of it.
    """
    return await arrived.place(run, notes.server_id)


async def adopt_guest(notes: ResetState, run: Run[Compute]) -> Together | None:
    """Say where the guest is, which may have been under way from one host to another.

    Nobody else would end its move, so that no operator lets go of this: a host that is gone for
    good is forced down.
    """
    return await adopting.adopt(run, notes.server_id)


async def settle_image(notes: ResetState, run: Run[Compute]) -> Together | None:
    """Delete the image of a server that was put away, if it has its disk."""
    return await shelved_image.settle(run, notes.server_id)


async def settle_volumes(notes: ResetState, run: Run[Compute]) -> Together | None:
    """Settle the attachments of the volumes that stay, which a rebuild may have had in hand."""
    return await keeping.settle(run, notes.server_id)


async def look_for_guest(notes: ResetState, run: Run[Compute]) -> Together | None:
    """Say that a server has no guest where what was under way left it none, wherever it is now.

    Of one that nothing was under way with, the administrator's word is taken.
    """
    host = await actual.find_missing(run, notes.server_id) if notes.task else ""
    if not host:
        return None
    why = (
        f"The server was to be active, and host {host} has no guest of it. Reboot it hard "
        "(openstack server reboot --hard); where that finds no disk, rebuild it."
    )
    return Together(lambda tx: _break_down(tx, notes, run, why))


async def settle_room(notes: ResetState, run: Run[Compute]) -> Together | None:
    """Hold no room for a server at no host, and hold it for one that is at a host.

    Only what was under way may have let go of that, as the last of what it had of the host.
    """
    full = await actual.hold_again(run, notes.server_id) if notes.task in _LETS_GO else None
    if full is None:
        return await actual.give_back(run, notes.server_id)

    def tell_so(tx: Session) -> None:
        faults.record(tx, notes.server_id, full, run.now())

    return Together(tell_so)


async def unmount_share(notes: ResetState, item: str, run: Run[Compute]) -> Together | None:
    """Unmount a share that was half given or half taken."""
    return await settling.unmount(run, folders.pick(notes.shares, item))


async def revoke_access(notes: ResetState, item: str, run: Run[Compute]) -> None:
    """Keep its host out."""
    await settling.revoke(run, folders.pick(notes.shares, item))


RESET_STATE = Saga(
    "compute.reset_state",
    ResetState,
    Step("set_state", set_state),
    Step("claim_guest", claim_guest, may_be_forgone=True),
    Step("place_guest", place_guest),
    Step("adopt_guest", adopt_guest),
    Step("settle_image", settle_image, may_be_forgone=True),
    Step("settle_volumes", settle_volumes, may_be_forgone=True),
    Step("look_for_guest", look_for_guest, may_be_forgone=True),
    Step("settle_room", settle_room, may_be_forgone=True),
    Each(
        "shares",
        lambda notes: folders.named(notes.shares),
        Step("unmount_share", unmount_share, may_be_forgone=True),
        Step("revoke_access", revoke_access, may_be_forgone=True),
    ),
    locks=lambda notes: [exclusive(f"server:{notes.server_id}")],
    mode="preempt",
    answered_after="set_state",
    visible_after="set_state",
    pivot="set_state",
    story=tell(lambda _: Told(), leave=leave_open),
)
