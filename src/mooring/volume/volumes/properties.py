"""What a client may change of a volume without touching its storage.

Source: facts/block_storage.md 1.7. Policy is checked by the route. Errors: NotFound, and Invalid
for a state that forbids the change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from msgspec import UNSET, Struct, UnsetType
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring import labels
from mooring.errors import Invalid
from mooring.volume.attachments import connections
from mooring.volume.migration import copy_rows
from mooring.volume.tables import AttachmentRow, VolumeRow
from mooring.volume.volumes import notices, statuses, volumes
from mooring.volume.volumes.sagas.reset_notes import ResetStatus
from mooring.volume.volumes.sagas.reset_status import RESET_STATUS

if TYPE_CHECKING:
    from mooring.volume.attachments.reserving import Asked

T = TypeVar("T")

_BUSY = ("maintenance",)
_NO_METADATA = ("maintenance", "uploading")


class Changes(Struct, frozen=True, kw_only=True):
    """What PUT /volumes/{id} may change; metadata is replaced as a whole."""

    name: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    metadata: dict[str, str] | UnsetType = UNSET


class Reset(Struct, frozen=True, kw_only=True):
    """What `os-reset_status` sets; an empty word is left as it is."""

    status: str = ""
    attach_status: str = ""
    migration_status: str = ""


async def update(asked: Asked, volume_id: str, changes: Changes) -> None:
    """Change name, description or metadata."""

    def change(row: VolumeRow) -> None:
        if changes.name is not UNSET:
            row.name = changes.name
        if changes.description is not UNSET:
            row.description = changes.description
        if changes.metadata is not UNSET:
            row.labels = labels.merge(row.labels, changes.metadata, whole=True)

    await _change(asked, volume_id, change, refused=_BUSY, event="update")


async def set_metadata(
    asked: Asked, volume_id: str, metadata: Mapping[str, str], *, whole: bool
) -> dict[str, str]:
    """Merge metadata into a volume's, or put it in its place; return what it has now."""

    def change(row: VolumeRow) -> dict[str, str]:
        row.labels = labels.merge(row.labels, metadata, whole=whole)
        return row.labels

    return await _change(asked, volume_id, change, refused=_NO_METADATA)


async def delete_metadata(asked: Asked, volume_id: str, key: str) -> None:
    """Remove one item. Raises NotFound when there is none."""

    def change(row: VolumeRow) -> None:
        row.labels = labels.without(row.labels, key, f"Volume {volume_id}")

    await _change(asked, volume_id, change, refused=_NO_METADATA)


async def set_image_metadata(
    asked: Asked, volume_id: str, metadata: Mapping[str, str]
) -> dict[str, str]:
    """Merge into what the volume shows of its image; return all of it."""

    def change(row: VolumeRow) -> dict[str, str]:
        row.image_metadata = labels.merge(row.image_metadata, metadata, whole=False)
        return row.image_metadata

    return await _change(asked, volume_id, change)


async def unset_image_metadata(asked: Asked, volume_id: str, key: str) -> None:
    """Remove one item. Raises NotFound when there is none."""

    def change(row: VolumeRow) -> None:
        row.image_metadata = labels.without(
            row.image_metadata, key, f"Volume {volume_id}", kind="image metadata"
        )

    await _change(asked, volume_id, change)


async def set_bootable(asked: Asked, volume_id: str, *, bootable: bool) -> None:
    """Say whether servers may boot from it."""

    def change(row: VolumeRow) -> None:
        row.bootable = bootable

    await _change(asked, volume_id, change, refused=_BUSY)


async def set_readonly(asked: Asked, volume_id: str, *, readonly: bool) -> None:
    """Say whether it may be attached read-only alone. Raises Invalid unless it is available."""

    def change(row: VolumeRow) -> None:
        if row.status != "available":
            raise Invalid(
                f"Invalid volume: Volume {volume_id} status must be available to update readonly "
                f"flag, but current status is: {row.status}. Nothing was changed."
                f"{statuses.way_out(row.status)}",
            )
        row.readonly = readonly

    await _change(asked, volume_id, change)


async def reset_status(asked: Asked, volume_id: str, reset: Reset) -> None:
    """Set statuses by hand, ending whatever is at work on the volume. Raises Invalid."""
    volume, who = asked.volume, asked.who

    def begin(tx: Session) -> str:
        row = volumes.visible(tx, who, volume_id)
        copy_rows.refuse_copy(row)
        if reset.status == "in-use" and not _has_attachment(tx, volume_id):
            raise Invalid(
                f"Invalid volume: Volume {volume_id} has no attachments and cannot be reset to "
                "in-use. Nothing was changed.",
            )
        detached = reset.attach_status == "detached"
        notes = ResetStatus(
            volume_id=volume_id,
            user_id=who.user_id,
            status=reset.status,
            attach_status=reset.attach_status,
            migration_status=reset.migration_status,
            backend=row.backend or "",
            exports=connections.find_exports(tx, volume_id) if detached else [],
        )
        return volume.sagas.start(tx, RESET_STATUS, notes, who=who)

    await volume.sagas.answered(await volume.sagas.submit(begin))


async def _change(
    asked: Asked,
    volume_id: str,
    change: Callable[[VolumeRow], T],
    *,
    refused: tuple[str, ...] = (),
    event: str = "",
) -> T:
    """Change a volume; `event` is what the change is called where it is notified of."""

    def apply(tx: Session) -> T:
        row = volumes.visible(tx, asked.who, volume_id)
        volumes.require(row, refused=refused)
        if event:
            notices.send(tx, asked.volume, volume_id, f"{event}.start")
        answer = change(row)
        row.updated_at = asked.volume.clock.now()
        if event:
            notices.send(tx, asked.volume, volume_id, f"{event}.end")
        return answer

    return await asked.volume.store.write(apply)


def _has_attachment(tx: Session, volume_id: str) -> bool:
    query = select(AttachmentRow.id).where(AttachmentRow.volume_id == volume_id)
    return tx.execute(query.limit(1)).first() is not None
