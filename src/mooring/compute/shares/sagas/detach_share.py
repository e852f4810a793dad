"""Detach a share from a server that does not run: unmount it, keep its hosts out, forget it.

What the share service refuses for good leaves the server with the share as before (facts 7.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.compute.actions.story import Told, tell
from mooring.compute.hosts import guests
from mooring.compute.shares import folders, mappings
from mooring.compute.shares.folders import Folder
from mooring.compute.shares.sagas.attach_share import lock_of
from mooring.errors import Conflict
from mooring.saga.define import Each, Run, Saga, Step, Together, exclusive, shared

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


class DetachShare(Struct, frozen=True, kw_only=True):
    """The notes.

    status   of the mapping before
    folders  the share at each host that is let in
    """

    server_id: str
    action_id: int
    mapping_id: str
    share_id: str
    host: str | None
    status: str
    folders: list[Folder] = []


def begin_detaching(tx: Session, notes: DetachShare, run: Run[Compute]) -> None:
    """Begin: the mapping says so already."""
    del tx, notes, run


def keep_share(tx: Session, notes: DetachShare, run: Run[Compute]) -> None:
    """Say that the server has the share as before."""
    mappings.change(tx, notes.mapping_id, run.now(), status=notes.status)


async def unmount(notes: DetachShare, item: str, run: Run[Compute]) -> Together:
    """Unmount the share, unless nobody can tell whether a guest runs with it.

    A host that is lost would owe the unmounting, and not be up again while a guest of it runs.
    """
    folder = _find(notes, item)
    is_mounted = await run.service.store.read(lambda tx: folders.is_mounted(tx, folder))
    if is_mounted and await guests.is_lost(run, folder.host):
        raise Conflict(
            f"Host {folder.host} was forced down with share {notes.share_id} mounted, and its "
            "guest may run. The share was not detached; evacuate or delete the server."
        )
    return await folders.unmount(run, folder)


def let_go(tx: Session, notes: DetachShare, run: Run[Compute]) -> None:
    """Begin to keep hosts out: one that is out is not let in again."""
    del tx, notes, run


def forget_share(tx: Session, notes: DetachShare, run: Run[Compute]) -> None:
    """Say that the server no longer has the share."""
    del run
    mappings.remove(tx, notes.mapping_id)


def _describe(notes: DetachShare) -> Told:
    return Told(
        event="compute_deny_share",
        host=notes.host,
        notice="share_detach",
        members={"share_id": notes.share_id},
    )


def _say_how(notes: DetachShare, run: Run[Compute]) -> str:
    """Return how a share is that the server was to let go of."""
    del run
    return f"Share {notes.share_id} stays attached, as it was. Detach it again."


def _items(notes: DetachShare) -> list[str]:
    return folders.named(notes.folders)


def _find(notes: DetachShare, item: str) -> Folder:
    return folders.pick(notes.folders, item)


_steps = folders.Steps(_find)
DETACH_SHARE = Saga(
    "compute.detach_share",
    DetachShare,
    Step("begin_detaching", begin_detaching, undo=keep_share),
    Each("mounts", _items, Step("unmount_share", unmount)),
    Step("let_go", let_go),
    Each("rules", _items, Step("revoke_access", _steps.revoke)),
    Step("forget_share", forget_share),
    locks=lambda notes: [
        shared(f"server:{notes.server_id}"),
        exclusive(lock_of(notes.server_id, notes.share_id)),
    ],
    pivot="let_go",
    failed_end=(Step("keep_share", keep_share),),
    residue=("faults", "instance_actions"),
    story=tell(_describe, state=_say_how),
)
