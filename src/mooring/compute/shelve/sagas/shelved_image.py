"""The image that has the root disk of a server which was put away, and how it goes.

The server's row names it from the moment at which it is whole until it is deleted, so that whoever
takes the server over finds it there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.agent_api.verbs import DELETE_IMAGE
from mooring.compute.actions.story import SAYS_ALL
from mooring.compute.hosts import guests
from mooring.compute.servers import states
from mooring.compute.tables import Server
from mooring.errors import Conflict, MooringError, NotFound
from mooring.saga.define import Together
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.client import AgentClient
    from mooring.compute.service import Compute
    from mooring.saga.define import Run

NONE = ""
"""What the row has instead of an image."""


async def require(run: Run[Compute], server_id: str) -> None:
    """Raise Conflict when the image that is to have a server's disk alone was deleted."""
    server = await run.service.store.read(lambda tx: tx.get(Server, server_id))
    image_id = server.shelved_image_id if server else NONE
    if image_id and not await is_whole(run, image_id):
        raise Conflict(
            f"Image {image_id}, which has the root disk of server {server_id}, was deleted. The "
            "server stays at its host, which has the disk; unshelve it, and shelve it again.",
            lasts=True,
            **SAYS_ALL,
        )


async def is_whole(run: Run[Compute], image_id: str) -> bool:
    """Whether an image is there, with its data."""
    try:
        image = await run.service.images.show(None, image_id)
    except NotFound:
        return False
    return image.status in {"active", "deactivated"}


async def delete(run: Run[Compute], image_id: str) -> str:
    """Delete an image that is not needed any more; return "" or why it stays.

    What the image service refuses for good, as its user protected it, is its user's from then on.
    """
    try:
        await run.service.images.delete(None, image_id)
    except NotFound:
        return ""
    except MooringError as error:
        if is_unavailable(error):
            raise
        return f"Image {image_id} was kept: {error.public}"
    return ""


async def discard(run: Run[Compute], server_id: str, image_id: str) -> Together:
    """Delete the image of a server that has its disk again, and forget it in the same moment.

    Until then, or where an operator goes on without it, the row names it for whoever comes next.
    """
    if image_id:
        await delete(run, image_id)
    return Together(lambda tx: forget(tx, server_id, run))


def forget(tx: Session, server_id: str, run: Run[Compute]) -> None:
    """Say that no image has the server's disk."""
    states.change(tx, server_id, run.now(), shelved_image_id=NONE, shelved_at=None)


async def drop_cached(run: Run[Compute], host: str, image_id: str) -> None:
    """Remove an image from a host that nobody will make a disk of any more."""

    async def verb(agent: AgentClient) -> None:
        await agent.delete_image(image_id, operation=run.operation)

    await guests.take_back(run, host, DELETE_IMAGE.target(image_id), verb)


async def settle(run: Run[Compute], server_id: str) -> Together | None:
    """Delete the image of a server that is not put away any more, where its guest has the disk.

    Where the host has no guest the image may be all that is left of the disk: it stays, and goes
    with the server. So it does where the host is lost. Raises Unavailable.
    """
    server = await run.service.store.read(lambda tx: tx.get(Server, server_id))
    if server is None or not server.shelved_image_id or server.host is None:
        return None
    # A call that was given up may be removing the guest yet: it ends first, and none comes later.
    if await guests.claim_unless_lost(run, server.host, server_id) is None:
        return None
    return await discard(run, server_id, server.shelved_image_id)
