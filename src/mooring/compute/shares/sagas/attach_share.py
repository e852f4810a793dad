"""Attach a share to a server that is stopped: let its host in (facts/compute.md 7.3).

The user was answered before anything began. A failure leaves the share in error with the server,
and nobody let in; it is detached then, and attached again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.compute.actions.story import Told, tell
from mooring.compute.shares import folders, mappings
from mooring.compute.shares.folders import Folder
from mooring.compute.tables import Server
from mooring.errors import Conflict
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import Run, Saga, Step, exclusive, shared

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


class AttachShare(Struct, frozen=True, kw_only=True):
    """The notes."""

    server_id: str
    action_id: int
    share_id: str
    folder: Folder


def lock_of(server_id: str, share_id: str) -> str:
    """Return the key that whoever attaches or detaches a server's share holds."""
    return f"server:{server_id}/share:{share_id}"


def begin_attaching(tx: Session, notes: AttachShare, run: Run[Compute]) -> None:
    """See that the server is still where it was when the user asked."""
    del run
    server, folder = tx.get(Server, notes.server_id), notes.folder
    if server is None or server.deleted_at is not None or server.host != folder.host:
        raise Conflict(f"Server {notes.server_id} left host {folder.host}.")


def show_error(tx: Session, notes: AttachShare, run: Run[Compute]) -> None:
    """Say that the server has no use of the share."""
    mappings.change(tx, notes.folder.mapping_id, run.now(), status="error")


def record_attached(tx: Session, notes: AttachShare, run: Run[Compute]) -> None:
    """Say that the server has the share, and gets it when it starts."""
    mappings.change(tx, notes.folder.mapping_id, run.now(), status="inactive")


def _describe(notes: AttachShare) -> Told:
    return Told(
        event="compute_allow_share",
        host=notes.folder.host,
        notice="share_attach",
        members={"share_id": notes.share_id},
    )


def _say_how(notes: AttachShare, run: Run[Compute]) -> str:
    """Return what to do about a share that the server has no use of."""
    del run
    share = f"Share {notes.folder.share_id}"
    return f"{share} was not attached, and is in error. Detach it, and attach it again."


def _find(notes: AttachShare) -> Folder:
    return notes.folder


_steps = folders.Steps(_find)
ATTACH_SHARE = Saga(
    "compute.attach_share",
    AttachShare,
    Step("begin_attaching", begin_attaching, undo=show_error),
    Step("grant_access", _steps.grant, undo=_steps.ungrant, undo_attempts=COMPUTE_UNDO_ATTEMPTS),
    Step("record_attached", record_attached),
    locks=lambda notes: [
        shared(f"server:{notes.server_id}"),
        exclusive(lock_of(notes.server_id, notes.share_id)),
    ],
    # The host may still be let in: detaching the share tries again to keep it out.
    undo_ends=(Step("look_at_rule", _steps.look), Step("keep_error", show_error)),
    residue=("faults", "instance_actions", "share_mappings"),
    story=tell(_describe, state=_say_how),
)
