"""Shares and their metadata: /shares."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from mooring import limits
from mooring.errors import Invalid, NotFound
from mooring.share.service import Asked, Share
from mooring.share.shares import listing, properties, share_rows, shares
from mooring.share.wire import views
from mooring.share.wire.api import queries, values
from mooring.share.wire.api.metadata import MetadataOf, Rules
from mooring.share.wire.api.values import Flag, Metadata, Name, asked
from mooring.web import paging
from mooring.web.api import Api, Call, Reply

api = Api[Share]()


class ShareBody(Struct, frozen=True):
    """A share to make. `size` in GiB; clients send null for what they leave open."""

    share_proto: str
    size: int | str | None = None
    name: Name | None = None
    description: Name | None = None
    display_name: Name | None = None
    display_description: Name | None = None
    share_type: Name | None = None
    volume_type: Name | None = None
    metadata: Metadata | None = None
    is_public: Flag | None = None
    availability_zone: Name | None = None
    snapshot_id: str | None = None
    share_network_id: str | None = None
    share_group_id: str | None = None
    scheduler_hints: dict[str, Any] | None = None


class ChangesBody(Struct, frozen=True):
    """What PUT changes, under the names of old and new clients."""

    name: Name | UnsetType | None = UNSET
    description: Name | UnsetType | None = UNSET
    display_name: Name | UnsetType | None = UNSET
    display_description: Name | UnsetType | None = UNSET
    is_public: Flag | UnsetType = UNSET


@api.post("/shares", ShareBody, key="share", policy="share:create")
async def create_share(call: Call[Share], body: ShareBody) -> Reply:
    """Make a share."""
    share_id = await shares.create(asked(call), _read_wanted(call, body))
    return await _reply(call, share_id)


@api.get("/shares", policy="share:get_all")
async def list_shares(call: Call[Share]) -> Reply:
    """List ids and names."""
    return await _list(call, "/shares")


@api.get("/shares/detail", policy="share:get_all")
async def list_details(call: Call[Share]) -> Reply:
    """List everything."""
    return await _list(call, "/shares/detail")


@api.get("/shares/{share_id}", policy="share:get")
async def show_share(call: Call[Share]) -> Reply:
    """Show one."""
    return await _reply(call, call.path["share_id"])


@api.put("/shares/{share_id}", ChangesBody, key="share", policy="share:update")
async def update_share(call: Call[Share], body: ChangesBody) -> Reply:
    """Change name, description, or whether every project sees it."""
    public = body.is_public if body.is_public is UNSET else values.flag(body.is_public, "is_public")
    if public is True:
        call.require("share:set_public_share")
    changes = properties.Changes(
        name=body.display_name if body.name is UNSET else body.name,
        description=body.display_description if body.description is UNSET else body.description,
        is_public=public,
    )
    await properties.update(asked(call), call.path["share_id"], changes)
    return await _reply(call, call.path["share_id"])


@api.delete("/shares/{share_id}", policy="share:delete")
async def delete_share(call: Call[Share]) -> Reply:
    """Delete it, and all that is in it."""
    await shares.delete(asked(call), call.path["share_id"])
    return Reply(202)


def _read_wanted(call: Call[Share], body: ShareBody) -> shares.NewShare:
    _refuse_what_is_not_built(body)
    protocol, most = body.share_proto.upper(), limits.VOLUME_SIZE_GIB
    if protocol not in shares.PROTOCOLS:
        raise Invalid(
            f"Invalid share protocol provided: {body.share_proto[:64]}. It is either disabled or "
            f"unsupported. Available protocols: {', '.join(shares.PROTOCOLS)}. Nothing was made.",
        )
    public = body.is_public is not None and values.flag(body.is_public, "is_public")
    if public:
        call.require("share:create_public_share")
    size = body.size
    return shares.NewShare(
        protocol=protocol,
        size_gib=None if size is None else values.whole_number(size, "size", least=1, most=most),
        name=body.display_name if body.name is None else body.name,
        description=body.display_description if body.description is None else body.description,
        share_type=_read_type(body),
        zone=body.availability_zone,
        metadata=values.check_metadata(body.metadata or {}),
        is_public=public,
        snapshot_id=body.snapshot_id or None,
    )


def _read_type(body: ShareBody) -> str | None:
    if body.share_type and body.volume_type:
        raise Invalid(
            "Invalid input received: Give the share type as share_type or as volume_type, not as "
            "both. Nothing was made.",
        )
    return body.share_type or body.volume_type


def _refuse_what_is_not_built(body: ShareBody) -> None:
    if body.share_network_id:
        raise Invalid(
            "Invalid input received: A share network must not be given: the share types of this "
            "cloud have driver_handles_share_servers=False. Nothing was made.",
        )
    if body.share_group_id:
        raise NotFound(f"Share group {body.share_group_id} could not be found.")
    if body.scheduler_hints:
        raise Invalid(
            f"Invalid input received: The scheduler hints {', '.join(sorted(body.scheduler_hints))}"
            " are not built here. Nothing was made; use a share type, or an availability zone.",
        )


async def _reply(call: Call[Share], share_id: str) -> Reply:
    def look(tx: Any) -> tuple[Any, views.Around]:
        row = listing.share(tx, call.who, share_id)
        return row, queries.around(tx, call, [row])

    row, around = await call.service.store.read(look)
    return Reply(200, {"share": views.share(call, row, around)})


async def _list(call: Call[Share], path: str) -> Reply:
    query = queries.shares(call)
    with_count = call.version >= (2, 42) and values.read_flag(call.query, "with_count")
    detail = path.endswith("/detail")

    def look(tx: Any) -> tuple[listing.Rows, views.Around, int]:
        rows = listing.shares(tx, query)
        around = queries.around(tx, call, rows if detail else [])
        return rows, around, listing.count(tx, query) if with_count else 0

    rows, around, count = await call.service.store.read(look)
    shown = [
        views.share(call, row, around) if detail else views.share_summary(call, row) for row in rows
    ]
    ids = [row.id for row in rows]
    answer: dict[str, Any] = {"shares": shown}
    answer |= paging.links(call, path, query.page, ids, name="shares_links")
    if with_count:
        answer["count"] = count
    return Reply(200, answer)


async def _metadata(asked: Asked, share_id: str) -> dict[str, str]:
    read = asked.share.store.read
    return await read(lambda tx: share_rows.visible(tx, asked.who, share_id).labels)


METADATA = MetadataOf(
    "share",
    None,
    Rules(
        read="share:get_share_metadata",
        change="share:update_share_metadata",
        remove="share:delete_share_metadata",
    ),
    _metadata,
    properties.set_metadata,
    properties.delete_metadata,
)
METADATA.serve(api)
