"""A root disk becomes an image: what every saga does that needs one (facts/compute.md 1.1).

The host copies the disk, the control plane carries the copy to the image service, and the host
removes it. The record is made as whoever asked, whose project has the image and whose quota counts;
the data come later than a token may live, so the service user brings them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mooring.agent_api.captures import CAPTURE_FORMAT
from mooring.agent_api.verbs import DELETE_CAPTURE
from mooring.clients.image import NewImage
from mooring.compute.hosts import guests
from mooring.errors import Conflict, NotFound
from mooring.saga.define import Park

if TYPE_CHECKING:
    from mooring.agent_api.captures import Capture
    from mooring.agent_api.client import AgentClient
    from mooring.clients.image import Image
    from mooring.compute.service import Compute
    from mooring.saga.define import Run

_LOOK_AGAIN_S = 5.0


class Pictured(Protocol):
    """What the notes of such a saga have."""

    @property
    def server_id(self) -> str:
        """Return the server whose disk it is."""
        ...

    @property
    def host(self) -> str:
        """Return the host that has the disk."""
        ...

    @property
    def image_id(self) -> str:
        """Return the image that is to be; its copy at the host has the same id."""
        ...


async def create_record(new: NewImage, run: Run[Compute]) -> None:
    """Make the image without data, or find it made by this step. Raises what the service refuses.

    A service without operations has it from an earlier try, if its id was nobody's before.
    """
    try:
        await run.service.images.create(run.user, new, operation=run.operation)
    except Conflict:
        if not guests.may_be_repeated(run):
            raise
        await run.service.images.show(run.user, new.id)


async def delete_record(notes: Pictured, run: Run[Compute]) -> None:
    """See that there is no image, whatever it was before, and that none comes late."""
    images = run.service.images
    await images.session.bury(run.operation)
    try:
        await images.delete(None, notes.image_id)
    except NotFound:
        return


async def delete_unfinished(notes: Pictured, run: Run[Compute], made_in: str) -> None:
    """Do the same, but leave an image that has its data: that was asked for, and is whole."""
    images = run.service.images
    try:
        found = await images.show(None, notes.image_id)
    except NotFound:
        found = None
    if found is None or not found.is_active:
        await images.session.bury(run.operation.of_step(made_in))
        if found is not None:
            await images.delete(None, notes.image_id)


async def capture(notes: Pictured, run: Run[Compute]) -> None:
    """Have the host copy the disk."""
    if await guests.is_lost(run, notes.host):
        raise Conflict(
            f"Host {notes.host} was forced down. No image was made of server {notes.server_id}; "
            "ask again when its host is back."
        )

    async def verb(agent: AgentClient) -> None:
        await agent.put_capture(notes.server_id, notes.image_id, operation=run.operation)

    await guests.ask(run, notes.host, verb)


async def remove_capture(notes: Pictured, run: Run[Compute]) -> None:
    """Have the host stop copying, and remove the copy; one that is forced down owes it."""

    async def verb(agent: AgentClient) -> None:
        await agent.delete_capture(notes.server_id, notes.image_id, operation=run.operation)

    path = DELETE_CAPTURE.target(notes.server_id, notes.image_id)
    await guests.take_back(run, notes.host, path, verb)


async def upload(notes: Pictured, run: Run[Compute]) -> None:
    """Carry the copy from the host to the image service, unless the image has it already.

    An upload whose process died is `saving` until the service finds out; then it is `queued` again,
    and this one begins anew. Raises Conflict for an image that somebody deleted or filled.
    """
    image = await _find_image(notes, run)
    if image.is_active:
        return
    if image.status == "saving":
        raise Park(seconds=_LOOK_AGAIN_S)
    if await guests.is_lost(run, notes.host):
        raise Conflict(
            f"Host {notes.host} was forced down. The image of server {notes.server_id} was not "
            "uploaded; ask for another one when its host is back."
        )
    made = await _find_capture(notes, run)
    agent = run.service.agents[notes.host]
    data = agent.read_capture(notes.server_id, made)
    try:
        await run.service.images.upload(None, notes.image_id, data)
    except Conflict as error:
        # The try before this one goes on at the service, or has come to its end there.
        if (await _find_image(notes, run)).status not in {"saving", "active"}:
            raise
        raise Park(seconds=_LOOK_AGAIN_S) from error


async def _find_image(notes: Pictured, run: Run[Compute]) -> Image:
    try:
        return await run.service.images.show(None, notes.image_id)
    except NotFound as error:
        raise Conflict(
            f"Image {notes.image_id} was deleted before it had the data of server "
            f"{notes.server_id}. Ask for another one."
        ) from error


async def _find_capture(notes: Pictured, run: Run[Compute]) -> Capture:
    made = await guests.ask(
        run, notes.host, lambda agent: agent.show_capture(notes.server_id, notes.image_id)
    )
    if made is None or not made.is_whole:
        raise Conflict(
            f"Host {notes.host} has no copy of the disk of server {notes.server_id} any more. The "
            "image was not made; ask for another one."
        )
    return made


def describe(
    image_id: str, name: str, properties: dict[str, str], *, min_disk_gib: int, min_ram_mib: int
) -> NewImage:
    """Return the record of an image whose data are a capture."""
    return NewImage(
        id=image_id,
        name=name,
        disk_format=CAPTURE_FORMAT,
        min_disk_gib=min_disk_gib,
        min_ram_mib=min_ram_mib,
        properties=properties,
    )
