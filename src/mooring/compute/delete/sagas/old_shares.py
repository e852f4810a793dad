"""The shares of a server that is deleted: unmounted once its guest has ended, their hosts kept out.

A move that waits for its user's word has two hosts let in; both are kept out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.shares import folders, mappings
from mooring.saga.define import Each, Step

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.delete.sagas.delete_notes import DeleteServer
    from mooring.compute.shares.folders import Folder


def _find(notes: DeleteServer, item: str) -> Folder:
    return folders.pick(notes.shares, item)


def _items(notes: DeleteServer) -> list[str]:
    return folders.named(notes.shares)


def forget(tx: Session, server_id: str) -> None:
    """Say that the server has no share any more."""
    for mapping in mappings.of_server(tx, server_id):
        mappings.remove(tx, mapping.id)


_steps = folders.Steps(_find)
OLD_SHARES = Each(
    "shares",
    _items,
    Step("unmount_share", _steps.unmount),
    Step("revoke_access", _steps.revoke),
)
