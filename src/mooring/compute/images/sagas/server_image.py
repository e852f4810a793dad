"""A root disk becomes an image: what every saga does that needs one (facts/compute.md 1.1).

The host copies the disk, the control plane carries the copy to the image service, and the host
removes it (`mooring.captured_images`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mooring import captured_images
from mooring.agent_api.captures import CAPTURE_FORMAT
from mooring.agent_api.verbs import DELETE_CAPTURE
from mooring.clients.image import NewImage
from mooring.compute.hosts import guests
from mooring.errors import Conflict
from mooring.saga.define import Step

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mooring.agent_api.captures import Capture
    from mooring.agent_api.client import AgentClient
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


MADE_IN = "create_record"
"""What the step that makes the record is called in every saga that has one."""


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
    """Make the image without data. Raises what the image service refuses."""
    await captured_images.create_record(run.service.images, new, run)


async def delete_record(notes: Pictured, run: Run[Compute]) -> None:
    """See that there is no image, whatever it was before, and that none comes late."""
    await captured_images.delete_record(run.service.images, notes.image_id, run)


async def take_back_record(notes: Pictured, run: Run[Compute]) -> None:
    """See that there is no image, and that none comes late. Raises Conflict for a whole one."""
    await captured_images.take_back(run.service.images, notes.image_id, run)


async def give_up_record(notes: Pictured, run: Run[Compute]) -> None:
    """Remove an image that never got its data."""
    images = run.service.images
    await captured_images.delete_unfinished(images, notes.image_id, run, MADE_IN)


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


GIVE_UP_IMAGE = Step("give_up_image", give_up_record, may_be_forgone=True)
GIVE_UP_CAPTURE = Step("give_up_capture", remove_capture, may_be_forgone=True, until_taken=True)
"""What a saga owes when another one takes its server, and does itself where its image stays."""


async def upload(notes: Pictured, run: Run[Compute]) -> None:
    """Carry the copy from the host to the image service, unless the image has it already.

    Raises Conflict for an image that somebody deleted or filled, and for a host that is lost.
    """

    async def open_data() -> AsyncIterator[bytes]:
        if await guests.is_lost(run, notes.host):
            raise Conflict(
                f"Host {notes.host} was forced down. The image of server {notes.server_id} was "
                "not uploaded; ask for another one when its host is back."
            )
        made = await _find_capture(notes, run)
        pieces = run.service.agents[notes.host].read_capture(notes.server_id, made)
        return captured_images.followed(run, pieces, made.size_bytes)

    of = f"server {notes.server_id}"
    await captured_images.upload(run.service.images, notes.image_id, of, open_data)


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
