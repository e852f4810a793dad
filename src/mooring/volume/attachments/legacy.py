"""The legacy attach and detach calls, and the two that the new flow still uses.

Source: facts/block_storage.md 1.4. Policy is checked by the route. Errors: NotFound, Invalid for a
state that forbids it, Conflict while a server uses the volume and the caller is not a service.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from mooring import row_limits, typed
from mooring.errors import Conflict, Invalid
from mooring.fence import table as fence
from mooring.saga import journal
from mooring.volume.attachments import attachments, connections, fenced, guard, reserving
from mooring.volume.attachments.sagas.connect_legacy import (
    CONNECT_LEGACY,
    END_LEGACY,
    ConnectLegacy,
)
from mooring.volume.backends import backends
from mooring.volume.tables import AttachmentRow, ExportRow, VolumeRow
from mooring.volume.volumes import notices, statuses, volumes
from mooring.web.identity import is_service

if TYPE_CHECKING:
    from mooring.volume.attachments.reserving import Asked

_EXPORTS = uuid.UUID("b2a6f0d3-53f1-5e0b-8d0c-0c1d6b0f6a47")
_MOST = row_limits.VOLUME_ATTACHMENTS
_AT_REST = (None, "deleting", "error", "success")


class Attach(Struct, frozen=True, kw_only=True):
    """What `os-attach` asks for; one of server and host is given."""

    mountpoint: str
    server_id: str | None = None
    host_name: str | None = None
    mode: Literal["rw", "ro"] = "rw"


async def reserve(asked: Asked, volume_id: str) -> None:
    """Turn an available volume to attaching (`os-reserve`)."""

    def act(tx: Session) -> None:
        row = volumes.visible(tx, asked.who, volume_id)
        allowed = ("available", "in-use") if row.multiattach else ("available",)
        now = asked.volume.clock.now()
        values = {"status": "attaching", **asked.borrows()}
        if not statuses.change(tx, row.id, allowed=allowed, now=now, **values):
            raise _wrong_status(row, " or ".join(allowed), "reserve")

    await fenced.change(asked, f"volume:{volume_id}/reserving", act, verb="POST")


async def unreserve(asked: Asked, volume_id: str) -> None:
    """Turn an attaching volume back; any other is left alone (`os-unreserve`)."""

    def act(tx: Session) -> None:
        row = volumes.visible(tx, asked.who, volume_id)
        _unreserve(tx, asked, row)

    await fenced.change(asked, f"volume:{volume_id}/reserving", act, verb="DELETE")


async def begin_detaching(asked: Asked, volume_id: str) -> None:
    """Turn an in-use volume to detaching (`os-begin_detaching`), unless it migrates."""

    def act(tx: Session) -> None:
        row = volumes.visible(tx, asked.who, volume_id)
        if row.migration_status not in _AT_REST:
            return
        values = {"status": "detaching", **asked.borrows()}
        now, allowed = asked.volume.clock.now(), ("in-use",)
        attached = row.attach_status == "attached"
        if not attached or not statuses.change(tx, row.id, allowed=allowed, now=now, **values):
            raise _wrong_status(row, "in-use and attached", "detach")

    await fenced.change(asked, f"volume:{volume_id}/detaching", act, verb="POST")


async def roll_detaching(asked: Asked, volume_id: str) -> None:
    """Turn a detaching volume back to in-use; any other is left alone (`os-roll_detaching`)."""

    def act(tx: Session) -> None:
        row = volumes.visible(tx, asked.who, volume_id)
        now, values = asked.volume.clock.now(), {"status": "in-use", **statuses.RETURNED}
        statuses.change(tx, row.id, allowed=("detaching",), now=now, **values)

    await fenced.change(asked, f"volume:{volume_id}/detaching", act, verb="DELETE")


async def attach(asked: Asked, volume_id: str, wanted: Attach) -> None:
    """Write down that a server or host has the volume (`os-attach`)."""

    def act(tx: Session) -> None:
        row = volumes.visible(tx, asked.who, volume_id)
        volumes.require(row, refused=("maintenance",))
        if row.readonly and wanted.mode != "ro":
            raise Invalid(
                f"Invalid volume: Volume {volume_id} is read-only and can be attached with mode "
                "ro alone. Nothing was changed.",
            )
        if not _has_already(tx, row, wanted):
            _attach(tx, asked, row, wanted)

    await fenced.change(asked, f"volume:{volume_id}/attaching", act, verb="POST")


def _attach(tx: Session, asked: Asked, row: VolumeRow, wanted: Attach) -> None:
    now = asked.volume.clock.now()
    reserving.check_room(tx, row.id)
    notices.send(tx, asked.volume, row.id, "attach.start")
    allowed = ("available", "attaching", *(["in-use"] if row.multiattach else []))
    changed = statuses.change(
        tx,
        row.id,
        allowed=allowed,
        now=now,
        status="in-use",
        attach_status="attached",
        attached_mode=wanted.mode,
        readonly=bool(row.readonly),
        **statuses.RETURNED,
    )
    if not changed:
        raise _wrong_status(row, " or ".join(allowed), "attach")
    tx.add(
        AttachmentRow(
            id=str(uuid.uuid4()),
            volume_id=row.id,
            project_id=row.project_id,
            server_id=wanted.server_id,
            user_id=asked.who.user_id,
            by_service=is_service(asked.who),
            attach_status="attached",
            attach_mode=wanted.mode,
            attached_host=wanted.host_name,
            mountpoint=wanted.mountpoint,
            attached_at=now,
            created_at=now,
            saga_id="",
            deleting=False,
            digest="",
            borrowed_by="",
            borrowed_for="",
        )
    )
    notices.send(tx, asked.volume, row.id, "attach.end")


async def detach(asked: Asked, volume_id: str, attachment_id: str | None) -> None:
    """Forget an attachment, ending its export if it has one (`os-detach`)."""
    volume = asked.volume
    chosen = await _choose(asked, volume_id, attachment_id)

    def begin(tx: Session) -> str:
        # An `os-attach` of who had the volume before comes too late from now on.
        fence.admit(tx, asked.operation, f"volume:{volume_id}/attaching", verb="DELETE")
        row = volumes.visible(tx, asked.who, volume_id)
        volumes.require(row, refused=("maintenance",))
        # The guard has let it go, and it is of the volume that was found visible.
        found = tx.get(AttachmentRow, chosen.id) if chosen else None
        if found is None:
            _unreserve(tx, asked, row)
            statuses.recompute(tx, volume_id, volume.clock.now())
            return ""
        return attachments.begin_deleting(tx, volume, asked.who, found).saga_id

    saga_id = await volume.sagas.submit(begin, patience_s=asked.patience_s)
    if saga_id:
        await volume.sagas.answered(saga_id)


async def force_detach(
    asked: Asked,
    volume_id: str,
    attachment_id: str | None,
    connector: Mapping[str, Any] | None,
) -> None:
    """End the exports to a host and forget the attachment (`os-force_detach`)."""
    await terminate_connection(asked, volume_id, connector, attachment_id=attachment_id)
    await detach(asked, volume_id, attachment_id)


async def initialize_connection(
    asked: Asked, volume_id: str, connector: Mapping[str, Any]
) -> dict[str, Any]:
    """Export the volume to a host and return its `connection_info`, nested."""
    volume, host = asked.volume, connections.check_connector(connector)
    export_id = str(uuid.uuid5(_EXPORTS, f"{volume_id}/{host}"))

    def begin(tx: Session) -> str:
        # It may be asked for again, so its answer is not kept.
        fence.admit(tx, asked.operation, _export_of(volume_id, host), verb="POST")
        row = volumes.visible(tx, asked.who, volume_id)
        volumes.require(row, refused=("maintenance",))
        made = _write_export(tx, asked, row, export_id, connector)
        notes = ConnectLegacy(
            export_id=export_id,
            volume_id=row.id,
            host=backends.host_of(tx, row.id),
            connector=dict(connector),
            made=made,
        )
        return volume.sagas.start(tx, CONNECT_LEGACY, notes, who=asked.who)

    saga_id = await volume.sagas.submit(begin, patience_s=asked.patience_s)
    await volume.sagas.answered(saga_id)
    return await volume.store.read(lambda tx: _read_connection(tx, asked, volume_id, export_id))


async def terminate_connection(
    asked: Asked,
    volume_id: str,
    connector: Mapping[str, Any] | None,
    *,
    attachment_id: str | None = None,
) -> None:
    """End the exports to a host, to all when the connector names none; then do `os-unreserve`."""
    volume = asked.volume
    if not is_service(asked.who):
        await _choose(asked, volume_id, attachment_id)
    host = connections.check_connector(connector) if connector and "host" in connector else ""

    def begin(tx: Session) -> list[str]:
        if host:
            fence.admit(tx, asked.operation, _export_of(volume_id, host), verb="DELETE")
        row = volumes.visible(tx, asked.who, volume_id)
        of_volume = ConnectLegacy(export_id="", volume_id=row.id, host=backends.host_of(tx, row.id))
        _unreserve(tx, asked, row)
        return [
            volume.sagas.start(tx, END_LEGACY, replace(of_volume, export_id=one), who=asked.who)
            for one in _exports_to(tx, asked, row.id, host)
        ]

    for saga_id in await volume.sagas.submit(begin, patience_s=asked.patience_s):
        await volume.sagas.answered(saga_id)


def _exports_to(tx: Session, asked: Asked, volume_id: str, host: str) -> list[str]:
    """Return the exports of a volume to a host, or all ("") of them; also those that are to come.

    Who waits to make one may have found the row of whoever had the export before, which has gone
    with that: then nothing but its operation tells of it. What ends it waits for that.
    """
    rows = select(ExportRow.id, ExportRow.host).where(ExportRow.volume_id == volume_id)
    found = {row.id: row.host for row in tx.execute(rows)}
    for saga_id in asked.volume.sagas.holders(tx, f"volume:{volume_id}"):
        mark = journal.load(tx, saga_id)
        if mark is not None and mark.name == CONNECT_LEGACY.name:
            coming = typed.convert(mark.notes, ConnectLegacy)
            found[coming.export_id] = coming.connector["host"]
    return [export_id for export_id, of_host in found.items() if host in ("", of_host)]


def _export_of(volume_id: str, host: str) -> str:
    return f"volume:{volume_id}/exports/{host}"


async def _choose(asked: Asked, volume_id: str, attachment_id: str | None) -> AttachmentRow | None:
    """Return the attachment meant, once the guard lets it go."""

    def look(tx: Session) -> Sequence[AttachmentRow]:
        volumes.visible(tx, asked.who, volume_id)
        mine = AttachmentRow.volume_id == volume_id
        query = select(AttachmentRow).where(or_(mine, AttachmentRow.id == attachment_id))
        return tx.execute(query).scalars().all()

    rows = await asked.volume.store.read(look)
    chosen = guard.choose(asked.who, rows, volume_id, attachment_id)
    if chosen is not None:
        await guard.allow_deleting(asked.volume, asked.who, chosen)
    return chosen


def _unreserve(tx: Session, asked: Asked, row: VolumeRow) -> None:
    if row.status == "attaching":
        has_any = attachments.of_volume(tx, row.id)
        values = {"status": "in-use" if has_any else "available", **statuses.RETURNED}
        now = asked.volume.clock.now()
        statuses.change(tx, row.id, allowed=("attaching",), now=now, **values)


def _has_already(tx: Session, row: VolumeRow, wanted: Attach) -> bool:
    rows = attachments.of_volume(tx, row.id)
    if wanted.server_id is not None:
        return any(found.server_id == wanted.server_id for found in rows)
    return any(
        found.server_id is None and found.attached_host == wanted.host_name for found in rows
    )


def _write_export(
    tx: Session, asked: Asked, row: VolumeRow, export_id: str, connector: Mapping[str, Any]
) -> bool:
    if tx.get(ExportRow, export_id) is not None:
        return False
    query = select(func.count()).select_from(ExportRow).where(ExportRow.volume_id == row.id)
    if tx.execute(query).scalar_one() >= _MOST:
        raise Invalid(
            f"Invalid volume: Volume {row.id} is exported to {_MOST} hosts, and no volume is to "
            "more. Nothing was connected; terminate connections that no host needs."
        )
    now = asked.volume.clock.now()
    fields = {"volume_id": row.id, "host": connector["host"], "created_at": now}
    tx.add(ExportRow(id=export_id, connector=dict(connector), **fields))
    tx.flush()
    return True


def _read_connection(tx: Session, asked: Asked, volume_id: str, export_id: str) -> dict[str, Any]:
    row = volumes.visible(tx, asked.who, volume_id)
    # Its id is made from the volume's, which was found visible.
    export = tx.get(ExportRow, export_id)
    if export is None or export.connection is None:
        # Somebody asked for the end of it while this was answered.
        raise Conflict(
            f"Resource conflict: The connection of volume {volume_id} was terminated while it was "
            "made. Ask again to connect the volume.",
        )
    nested = connections.open_nested(asked.volume.sealer, export.connection)
    mode = "ro" if row.readonly else "rw"
    return connections.dress(nested, mode=mode, connector=export.connector)


def _wrong_status(row: VolumeRow, wanted: str, doing: str) -> Invalid:
    return Invalid(
        f"Invalid volume: Volume {row.id} status must be {wanted} to {doing}, but it is "
        f"{row.status} and {row.attach_status}. Nothing was changed.{statuses.way_out(row.status)}",
    )
