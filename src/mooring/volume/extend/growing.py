"""What is left of a growing volume: its keys, its reservations, its file. For all who may end it.

Source: facts/block_storage.md 3.4.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import structlog
from msgspec import Struct
from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from mooring.errors import MooringError, Unavailable
from mooring.fence.operation import Operation
from mooring.saga.journal import is_unavailable
from mooring.store.prepared import Prepared
from mooring.volume.backends import backends
from mooring.volume.quotas import quota
from mooring.volume.tables import AttachmentRow, VolumeRow
from mooring.volume.volumes import notices, statuses

if TYPE_CHECKING:
    from mooring.saga.define import Run
    from mooring.volume.service import Volume

log = structlog.get_logger()

GIB = 1024**3
_GONE = 410
DONE, FAILED = "done", "failed"
NO_KEYS: dict[str, Any] = {"extend_new_size": None, "extend_reservations": None}
"""The columns of a volume whose completion nobody awaits."""
SETTLED: dict[str, Any] = {**NO_KEYS, "extend_answer": None, "extend_event": None}
"""The columns of a volume that does not grow."""
_servers_of = Prepared(
    select(AttachmentRow.server_id).where(
        AttachmentRow.volume_id == bindparam("of_volume"), AttachmentRow.server_id.is_not(None)
    ),
    str,
)


class Left(Struct, frozen=True, kw_only=True):
    """What whoever ended a growing volume's operation has still to see to."""

    event: str = ""
    """The operation under which compute may still be at work; empty when it is not."""
    unsure: bool = False
    """Whether the file may have grown."""


def signal_of(volume_id: str) -> str:
    """Return the name of the signal that compute's completion gives."""
    return f"volume-extended:{volume_id}"


def servers_of(tx: Session, volume_id: str) -> list[str]:
    """Return the servers that a volume is attached to, each once."""
    tx.flush()
    return sorted(set(_servers_of.all(tx, of_volume=volume_id)))


def forget(tx: Session, row: VolumeRow, now: datetime) -> Left:
    """Roll back what is reserved for a volume and remove its keys, whoever wrote them."""
    reserved = quota.settle(tx, row.id)
    grew = row.status in ("extending", "error_extending")
    left = Left(event=row.extend_event or "", unsure=reserved or grew)
    if left.event or row.extend_new_size is not None or row.extend_answer is not None:
        statuses.change(tx, row.id, allowed=None, now=now, **SETTLED)
    return left


def commit(tx: Session, run: Run[Volume], volume_id: str, size_gib: int) -> None:
    """Give a volume its new size and the status that its attachments say, and notify of it.

    Nothing is reserved for it any more: from now on its size counts, also when somebody else has
    given it another status.
    """
    now = run.now()
    quota.settle(tx, volume_id)
    waited = statuses.change(
        tx, volume_id, allowed=("extending", "error_extending"), now=now, **SETTLED
    )
    if waited:
        statuses.recompute(tx, volume_id, now, settle=True)
    statuses.change(tx, volume_id, allowed=None, now=now, size_gib=size_gib, **SETTLED)
    if waited:
        notices.send(tx, run.service, volume_id, "resize.end")


def let_rest(tx: Session, volume_id: str, now: datetime) -> None:
    """Give a volume that did not grow the status that its attachments say.

    So does the end of its attachment, when that comes after the failure.
    """
    if statuses.change(tx, volume_id, allowed=("error_extending",), now=now):
        statuses.recompute(tx, volume_id, now, settle=True)


def adopt(tx: Session, volume_id: str, file_bytes: int, now: datetime) -> None:
    """Let a volume's size follow its file, if that has grown."""
    # For the sagas of a volume alone, and those act for nobody.
    row = tx.get(VolumeRow, volume_id, populate_existing=True)
    if row is not None and file_bytes // GIB > row.size_gib:
        statuses.change(tx, volume_id, allowed=None, now=now, size_gib=file_bytes // GIB)


async def find_bytes(run: Run[Volume], host: str, volume_id: str, asked: Operation) -> int:
    """Return the virtual size of a volume's file, which no call under `asked` will change any more.

    0 when there is no file. Raises Unavailable.
    """
    agent = await backends.agent_of(run, host)
    await agent.forget_extend(volume_id, operation=asked)
    file = await agent.show_volume(volume_id)
    return 0 if file is None else file.virtual_bytes or file.size_gib * GIB


async def stop_compute(run: Run[Volume], event: str) -> None:
    """Tell compute to give up what an event made it do; when this returns it does no more.

    A compute service that does not know the call is a real Nova, which has no such work. Raises
    Unavailable for any other refusal: nobody knows then whether compute still grows the file.
    """
    if not event:
        return
    saga, _, step = event.partition(".")
    try:
        await run.service.compute.forget_event(Operation(saga, step, 1, 0))
    except MooringError as error:
        status = error.detail.get("http_status")
        if status == _GONE:
            return
        if is_unavailable(error):
            raise
        log.warning("compute refuses to give up an event", operation=event, error=str(error))
        raise Unavailable(
            f"Compute refuses ({status}: {error.public}) to say whether it still lets the volume "
            "grow. It is asked again by itself; give this service's user the role `service` there.",
            private=str(error),
        ) from error
