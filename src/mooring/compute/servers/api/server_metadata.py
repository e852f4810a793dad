"""/servers/{server_id}/metadata and /tags (facts/compute.md 10.1)."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from msgspec import Meta
from sqlalchemy.orm import Session

from mooring import limits
from mooring.compute.servers import metadata, server_changes, servers
from mooring.compute.service import Compute
from mooring.compute.wire.api.values import Metadata
from mooring.compute.wire.fields import Tag
from mooring.errors import Invalid, NotFound
from mooring.web.api import Api, Call, Reply

api = Api[Compute]()

_METADATA = "os_compute_api:server-metadata:"
_TAGS = "os_compute_api:os-server-tags:"
_TAGS_SINCE = (2, 26)


Tags = Annotated[list[Tag], Meta(max_length=limits.COMPUTE_TAGS)]


@api.get("/servers/{server_id}/metadata", policy=f"{_METADATA}index")
async def list_metadata(call: Call[Compute]) -> Reply:
    """All metadata of a server."""
    return Reply(200, {"metadata": await _metadata(call)})


@api.post(
    "/servers/{server_id}/metadata",
    Metadata,
    key="metadata",
    only_key=True,
    policy=f"{_METADATA}create",
)
async def add_metadata(call: Call[Compute], body: Metadata) -> Reply:
    """Add or change items; others stay."""
    return Reply(200, {"metadata": await _change(call, body)})


@api.put(
    "/servers/{server_id}/metadata",
    Metadata,
    key="metadata",
    only_key=True,
    policy=f"{_METADATA}update_all",
)
async def replace_metadata(call: Call[Compute], body: Metadata) -> Reply:
    """Put these items in the place of all there are."""
    return Reply(200, {"metadata": await _change(call, body, replace=True)})


@api.get("/servers/{server_id}/metadata/{key}", policy=f"{_METADATA}show")
async def show_metadata_item(call: Call[Compute]) -> Reply:
    """One item."""
    found, key = await _metadata(call), call.path["key"]
    if key not in found:
        raise NotFound("Metadata item was not found")
    return Reply(200, {"meta": {key: found[key]}})


@api.put(
    "/servers/{server_id}/metadata/{key}",
    Metadata,
    key="meta",
    only_key=True,
    policy=f"{_METADATA}update",
)
async def set_metadata_item(call: Call[Compute], body: Metadata) -> Reply:
    """Set one item."""
    if set(body) != {call.path["key"]}:
        raise Invalid("Request body and URI mismatch: the body has the one key that the URL names.")
    await _change(call, body)
    return Reply(200, {"meta": body})


@api.delete("/servers/{server_id}/metadata/{key}", policy=f"{_METADATA}delete")
async def delete_metadata_item(call: Call[Compute]) -> Reply:
    """Remove one item."""
    now = call.service.clock.now()
    await call.service.store.write(
        lambda tx: server_changes.delete_metadata(
            tx, call.who, call.path["server_id"], call.path["key"], now
        )
    )
    return Reply(204)


@api.get("/servers/{server_id}/tags", policy=f"{_TAGS}index", since=_TAGS_SINCE)
async def list_tags(call: Call[Compute]) -> Reply:
    """All tags of a server."""
    return Reply(200, {"tags": await _tags(call)})


@api.put(
    "/servers/{server_id}/tags",
    Tags,
    key="tags",
    only_key=True,
    policy=f"{_TAGS}update_all",
    since=_TAGS_SINCE,
)
async def replace_tags(call: Call[Compute], body: Tags) -> Reply:
    """Put these tags in the place of all there are."""
    return Reply(200, {"tags": await _replace_tags(call, body)})


@api.delete("/servers/{server_id}/tags", policy=f"{_TAGS}delete_all", since=_TAGS_SINCE)
async def delete_tags(call: Call[Compute]) -> Reply:
    """Remove all tags."""
    await _replace_tags(call, [])
    return Reply(204)


@api.get("/servers/{server_id}/tags/{tag}", policy=f"{_TAGS}show", since=_TAGS_SINCE)
async def check_tag(call: Call[Compute]) -> Reply:
    """Tell whether the server has a tag: 204 or 404."""
    if call.path["tag"] not in await _tags(call):
        server_id, tag = call.path["server_id"], call.path["tag"]
        raise NotFound(f"Server {server_id} has no tag '{tag}'")
    return Reply(204)


@api.put("/servers/{server_id}/tags/{tag}", policy=f"{_TAGS}update", since=_TAGS_SINCE)
async def add_tag(call: Call[Compute]) -> Reply:
    """Give the server one more tag: 201 when it is new."""
    server_id, tag, now = call.path["server_id"], call.path["tag"], call.service.clock.now()
    if not 0 < len(tag) <= 60 or set(tag) & {",", "/"}:
        raise Invalid(f"Invalid input for field/attribute tag: {tag[:64]}. 1 to 60, no ',' or '/'.")
    added = await call.service.store.write(
        lambda tx: server_changes.add_tag(tx, call.who, server_id, tag, now)
    )
    if not added:
        return Reply(204)
    return Reply(
        201, headers={"location": call.url(f"/servers/{server_id}/tags/{quote(tag, safe='')}")}
    )


@api.delete("/servers/{server_id}/tags/{tag}", policy=f"{_TAGS}delete", since=_TAGS_SINCE)
async def delete_tag(call: Call[Compute]) -> Reply:
    """Remove one tag."""
    server_id, tag, now = call.path["server_id"], call.path["tag"], call.service.clock.now()
    await call.service.store.write(
        lambda tx: server_changes.delete_tag(tx, call.who, server_id, tag, now)
    )
    return Reply(204)


async def _metadata(call: Call[Compute]) -> dict[str, str]:
    def read(tx: Session) -> dict[str, str]:
        server = servers.visible(tx, call.who, call.path["server_id"])
        return metadata.read(tx, server.id)

    return await call.service.store.read(read)


async def _change(
    call: Call[Compute], items: dict[str, str], *, replace: bool = False
) -> dict[str, str]:
    now, server_id = call.service.clock.now(), call.path["server_id"]
    return await call.service.store.write(
        lambda tx: server_changes.change_metadata(
            tx, call.who, server_id, items, now=now, replace=replace
        )
    )


async def _tags(call: Call[Compute]) -> list[str]:
    def read(tx: Session) -> list[str]:
        server = servers.visible(tx, call.who, call.path["server_id"])
        return server_changes.read_tags(tx, server.id)

    return await call.service.store.read(read)


async def _replace_tags(call: Call[Compute], tags: list[str]) -> list[str]:
    now, server_id = call.service.clock.now(), call.path["server_id"]
    return await call.service.store.write(
        lambda tx: server_changes.replace_tags(tx, call.who, server_id, tags, now)
    )
