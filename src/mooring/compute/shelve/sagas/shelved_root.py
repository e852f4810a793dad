"""The root disk of a server that was put away: made of its image at the host that it gets.

It stands alone, as the image goes once the server runs, and whoever copies or moves the disk later
finds the server's own image below a disk that is a layer, and no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.agent_api.servers import RootDisk
from mooring.compute.actions.story import SAYS_ALL
from mooring.compute.create import spawning
from mooring.compute.hosts import guests
from mooring.compute.shelve.sagas import shelved_image
from mooring.errors import Conflict, NotFound
from mooring.saga.define import Each, Step, Together

if TYPE_CHECKING:
    from mooring.agent_api.servers import ServerSpec
    from mooring.compute.service import Compute
    from mooring.compute.shelve.sagas.shelve_notes import UnshelveServer
    from mooring.compute.tables import Server
    from mooring.saga.define import Run

_GONE = "image_gone"
"""In the detail of an error: the server cannot come back at all."""


def images(notes: UnshelveServer) -> list[str]:
    """Return the image that has the root disk, if the server has one of its own."""
    return [notes.image_id] if notes.image_id else []


async def bring_image(notes: UnshelveServer, item: str, run: Run[Compute]) -> None:
    """See that the host has the image. Raises Conflict: it was deleted, and the disk with it."""
    try:
        await spawning.bring_image(run, notes.host, item)
    except NotFound as error:
        if await shelved_image.is_whole(run, item):
            raise Conflict(
                f"Host {notes.host} did not get image {item}: {error.public} The server stays "
                "away, as it was; unshelve it again.",
                private=error.private,
                **SAYS_ALL,
            ) from error
        raise Conflict(
            f"Image {item}, which had the root disk of server {notes.server_id} while it was away, "
            "was deleted. The server cannot come back; delete it, which frees its volumes.",
            private=error.public,
            **{_GONE: True, **SAYS_ALL},
        ) from error


async def give_up_image(notes: UnshelveServer, run: Run[Compute]) -> None:
    """Have the host keep the image no more; who took the server over has the image itself."""
    for item in images(notes) if notes.host else []:
        await drop_image(notes, item, run)


def cannot_come_back(run: Run[Compute]) -> bool:
    """Whether it failed because the disk is gone for good."""
    return run.error is not None and _GONE in run.error.detail


async def drop_image(notes: UnshelveServer, item: str, run: Run[Compute]) -> None:
    """Have the host keep the image no more; one that does not answer for long keeps it."""
    await guests.give_up_late(run, shelved_image.drop_cached(run, notes.host, item))


def specify(notes: UnshelveServer, server: Server, spec: ServerSpec) -> ServerSpec:
    """Return the guest with its root disk, if it has one of its own."""
    if not notes.image_id:
        return spec
    root = RootDisk(image_id=notes.image_id, size_gib=server.disk_gib, stands_alone=True)
    return replace(spec, root=root)


def too_old(notes: UnshelveServer) -> Conflict:
    """Return the refusal of a host that made no root disk that stands alone."""
    return Conflict(
        f"The agent of host {notes.host} is of a release that makes no root disks of servers that "
        "were put away. The server is as it was; upgrade the agent, or choose another host.",
        **{guests.BY_HOST: notes.host, **SAYS_ALL},
    )


async def delete_image(notes: UnshelveServer, item: str, run: Run[Compute]) -> Together:
    """Delete the image: the server runs from its own disk."""
    return await shelved_image.discard(run, notes.server_id, item)


BROUGHT = Each("root", images, Step("bring_image", bring_image, undo=drop_image, deadline_s=900.0))
"""Brought to the host before the guest is made there."""
DELETED = Each(
    "image",
    images,
    Step("delete_image", delete_image, may_be_forgone=True),
    Step("drop_image", drop_image),
)
"""Deleted once the server runs."""
