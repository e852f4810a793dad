"""A share of a server at one host: what sagas remember of it, and each way to give and take it.

    grant / revoke    the share service lets the host in, and keeps it out (`doors`)
    mount / unmount   the host has the share mounted for the server

In this order to give it and in the opposite one to take it, and unmounted only when no guest runs
with it. Nothing here changes a mapping's status or tells anybody (specs 003).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from mooring.agent_api.guest_shares import GuestShare, MountRequest
from mooring.agent_api.verbs import UNMOUNT_SHARE
from mooring.compute.hosts import guests
from mooring.compute.shares import doors, mappings, share_places
from mooring.compute.shares.share_places import GRANTED, MOUNTED
from mooring.saga.define import Together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy.orm import Session

    from mooring.agent_api.client import AgentClient
    from mooring.agent_api.shares import Protocol
    from mooring.compute.service import Compute
    from mooring.compute.tables import ShareMapping
    from mooring.saga.define import Run


class Folder(Struct, frozen=True, kw_only=True):
    """A server's share at a host; `access_to` is the cephx id, empty for NFS."""

    mapping_id: str
    server_id: str
    share_id: str
    tag: str
    host: str
    export: str
    protocol: str
    access_to: str = ""


def folder_of(row: ShareMapping, host: str) -> Folder:
    """Return what a mapping stands for at a host."""
    return Folder(
        mapping_id=row.id,
        server_id=row.server_id,
        share_id=row.share_id,
        tag=row.tag,
        host=host,
        export=row.export_location,
        protocol=row.protocol,
        access_to=row.access_to,
    )


def at_host(tx: Session, server_id: str, host: str) -> list[Folder]:
    """Return the shares that a server has, as they are to be at a host; none in error."""
    rows = mappings.of_server(tx, server_id)
    return [folder_of(row, host) for row in rows if row.status in {"inactive", "active"}]


def everywhere(tx: Session, server_id: str) -> list[Folder]:
    """Return every share of a server at each host that has, or had, anything to do with it."""
    return [
        folder_of(row, place.host)
        for row in mappings.of_server(tx, server_id)
        for place in share_places.of_mapping(tx, row.id)
    ]


def named(folders: Sequence[Folder]) -> list[str]:
    """Return what folders are called as items of a saga, at however many hosts a share is."""
    return [f"{folder.share_id}:{number}" for number, folder in enumerate(folders)]


def pick(folders: Sequence[Folder], name: str) -> Folder:
    """Return the folder that an item names."""
    return folders[int(name.rpartition(":")[2])]


def specify(tx: Session, server_id: str, host: str) -> list[GuestShare]:
    """Return the shares that a host has mounted for a server, as its guest is to have them."""
    found: list[GuestShare] = []
    for row in mappings.of_server(tx, server_id):
        place = share_places.find(tx, row.id, host)
        if place is not None and place.state == MOUNTED and place.path:
            found.append(GuestShare(share_id=row.share_id, tag=row.tag, path=place.path))
    return found


async def specify_all(run: Run[Compute], host: str, server_id: str) -> list[GuestShare]:
    """Return the same, as the database has it now."""
    return await run.service.store.read(lambda tx: specify(tx, server_id, host))


def is_mounted(tx: Session, folder: Folder) -> bool:
    """Whether its host has the share mounted for the server."""
    place = share_places.find(tx, folder.mapping_id, folder.host)
    return place is not None and place.state == MOUNTED


class Steps:
    """What sagas list of a folder, found in their notes: `find(notes)`, in an Each with the item.

    The undo of `grant` is `ungrant`, and of `mount` it is `unmount`. `revoke` is for a rule that
    another saga had made.
    """

    def __init__(self, find: Callable[..., Folder]) -> None:
        self._find = find

    async def grant(self, notes: Struct, *where: Any) -> None:
        """Have the share service let the host in."""
        await doors.grant(where[-1], self._find(notes, *where[:-1]))

    async def ungrant(self, notes: Struct, *where: Any) -> None:
        """Take back what `grant` did, or may still do."""
        await doors.revoke(where[-1], self._find(notes, *where[:-1]), undoes=True)

    async def revoke(self, notes: Struct, *where: Any) -> None:
        """Have the share service keep the host out."""
        await doors.revoke(where[-1], self._find(notes, *where[:-1]))

    async def look(self, notes: Struct, *where: Any) -> None:
        """Note whether the host is let in, unless the share service is silent for long."""
        run = where[-1]
        await guests.give_up_late(run, doors.look(run, self._find(notes, *where[:-1])))

    async def mount(self, notes: Struct, *where: Any) -> Together:
        """Have the host mount the share for the server."""
        return await mount(where[-1], self._find(notes, *where[:-1]))

    async def unmount(self, notes: Struct, *where: Any) -> Together:
        """Have the host unmount the share, unless another server there needs it."""
        return await unmount(where[-1], self._find(notes, *where[:-1]))


async def mount(run: Run[Compute], folder: Folder) -> Together:
    """Mount a share for a server at a host that is let in; say where it is.

    Raises what the host says against it: Invalid, NotFound, Forbidden, Conflict, Unavailable.
    """
    key = await doors.key_of(run, folder)
    request = MountRequest(
        export=folder.export,
        protocol=cast("Protocol", folder.protocol),
        access_to=folder.access_to,
        access_key=key,
    )
    mounted = await guests.ask(
        run,
        folder.host,
        lambda agent: agent.mount_share(
            folder.server_id, folder.share_id, request, operation=run.operation
        ),
    )
    return Together(partial(_note_mounted, run=run, folder=folder, path=mounted.path))


async def unmount(run: Run[Compute], folder: Folder) -> Together:
    """Unmount a share for a server; nothing when it is not mounted, or its host is lost.

    Raises Conflict while the server's guest runs with it.
    """

    async def verb(agent: AgentClient) -> None:
        await agent.unmount_share(folder.server_id, folder.share_id, operation=run.operation)

    path = UNMOUNT_SHARE.target(folder.server_id, folder.share_id)
    await guests.take_back(run, folder.host, path, verb)
    return Together(partial(_note_unmounted, run=run, folder=folder))


def _note_mounted(tx: Session, run: Run[Compute], folder: Folder, path: str) -> None:
    where = folder.mapping_id, folder.host
    share_places.change(tx, *where, run.now(), state=MOUNTED, path=path)


def _note_unmounted(tx: Session, run: Run[Compute], folder: Folder) -> None:
    where = folder.mapping_id, folder.host
    place = share_places.find(tx, *where)
    if place is not None and place.state == MOUNTED:
        share_places.change(tx, *where, run.now(), state=GRANTED, path=None)


def forget(tx: Session, folders: Iterable[Folder]) -> None:
    """Forget the mappings of folders whose hosts are all kept out."""
    for folder in folders:
        mappings.remove(tx, folder.mapping_id)
