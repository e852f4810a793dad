"""Who may delete an attachment that a server uses: only compute, which detaches it from the guest.

Source: facts/block_storage.md 2.7 (CVE-2023-2088), and stricter: while the server lists the volume,
deleting any attachment of it is refused, whatever attachment the server shows. An empty one may
keep the volume of a server that was put away: only an administrator ends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.errors import Conflict, Invalid, NotFound
from mooring.web.identity import is_service

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.volume.service import Volume
    from mooring.volume.tables import AttachmentRow
    from mooring.who import Who


async def allow_deleting(volume: Volume, who: Who, row: AttachmentRow) -> None:
    """Raise Conflict while the attachment's server lists the volume, Unavailable when unknown."""
    may_end = row.connection is None and who.is_admin
    if is_service(who) or row.server_id is None or may_end:
        return
    try:
        # Asked as the service itself: a caller who may not see the server learns nothing here, and
        # must not pass for want of sight.
        await volume.compute.show_volume_attachment(None, row.server_id, row.volume_id)
    except NotFound:
        return
    raise _using(row.server_id)


def choose(
    who: Who, rows: Sequence[AttachmentRow], volume_id: str, attachment_id: str | None
) -> AttachmentRow | None:
    """Return the attachment that a legacy call without its id, or with one, is about.

    `rows` are the volume's attachments and the one that `attachment_id` names. Raises Conflict when
    it cannot be told, Invalid when it belongs to another volume or a service must say which. To a
    service an unknown attachment is NotFound, which it takes for "gone".
    """
    if attachment_id is not None:
        named = next((row for row in rows if row.id == attachment_id), None)
        if named is None and is_service(who):
            raise NotFound(f"VolumeAttachment {attachment_id} could not be found.")
        if named is None:
            raise _using("")
        if named.volume_id != volume_id:
            raise Invalid(
                f"Invalid input received: Attachment {attachment_id} is not of volume {volume_id}. "
                "Nothing was changed.",
            )
        return named
    if len(rows) > 1:
        if is_service(who):
            raise Invalid(
                f"Invalid volume: Volume {volume_id} has more than one attachment. Nothing was "
                "changed; name the attachment.",
            )
        raise _using("")
    return rows[0] if rows else None


def _using(server_id: str) -> Conflict:
    return Conflict(
        f"ConflictNovaUsingAttachment: Detach volume from instance {server_id} using the Compute "
        "API",
    )
