"""Attachments: /attachments. Source: facts/block_storage.md 2.1 to 2.3."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Struct, UnsetType
from sqlalchemy.orm import Session

from mooring.errors import Invalid
from mooring.volume.attachments import attachments, sharing
from mooring.volume.attachments.reserving import NewAttachment
from mooring.volume.service import Volume
from mooring.volume.volumes import listing
from mooring.volume.wire import views
from mooring.volume.wire.api import queries
from mooring.volume.wire.api.values import Uuid, asked
from mooring.web.api import Api, Call, Reply
from mooring.web.bodies import Since
from mooring.web.identity import is_service

api = Api[Volume]()
_SHARED_SINCE = (3, 48)
"""The version in which volumes say whether their connections are shared; attachments, with whom."""


class AttachmentBody(Struct, frozen=True, forbid_unknown_fields=True):
    """An attachment to make."""

    volume_uuid: Uuid
    instance_uuid: Uuid | UnsetType = UNSET
    connector: dict[str, Any] | None = None
    mode: Annotated[Literal["rw", "ro"] | None, Since(3, 54)] = None


class ConnectorBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The connector of a host."""

    connector: dict[str, Any]


@api.post(
    "/attachments",
    AttachmentBody,
    key="attachment",
    only_key=True,
    policy="volume:attachment_create",
    since=(3, 27),
)
async def create_attachment(call: Call[Volume], body: AttachmentBody) -> Reply:
    """Reserve a volume for a server."""
    wanted = NewAttachment(
        volume_id=body.volume_uuid,
        server_id=None if body.instance_uuid is UNSET else body.instance_uuid,
        connector=body.connector or None,
        mode=body.mode,
        may_share_bootable=call.allowed("volume:multiattach_bootable_volume"),
    )
    return await _show(call, await attachments.create(asked(call), wanted))


@api.get("/attachments", policy=None, since=(3, 27))
async def list_attachments(call: Call[Volume]) -> Reply:
    """List without connections. There are no links: clients page until a page is empty."""
    query = queries.attachments(call)
    rows = await call.service.store.read(lambda tx: listing.attachments(tx, query))
    return Reply(200, {"attachments": [views.attachment_summary(row) for row in rows]})


@api.get("/attachments/detail", policy=None, since=(3, 27))
async def list_details(call: Call[Volume]) -> Reply:
    """List with connections, for those who may see them."""
    query = queries.attachments(call)
    rows = await call.service.store.read(lambda tx: listing.attachments(tx, query))
    return Reply(200, {"attachments": [views.attachment(call, row) for row in rows]})


@api.get("/attachments/{attachment_id}", policy=None, since=(3, 27))
async def show_attachment(call: Call[Volume]) -> Reply:
    """Show one, with its connection for those who may see it."""
    return await _show(call, call.path["attachment_id"])


@api.put(
    "/attachments/{attachment_id}",
    ConnectorBody,
    key="attachment",
    only_key=True,
    policy="volume:attachment_update",
    since=(3, 27),
)
async def update_attachment(call: Call[Volume], body: ConnectorBody) -> Reply:
    """Export the volume to a host."""
    if not body.connector:
        raise Invalid(
            "Invalid input for field/attribute connector. Value: {}. It has no properties.",
        )
    attachment_id = call.path["attachment_id"]
    await attachments.connect(asked(call), attachment_id, body.connector)
    return await _show(call, attachment_id)


@api.delete("/attachments/{attachment_id}", policy="volume:attachment_delete", since=(3, 27))
async def delete_attachment(call: Call[Volume]) -> Reply:
    """End the export and forget the attachment; show what the volume has left."""
    left = await attachments.delete(asked(call), call.path["attachment_id"])
    return Reply(200, {"attachments": [views.attachment_summary(row) for row in left]})


@api.action(
    "/attachments/{attachment_id}/action",
    "os-complete",
    policy="volume:attachment_complete",
    since=(3, 44),
)
async def complete_attachment(call: Call[Volume]) -> Reply:
    """Tell that the server has the volume."""
    await attachments.complete(asked(call), call.path["attachment_id"])
    return Reply(204)


async def _show(call: Call[Volume], attachment_id: str) -> Reply:
    tells = call.version >= _SHARED_SINCE and (call.who.is_admin or is_service(call.who))

    def look(tx: Session) -> dict[str, Any]:
        row = attachments.visible(tx, call.who, attachment_id)
        shared = views.sharing(sharing.find(tx, row)) if tells else {}
        return {**views.attachment(call, row), **shared}

    return Reply(200, {"attachment": await call.service.store.read(look)})
