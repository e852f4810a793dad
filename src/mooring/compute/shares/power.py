"""Shares of a server that is switched on or off: mounted before its guest starts, unmounted after.

For sagas whose notes have `shares`, those of the server at its host, and `mounted`, the mappings
that the host had mounted before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from mooring.compute.hosts import guests
from mooring.compute.shares import doors, folders, mappings, share_places
from mooring.compute.shares.share_places import GRANTED, GRANTING, MOUNTED
from mooring.errors import MooringError, Unavailable
from mooring.saga.define import Step, Together
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.compute.shares.folders import Folder
    from mooring.saga.define import Run

log = structlog.get_logger()


def look(tx: Session, server_id: str, host: str) -> tuple[list[Folder], list[str]]:
    """Return a server's shares at its host, and which of them it has mounted."""
    found = folders.at_host(tx, server_id, host)
    mounted = [one.mapping_id for one in found if folders.is_mounted(tx, one)]
    return found, mounted


def _state(tx: Session, folder: Folder) -> str:
    place = share_places.find(tx, folder.mapping_id, folder.host)
    return "" if place is None else place.state


def find(notes: Any, item: str) -> Folder:
    """Return the share that an item names."""
    return folders.pick(notes.shares, item)


async def ensure(notes: Any, item: str, run: Run[Compute]) -> None:
    """See that the host is let in, as it was: its rule may have gone, or its address changed.

    A share service that is silent keeps no server down whose host was let in; the mount tells.
    """
    folder = find(notes, item)
    try:
        await doors.grant(run, folder)
    except Unavailable:
        state = await run.service.store.read(lambda tx: _state(tx, folder))
        if state not in {GRANTED, MOUNTED}:
            raise


def keep_place(tx: Session, notes: Any, item: str, run: Run[Compute]) -> None:
    """Say that the host has what it had, when its rule could not be made anew: a start tries again.

    What was mounted is, so that nobody forgets to unmount it.
    """
    folder = find(notes, item)
    if _state(tx, folder) == GRANTING:
        state = MOUNTED if folder.mapping_id in notes.mounted else GRANTED
        where = folder.mapping_id, folder.host
        share_places.change(tx, *where, run.now(), state=state, tries=0)


async def mount(notes: Any, item: str, run: Run[Compute]) -> Together:
    """Have the host mount the share for the server."""
    return await folders.mount(run, find(notes, item))


async def unmount_new(notes: Any, item: str, run: Run[Compute]) -> Together | None:
    """Unmount a share that was not mounted before; the guest may run with any other."""
    folder = find(notes, item)
    return None if folder.mapping_id in notes.mounted else await folders.unmount(run, folder)


async def unmount(notes: Any, item: str, run: Run[Compute]) -> Together:
    """Unmount a share of a guest that is off.

    After many tries it stays mounted, for the next start, and the saga ends badly.
    """
    return await guests.insist(run, folders.unmount(run, find(notes, item)))


async def unmount_unused(notes: Any, run: Run[Compute]) -> Together:
    """Unmount what a start had mounted whose guest is off after all.

    What the host does not unmount stays mounted, for the next start.
    """
    done: list[Together] = []
    for folder in notes.shares:
        if folder.mapping_id not in notes.mounted:
            try:
                done.append(await guests.insist(run, folders.unmount(run, folder)))
            except MooringError as error:
                if is_unavailable(error):
                    raise
                log.warning("a share stays mounted", share=folder.share_id, why=str(error))

    def write(tx: Session) -> None:
        for each in done:
            each.write(tx)

    return Together(write)


def show(tx: Session, server_id: str, now: datetime, *, runs: bool) -> None:
    """Say whether a server runs with its shares; one in error stays so."""
    old: Sequence[str]
    old, new = (["inactive"], "active") if runs else (["active"], "inactive")
    mappings.set_status(tx, server_id, old, new, now)


GIVE = (Step("grant_access", ensure, undo=keep_place), Step("mount_share", mount, undo=unmount_new))
"""For each share, before the guest starts."""
TAKE = (Step("unmount_share", unmount),)
"""For each share, once the guest is off."""
