"""A server's shares while it moves: at the host to which it goes, and at the one that it leaves.

The source keeps its mounts and its access until the user's word (specs 003, lazy cleanup). What the
destination gets, it gets before the guest stops: what cannot be had there stops nobody. Statuses
stay as they are, and nobody is told.

A host, or a share service, that does not let go for long holds up no move: that goes on by itself
(`release_share`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from mooring.compute.moves.sagas.move_notes import ColdMove, given_shares, left_shares, shares_along
from mooring.compute.shares import doors, folders, leaving_places
from mooring.compute.shares.sagas import release_share
from mooring.errors import Conflict, MooringError
from mooring.fence.rules import is_fenced
from mooring.limits import COMPUTE_SHARE_PATIENCE_S
from mooring.saga.define import Each, Park, Run, Step
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.compute.shares.folders import Folder
    from mooring.saga.define import Together

T = TypeVar("T")


def find(notes: ColdMove, item: str, host: str) -> Folder:
    """Return the share that an item names, at a host."""
    found = next(folder for folder in notes.shares if folder.mapping_id == item)
    return replace(found, host=host)


def at(tx: Session, server_id: str, host: str) -> list[Folder]:
    """Return the shares that a server has at a host, as what is known of them there."""
    return [one for one in folders.everywhere(tx, server_id) if one.host == host]


def runs(notes: ColdMove) -> bool:
    """Whether the guest is on when it is not being moved: what is off has nothing mounted."""
    return (notes.reverted or notes.vm_state) == "active"


# -- the host to which it goes -----------------------------------------------------------------


def begin_sharing(tx: Session, notes: ColdMove, item: str, run: Run[Compute]) -> None:
    """See that the destination has no part of it any more. Raises Conflict while it has."""
    there = find(notes, item, notes.destination)
    if leaving_places.is_leaving(tx, run.service, there):
        raise Conflict(
            f"Host {there.host} still lets go of share {there.share_id}, which the server had "
            "there before. The server is where it was; wait until that has ended (mooring "
            "operations list), or choose another host."
        )


def hand_over_there(tx: Session, notes: ColdMove, item: str, run: Run[Compute]) -> None:
    """Let the rest of an undo go on by itself where the destination does not let go now."""
    if item in notes.owed:
        release_share.hand_over(tx, run, find(notes, item, notes.destination))


async def grant_there(notes: ColdMove, item: str, run: Run[Compute]) -> None:
    """Have the share service let the destination in."""
    await doors.grant(run, find(notes, item, notes.destination))


async def revoke_there(notes: ColdMove, item: str, run: Run[Compute]) -> ColdMove | None:
    """Take back what `grant_there` did, or may still do."""
    if item in notes.owed:
        return None
    there = find(notes, item, notes.destination)
    return await _insist(notes, item, run, doors.revoke(run, there, undoes=True))


async def mount_there(notes: ColdMove, item: str, run: Run[Compute]) -> Together | None:
    """Mount it where the guest is to run; one that is off gets its mounts when it is started."""
    if not runs(notes):
        return None
    return await folders.mount(run, find(notes, item, notes.destination))


async def unmount_there(notes: ColdMove, item: str, run: Run[Compute]) -> ColdMove | Together:
    """Have the destination unmount it, whether it has mounted it or not."""
    there = find(notes, item, notes.destination)
    return await _insist(notes, item, run, folders.unmount(run, there))


BOTH_SHARED = Each(
    "shared",
    given_shares,
    Step("begin_sharing", begin_sharing, undo=hand_over_there),
    Step("grant_there", grant_there, undo=revoke_there),
    Step("mount_there", mount_there, undo=unmount_there),
)
"""A server's shares at the destination, beside the host where it is."""


# -- back where it was -------------------------------------------------------------------------


async def grant_back(notes: ColdMove, item: str, run: Run[Compute]) -> None:
    """See that the host it goes back to is let in, as it was all the time."""
    await doors.grant(run, find(notes, item, notes.destination))


SHARED_AGAIN = Each(
    "shared_again",
    lambda notes: shares_along(notes) if runs(notes) else [],
    Step("grant_back", grant_back),
    Step("mount_back", mount_there),
)
"""The shares that the host to which a server goes back has kept: mounted still, unless its machine
was started anew since. Without an undo, as they were there before."""


# -- the host that it leaves -------------------------------------------------------------------


async def unmount_left(notes: ColdMove, item: str, run: Run[Compute]) -> ColdMove | Together:
    """Have the host that is left unmount it, unless another server there needs it."""
    return await _insist(notes, item, run, folders.unmount(run, find(notes, item, notes.left)))


async def revoke_left(notes: ColdMove, item: str, run: Run[Compute]) -> ColdMove | None:
    """Keep the host that is left out, unless another server there relies on its rule."""
    if item in notes.owed:
        return None
    return await _insist(notes, item, run, doors.revoke(run, find(notes, item, notes.left)))


def forget_left(tx: Session, notes: ColdMove, item: str, run: Run[Compute]) -> None:
    """Let the rest go on by itself where the host that is left does not let go now."""
    if item in notes.owed:
        release_share.hand_over(tx, run, find(notes, item, notes.left))


LEFT_SHARED = Each(
    "left_shared",
    left_shares,
    Step("unmount_left", unmount_left),
    Step("revoke_left", revoke_left),
    Step("forget_left_share", forget_left),
)
"""The shares at the host that is left, which has no guest of the server any more."""


def leave_others(tx: Session, run: Run[Compute], server_id: str, kept: str) -> None:
    """Let every host but the one that has the server let go of its shares, by itself.

    For who ends a move that does not go on. No other host has a guest of the server by then.
    """
    for folder in folders.everywhere(tx, server_id):
        if folder.host != kept:
            release_share.hand_over(tx, run, folder)


async def _insist(
    notes: ColdMove, item: str, run: Run[Compute], work: Awaitable[T]
) -> T | ColdMove:
    """Await part of letting go; what is refused, or takes long, is owed from then on.

    A refusal by the fence is none: somebody who came later has the thing in hand.
    """
    is_late = run.worked_s >= COMPUTE_SHARE_PATIENCE_S
    try:
        return await work
    except Park:
        if not is_late:
            raise
    except MooringError as error:
        if is_fenced(error) or (is_unavailable(error) and not is_late):
            raise
    return replace(notes, owed=[*notes.owed, item])
