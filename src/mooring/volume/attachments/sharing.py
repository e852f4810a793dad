"""Who shares a host's connection to storage with an attachment (specs 001, Use Cases).

A connection is of one host and one backend, the `service_uuid` of its volumes. Where the backend's
volumes share it, all attachments there are reached by the same one; so it is with a share that is
mounted. Upstream says of the volume alone whether it is so (facts/block_storage.md 2.8 and 2.9).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from mooring.store.prepared import Prepared
from mooring.volume.backends import targets
from mooring.volume.tables import AttachmentRow, BackendRow, VolumeRow

if TYPE_CHECKING:
    from mooring.saga.define import Run
    from mooring.volume.service import Volume

_backend_of = Prepared[tuple[str, str]](
    select(BackendRow.service_id, BackendRow.protocol)
    .join(VolumeRow, VolumeRow.backend == BackendRow.name)
    .where(VolumeRow.id == bindparam("of_volume"))
)
_others = Prepared[tuple[str, str, str | None]](
    select(AttachmentRow.id, AttachmentRow.volume_id, AttachmentRow.server_id)
    .join(VolumeRow, VolumeRow.id == AttachmentRow.volume_id)
    .join(BackendRow, BackendRow.name == VolumeRow.backend)
    .where(
        BackendRow.service_id == bindparam("of_service"),
        AttachmentRow.attached_host == bindparam("of_host"),
        AttachmentRow.connection.is_not(None),
        AttachmentRow.id != bindparam("of_id"),
    )
    .order_by(AttachmentRow.created_at, AttachmentRow.id)
)


class Other(Struct, frozen=True):
    """Another attachment that the connection serves."""

    attachment_id: str
    volume_id: str
    server_id: str | None


class Sharing(Struct, frozen=True):
    """Whether an attachment's connection is one that is shared, None: nobody can tell; with whom.

    `service_id` is what the lock over it is called by; None before the volume lies anywhere.
    """

    shared: bool | None
    service_id: str | None
    others: list[Other]


def find(tx: Session, attachment: AttachmentRow) -> Sharing:
    """Return it for an attachment, connected or not."""
    found = _backend_of.first(tx, of_volume=attachment.volume_id)
    if found is None:
        return Sharing(shared=False, service_id=None, others=[])
    service_id, protocol = found
    shared = targets.are_reached_by_one(protocol)
    if shared is False or attachment.connection is None or not attachment.attached_host:
        return Sharing(shared, service_id, [])
    given = {"of_service": service_id, "of_host": attachment.attached_host}
    rows = _others.all(tx, **given, of_id=attachment.id)
    return Sharing(shared, service_id, [Other(*row) for row in rows])


async def name_backend(
    run: Run[Volume], volume_id: str, connection: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return connection data that name the backend where its volumes share a host's connection.

    The host holds a lock of that name over connecting and disconnecting.
    """
    data: Mapping[str, Any] = connection.get("data") or {}
    if data.get("shared_targets", False) is False:
        return connection
    found = await run.service.store.read(lambda tx: _backend_of.first(tx, of_volume=volume_id))
    return (
        connection
        if found is None
        else {
            **connection,
            "data": {**data, "service_uuid": found[0]},
        }
    )
