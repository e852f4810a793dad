"""/servers/{server_id}/os-volume_attachments (facts/compute.md 2)."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

from mooring.compute.service import Compute
from mooring.compute.tables import BlockDevice
from mooring.compute.volumes import swapping, volume_attachments
from mooring.compute.volumes.volume_attachments import NewAttachment, Update
from mooring.compute.wire.api import queries
from mooring.compute.wire.api.values import Truth, truth
from mooring.compute.wire.fields import Tag, Uuid
from mooring.web import paging
from mooring.web.api import Api, Call, Reply, Version
from mooring.web.bodies import Since

api = Api[Compute]()

PATH = "/servers/{server_id}/os-volume_attachments"
_ONE = f"{PATH}/{{volume_id}}"
_KEY = "volumeAttachment"
_RULE = "os_compute_api:os-volumes-attachments:"
_SHELVED_SINCE: Version = (2, 20)
_MULTIATTACH_SINCE: Version = (2, 60)
_TAGS_SINCE: Version = (2, 70)
_TERMINATION_SINCE: Version = (2, 79)
_ID_SHOWN_SINCE: Version = (2, 89)
"""Only what has an attachment is shown then: the delete guard reads exactly this."""
_UNAWAITED_SINCE: Version = (2, 101)

Device = Annotated[
    str, Meta(max_length=255, pattern=r"(^/dev/x{0,1}[a-z]{0,1}d{0,1})([a-z]+)[0-9]*\Z")
]


class Attach(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What to attach."""

    volume_id: Uuid
    device: Device | None = None
    tag: Annotated[Tag | UnsetType, Since(2, 49)] = UNSET
    delete_on_termination: Annotated[Truth, Since(2, 79)] = field(
        name="delete_on_termination", default=False
    )


class Change(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What PUT takes: up to 2.84 it is always another volume."""

    volume_id: Uuid
    id: Annotated[str | None, Since(2, 85)] = None
    server_id: Annotated[str | None, Since(2, 85)] = None
    device: Annotated[Device | None, Since(2, 85)] = None
    tag: Annotated[Tag | None, Since(2, 85)] = None
    delete_on_termination: Annotated[Truth | None, Since(2, 85)] = field(
        name="delete_on_termination", default=None
    )


@api.get(PATH, policy=f"{_RULE}index")
async def list_attachments(call: Call[Compute]) -> Reply:
    """List the volumes of a server, in the order in which they came."""
    queries.check_keys(call, ("limit", "offset"))
    page = paging.read(call.query)
    rows = await call.service.store.read(
        lambda tx: volume_attachments.page(
            tx,
            call.who,
            call.path["server_id"],
            by_attachment=call.version >= _ID_SHOWN_SINCE,
            offset=page.offset,
            limit=page.limit,
        )
    )
    return Reply(200, {"volumeAttachments": [view(row, call.version) for row in rows]})


@api.get(_ONE, policy=f"{_RULE}show")
async def show_attachment(call: Call[Compute]) -> Reply:
    """Show one of them. The volume service's delete guard reads `attachment_id` here."""
    server_id, volume_id = call.path["server_id"], call.path["volume_id"]
    by_attachment = call.version >= _ID_SHOWN_SINCE
    row = await call.service.store.read(
        lambda tx: volume_attachments.visible(
            tx, call.who, server_id, volume_id, by_attachment=by_attachment
        )
    )
    return Reply(200, {"volumeAttachment": view(row, call.version)})


@api.post(PATH, Attach, key=_KEY, only_key=True, policy=f"{_RULE}create")
async def attach(call: Call[Compute], wanted: Attach) -> Reply:
    """Attach a volume; answers with the device once the volume is reserved.

    From 2.101 on it answers without waiting for anything.
    """
    new = NewAttachment(
        volume_id=wanted.volume_id,
        device=wanted.device,
        tag=wanted.tag or None,
        delete_on_termination=truth(wanted.delete_on_termination),
        to_shelved=call.version >= _SHELVED_SINCE,
        multiattach=call.version >= _MULTIATTACH_SINCE,
        unawaited=call.version >= _UNAWAITED_SINCE,
    )
    return await _attach(call, new)


@api.put(_ONE, Change, key=_KEY, only_key=True, policy=f"{_RULE}swap", until=(2, 84))
async def swap(call: Call[Compute], wanted: Change) -> Reply:
    """Put another volume in the place of one; answers once the volume service has agreed."""
    return await _swap(call, wanted.volume_id)


@api.put(_ONE, Change, key=_KEY, only_key=True, policy=None, since=(2, 85))
async def change(call: Call[Compute], wanted: Change) -> Reply:
    """Change whether a volume goes with its server, and swap it where the body names another."""
    volume_id = call.path["volume_id"]
    is_swap = wanted.volume_id != volume_id
    call.require(f"{_RULE}swap" if is_swap else f"{_RULE}update")
    keep = wanted.delete_on_termination
    update = Update(
        id=wanted.id,
        server_id=wanted.server_id,
        device=wanted.device,
        tag=wanted.tag,
        delete_on_termination=None if keep is None else truth(keep),
    )
    server_id = call.path["server_id"]
    await volume_attachments.update(call.service, call.who, server_id, volume_id, update)
    return await _swap(call, wanted.volume_id) if is_swap else Reply(202)


@api.delete(_ONE, policy=f"{_RULE}delete")
async def detach(call: Call[Compute]) -> Reply:
    """Detach a volume; answers once the volume service has agreed."""
    server_id, volume_id = call.path["server_id"], call.path["volume_id"]
    from_shelved = call.version >= _SHELVED_SINCE
    await volume_attachments.detach(
        call.service, call.who, server_id, volume_id, from_shelved=from_shelved
    )
    return Reply(202)


def view(row: BlockDevice, version: Version) -> dict[str, Any]:
    """Return a volume of a server as GET shows it (facts/compute.md 2.2)."""
    shown: dict[str, Any] = {"volumeId": row.volume_id, "serverId": row.server_id}
    if row.device_name is not None:
        shown["device"] = row.device_name
    shown |= _grown(row, version)
    if version >= _ID_SHOWN_SINCE:
        return shown | {"attachment_id": row.attachment_id, "bdm_uuid": row.id}
    return shown | {"id": row.volume_id}


def _grown(row: BlockDevice, version: Version) -> dict[str, Any]:
    grown: dict[str, Any] = {}
    if version >= _TAGS_SINCE:
        grown["tag"] = row.tag
    if version >= _TERMINATION_SINCE:
        grown["delete_on_termination"] = row.delete_on_termination
    return grown


async def _attach(call: Call[Compute], wanted: NewAttachment) -> Reply:
    server_id = call.path["server_id"]
    row = await volume_attachments.attach(call.service, call.who, server_id, wanted)
    if wanted.unawaited:
        return Reply(202)
    answer = {
        "id": row.volume_id,
        "volumeId": row.volume_id,
        "serverId": row.server_id,
        "device": row.device_name,
        **_grown(row, call.version),
    }
    return Reply(200, {"volumeAttachment": answer})


async def _swap(call: Call[Compute], new_id: str) -> Reply:
    server_id, volume_id = call.path["server_id"], call.path["volume_id"]
    ids = (server_id, volume_id, new_id)
    await swapping.swap(call.service, call.who, ids, call.operation)
    return Reply(202)
