"""Go on taking a share from a host that a server has left (specs 003).

An operation that ends without having done that hands it over: the share service, or the host, did
not let go at the time. The server is not held up, and does not come back to that host before this
has ended (`is_leaving`). Nothing ends this but success, or that somebody else has the share in hand
there: a detach, the deletion of the server, or a start where it did not move, as after a reset of
its state, which waits where its rule is being denied. `mooring operations retry` makes it try at
once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.compute.shares import doors, folders, share_places
from mooring.compute.shares.folders import Folder
from mooring.compute.shares.leaving_places import is_leaving, release_of
from mooring.compute.shares.share_places import LEAVING, LEFT, REVOKING
from mooring.saga.define import Saga, Step, exclusive

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.saga.define import Run


class ReleaseShare(Struct, frozen=True, kw_only=True):
    """The notes: the share at the host that is to let go of it."""

    folder: Folder


def hand_over(tx: Session, run: Run[Compute], folder: Folder) -> None:
    """Let this go on by itself: the host is to let go of the share. Nothing where it has.

    To be called when no guest of the server runs there any more, and none will.
    """
    compute = run.service
    place = share_places.find(tx, folder.mapping_id, folder.host)
    if place is None or is_leaving(tx, compute, folder):
        return
    if place.state != REVOKING:
        # The host may be silent for long: until its rule is to go, other servers may rely on it.
        share_places.change(tx, folder.mapping_id, folder.host, run.now(), state=LEAVING)
    compute.sagas.start(tx, RELEASE_SHARE, ReleaseShare(folder=folder))


async def unmount_left(notes: ReleaseShare, run: Run[Compute]) -> None:
    """Have the host unmount it, unless somebody else has it in hand.

    Nothing is noted of that: whoever has let the server have it there since may have had it mounted
    by now, and the host refuses what comes later than such a mount.
    """
    if await _is_left(notes, run):
        await folders.unmount(run, notes.folder)


async def revoke_left(notes: ReleaseShare, run: Run[Compute]) -> None:
    """Have the share service keep the host out, unless another server there relies on the rule."""
    if await _is_left(notes, run):
        await doors.revoke(run, notes.folder, is_left=True)


def forget_left(tx: Session, notes: ReleaseShare, run: Run[Compute]) -> None:
    """Forget the host, also where an administrator's abort let go of it."""
    del run
    if _find_left(tx, notes):
        share_places.remove(tx, notes.folder.mapping_id, notes.folder.host)


async def _is_left(notes: ReleaseShare, run: Run[Compute]) -> bool:
    return await run.service.store.read(lambda tx: _find_left(tx, notes))


def _find_left(tx: Session, notes: ReleaseShare) -> bool:
    """Whether the host is still to let go: who gives the server the share again is let in anew."""
    place = share_places.find(tx, notes.folder.mapping_id, notes.folder.host)
    return place is not None and place.state in LEFT


RELEASE_SHARE = Saga(
    "compute.release_share",
    ReleaseShare,
    Step("unmount_left", unmount_left, may_be_forgone=True),
    Step("revoke_left", revoke_left, may_be_forgone=True),
    Step("forget_left", forget_left),
    locks=lambda notes: [exclusive(release_of(notes.folder))],
    pivot="unmount_left",
)
