"""Exports of the legacy calls: they belong to a volume and a host, and know no attachment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import delete, update
from sqlalchemy.orm import Session

from mooring.errors import Conflict
from mooring.saga.define import Run, Saga, Step, Together, exclusive, shared
from mooring.volume.attachments import connections, sharing
from mooring.volume.backends import backends
from mooring.volume.tables import ExportRow

if TYPE_CHECKING:
    from mooring.volume.service import Volume


class ConnectLegacy(Struct, frozen=True, kw_only=True):
    """The notes. `made`: whether this request wrote the export's row."""

    export_id: str
    volume_id: str
    host: str
    """The agent that has the volume."""
    connector: dict[str, Any] = {}
    made: bool = False


def check_host(tx: Session, notes: ConnectLegacy, run: Run[Volume]) -> ConnectLegacy | None:
    """Refuse a volume that has come to another host while this waited for its turn.

    Whoever had the turn may have taken its export back: then it is this one's to make.
    """
    if backends.host_of(tx, notes.volume_id) != notes.host:
        raise Conflict(
            f"Resource conflict: Volume {notes.volume_id} has come to another host meanwhile. "
            "Nothing was connected; ask again.",
            busy=True,
            final=True,  # Asking again helps the caller, who is told of the other host then.
        )
    if notes.made or tx.get(ExportRow, notes.export_id) is not None:
        return None
    fields = {"volume_id": notes.volume_id, "host": notes.connector["host"]}
    tx.add(ExportRow(id=notes.export_id, connector=notes.connector, created_at=run.now(), **fields))
    tx.flush()
    return replace(notes, made=True)


def forget_made(tx: Session, notes: ConnectLegacy, run: Run[Volume]) -> None:
    """Forget the export's row, unless it was there before."""
    if notes.made:
        forget_export(tx, notes, run)


async def export_volume(notes: ConnectLegacy, run: Run[Volume]) -> Together:
    """Export the volume to the connector's host and keep the connection."""
    agent = await backends.agent_of(run, notes.host)
    connection = await agent.export_volume(
        notes.volume_id, notes.export_id, notes.connector, operation=run.operation
    )
    named = await sharing.name_backend(run, notes.volume_id, connection)
    sealed = connections.seal(run.service.sealer, named)
    kept = update(ExportRow).where(ExportRow.id == notes.export_id).values(connection=sealed)
    # With the bookmark, as below: who slept since may find the row made anew, by another saga.
    return Together(lambda tx: tx.execute(kept) and None)


async def take_back(notes: ConnectLegacy, run: Run[Volume]) -> Together | None:
    """End the export and forget it, unless it was there before."""
    if not notes.made:
        return None
    agent = await backends.agent_of(run, notes.host)
    await agent.unexport_volume(notes.volume_id, notes.export_id, operation=run.operation)
    return Together(lambda tx: forget_export(tx, notes, run))


async def end_export(notes: ConnectLegacy, run: Run[Volume]) -> None:
    """End the export; one that never was is fine."""
    agent = await backends.agent_of(run, notes.host)
    await agent.unexport_volume(notes.volume_id, notes.export_id, operation=run.operation)


def forget_export(tx: Session, notes: ConnectLegacy, run: Run[Volume]) -> None:
    """Delete the export's row."""
    tx.execute(delete(ExportRow).where(ExportRow.id == notes.export_id))


def doubt_export(tx: Session, notes: ConnectLegacy, run: Run[Volume]) -> None:
    """Forget the connection of an export that the storage would not end: it may be half gone."""
    doubted = update(ExportRow).where(ExportRow.id == notes.export_id)
    tx.execute(doubted.values(connection=None))


CONNECT_LEGACY = Saga(
    "volume.connect_legacy",
    ConnectLegacy,
    Step("check_host", check_host, undo=forget_made),
    Step("export_volume", export_volume, undo=take_back),
    locks=lambda notes: (
        exclusive(f"export:{notes.export_id}"),
        shared(f"volume:{notes.volume_id}"),
    ),
    mode="wait",
    answered_after="export_volume",
)

END_LEGACY = Saga(
    "volume.end_legacy",
    ConnectLegacy,
    Step("end_export", end_export, may_be_forgone=True),
    Step("forget_export", forget_export),
    locks=lambda notes: (exclusive(f"export:{notes.export_id}"),),
    mode="wait",
    answered_after="forget_export",
    pivot="end_export",
    failed_end=[Step("doubt_export", doubt_export)],
)
