"""Give a volume the content of another image (specs 002 and 004; facts/block_storage.md 4).

The storage replaces it in one go: until the copy is whole the volume has what it had. The server
that waits for a reserved volume is told of either end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring import limits
from mooring.agent_api.images import ImageSpec
from mooring.clients.compute import ExternalEvent
from mooring.errors import MooringError
from mooring.saga.define import Run, Saga, Step, Together, exclusive
from mooring.saga.journal import is_unavailable
from mooring.volume.backends import backends
from mooring.volume.tables import AttachmentRow, VolumeRow
from mooring.volume.volumes import filling, messages, statuses

if TYPE_CHECKING:
    from mooring.clients.compute import EventStatus
    from mooring.volume.service import Volume

_AT_WORK = ("downloading", *statuses.BORROWED)
_REJECTED = {"invalid"}
"""Kinds of errors by which a host says that the image is not what it is declared to be."""


class ReimageVolume(Struct, frozen=True, kw_only=True):
    """The notes.

    previous   the status to come back to
    keeps      the volume's type promises that a failure costs nothing
    replaced   whether the old content may be gone
    """

    volume_id: str
    backend: str
    image_id: str
    image: ImageSpec
    image_metadata: dict[str, str]
    previous: str
    keeps: bool = False
    replaced: bool = False


def promise_word(tx: Session, notes: ReimageVolume, run: Run[Volume]) -> None:
    """Undone by telling whoever waits that the volume was not reimaged."""
    del tx, notes, run


async def tell_failure(notes: ReimageVolume, run: Run[Volume]) -> Together | None:
    """Tell the servers that wait for the volume that it failed."""
    return await _tell(notes, run, "failed")


def show_downloading(tx: Session, notes: ReimageVolume, run: Run[Volume]) -> None:
    """Tell that the image is being copied."""
    statuses.change(
        tx,
        notes.volume_id,
        allowed=(notes.previous, "error"),
        now=run.now(),
        status="downloading",
        **statuses.RETURNED,
    )


def show_failure(tx: Session, notes: ReimageVolume, run: Run[Volume]) -> None:
    """Put the volume into `error` and say why; or back, when its type promised to keep the data."""
    row = tx.get(VolumeRow, notes.volume_id)
    if row is None:
        return
    was_refused = run.error is not None and run.error.kind in _REJECTED
    detail: messages.Detail = "image_format" if was_refused else "unknown"
    messages.add(tx, row, ("reimage", detail), request_id=run.request_id, now=run.now())
    if notes.keeps and not notes.replaced:
        _come_back(tx, notes, run)
        return
    values = {"status": "error", **statuses.RETURNED}
    statuses.change(tx, notes.volume_id, allowed=_AT_WORK, now=run.now(), **values)


async def bring_image(notes: ReimageVolume, run: Run[Volume]) -> None:
    """Bring the image to the volume's host."""
    agent = await backends.agent_of(run, backends.split(notes.backend)[0])
    await filling.bring_image(run, agent, notes.image_id, notes.image)


async def replace_content(notes: ReimageVolume, run: Run[Volume]) -> None:
    """Copy the image; a copy that was killed starts again."""
    agent = await backends.agent_of(run, backends.split(notes.backend)[0])
    copying = agent.replace_content(notes.volume_id, notes.image_id, operation=run.operation)
    await filling.follow(run, agent, notes.volume_id, copying)


async def end_copy(notes: ReimageVolume, run: Run[Volume]) -> ReimageVolume | None:
    """See that no copy goes on or comes later. Only a clear refusal says that none was made."""
    agent = await backends.agent_of(run, backends.split(notes.backend)[0])
    await agent.forget_content(notes.volume_id, operation=run.operation)
    refused = run.error is not None and run.error.kind in {*_REJECTED, "conflict", "no_capacity"}
    return None if refused else replace(notes, replaced=True)


def show_reimaged(tx: Session, notes: ReimageVolume, run: Run[Volume]) -> None:
    """Tell that the volume has the image, all of its metadata too, and its former status.

    One that was in `error` is whole again, and is what its attachments say.
    """
    values: dict[str, Any] = {"bootable": True, "image_metadata": notes.image_metadata}
    statuses.change(tx, notes.volume_id, allowed=None, now=run.now(), **values)
    if notes.previous == "error":
        statuses.recompute(tx, notes.volume_id, run.now(), settle=True)
    else:
        _come_back(tx, notes, run)


async def tell_success(notes: ReimageVolume, run: Run[Volume]) -> Together | None:
    """Tell the servers that wait for the volume that they can have it."""
    return await _tell(notes, run, "completed")


def _come_back(tx: Session, notes: ReimageVolume, run: Run[Volume]) -> None:
    if notes.previous != "reserved":
        # Somebody may have reserved it meanwhile, who will get it once this saga lets go.
        change = {"status": notes.previous, **statuses.RETURNED}
        statuses.change(tx, notes.volume_id, allowed=("downloading",), now=run.now(), **change)
        return
    # Who had reserved it may have gone meanwhile.
    tx.flush()
    statuses.recompute(tx, notes.volume_id, run.now(), settle=True)


async def _tell(notes: ReimageVolume, run: Run[Volume], status: EventStatus) -> Together | None:
    """Send `volume-reimaged` when somebody has reserved the volume.

    After `VOLUME_TELL_ATTEMPTS` attempts, or a refusal, a message says that nobody was told:
    whoever waits finds the end in the volume's status.
    """
    if notes.previous != "reserved":
        return None
    servers = await run.service.store.read(lambda tx: _find_servers(tx, notes.volume_id))
    events = [
        ExternalEvent(server_uuid=one, name="volume-reimaged", status=status, tag=notes.volume_id)
        for one in servers
    ]
    if not events:
        return None
    try:
        answers = await run.service.compute.send_events(None, events, operation=run.operation)
    except MooringError as error:
        if is_unavailable(error) and run.attempt < limits.VOLUME_TELL_ATTEMPTS:
            raise
        answers = None
    if answers is not None and all(answer.code == 200 for answer in answers):
        return None
    silence = "reimage", "reimage_notify"
    return Together(lambda tx: messages.note(tx, run, notes.volume_id, silence))


def _find_servers(tx: Session, volume_id: str) -> list[str]:
    query = select(AttachmentRow.server_id).where(
        AttachmentRow.volume_id == volume_id, AttachmentRow.server_id.is_not(None)
    )
    return sorted({str(server_id) for server_id in tx.execute(query).scalars()})


REIMAGE_VOLUME = Saga(
    "volume.reimage_volume",
    ReimageVolume,
    Step("promise_word", promise_word, undo=tell_failure),
    Step("show_downloading", show_downloading, undo=show_failure),
    Step("bring_image", bring_image, deadline_s=3600.0),
    Step("replace_content", replace_content, undo=end_copy, deadline_s=3600.0),
    Step("show_reimaged", show_reimaged),
    Step("tell_success", tell_success),
    locks=lambda notes: (exclusive(f"volume:{notes.volume_id}"),),
    visible_after="show_reimaged",
    pivot="show_reimaged",
    # The volume itself goes over to those in `error`.
    residue=("volumes", "sound_volumes", "messages"),
)
