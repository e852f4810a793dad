"""/servers/{server_id}/shares, since 2.97 (facts/compute.md 7.1)."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from mooring.compute.service import Compute
from mooring.compute.shares import server_shares
from mooring.compute.shares.server_shares import NewShare
from mooring.compute.tables import ShareMapping
from mooring.compute.wire.api import queries
from mooring.compute.wire.fields import Uuid
from mooring.web.api import Api, Call, Reply

api = Api[Compute]()

PATH = "/servers/{server_id}/shares"
_ONE = f"{PATH}/{{share_id}}"
_RULE = "os_compute_api:os-server-shares:"
_SINCE = (2, 97)

ShareTag = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9-]*\Z")]


class AttachShare(Struct, frozen=True, forbid_unknown_fields=True):
    """What to attach; the guest finds it by the tag, which is the share's id unless it is given."""

    share_id: Uuid
    tag: ShareTag | None = None


@api.get(PATH, policy=f"{_RULE}index", since=_SINCE)
async def list_shares(call: Call[Compute]) -> Reply:
    """List the shares of a server, in the order in which they came."""
    queries.check_keys(call, ())
    server_id = call.path["server_id"]
    rows = await call.service.store.read(lambda tx: server_shares.page(tx, call.who, server_id))
    return Reply(200, {"shares": [_shown(row) for row in rows]})


@api.get(_ONE, policy=f"{_RULE}show", since=_SINCE)
async def show_share(call: Call[Compute]) -> Reply:
    """Show one of them."""
    queries.check_keys(call, ())
    server_id, share_id = call.path["server_id"], call.path["share_id"]
    row = await call.service.store.read(
        lambda tx: server_shares.visible(tx, call.who, server_id, share_id)
    )
    return Reply(200, {"share": _whole(call, row)})


@api.post(PATH, AttachShare, key="share", only_key=True, policy=f"{_RULE}create", since=_SINCE)
async def attach_share(call: Call[Compute], wanted: AttachShare) -> Reply:
    """Attach a share to a server that is stopped; it is `inactive` once its host is let in."""
    new = NewShare(share_id=wanted.share_id, tag=wanted.tag or wanted.share_id)
    row = await server_shares.attach(call.service, call.who, call.path["server_id"], new)
    return Reply(201, {"share": _whole(call, row)})


@api.delete(_ONE, policy=f"{_RULE}delete", since=_SINCE)
async def detach_share(call: Call[Compute]) -> Reply:
    """Detach a share from a server that is off; it is gone once its host is kept out."""
    server_id, share_id = call.path["server_id"], call.path["share_id"]
    await server_shares.detach(call.service, call.who, server_id, share_id)
    return Reply(200)


def _shown(row: ShareMapping) -> dict[str, Any]:
    return {"share_id": row.share_id, "status": row.status, "tag": row.tag}


def _whole(call: Call[Compute], row: ShareMapping) -> dict[str, Any]:
    """Return a mapping with what administrators see besides."""
    shown = _shown(row)
    if call.who.is_admin:
        shown |= {"uuid": row.id, "export_location": row.export_location}
    return shown
