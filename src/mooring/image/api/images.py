"""/images: the records, without their data."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from mooring import limits
from mooring.fence import table as fence
from mooring.fence.rules import Answer
from mooring.image import files, images, listing, patch, quotas
from mooring.image.api import views
from mooring.image.service import Image
from mooring.web import paging
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.image.records import Record

api = Api[Image]()


@api.get("/images", policy="get_images")
async def list_images(call: Call[Image]) -> Reply:
    """Return one page of the images that the filters let through."""
    page = _page(call)
    conditions = listing.read_conditions(call.query, call.who)
    found = await call.service.store.read(lambda tx: listing.find(tx, call.who, conditions, page))
    body: dict[str, Any] = {
        "images": [views.image(each) for each in found.images],
        "first": _link(call, None),
        "schema": "/v2/schemas/images",
    }
    if found.more and found.images:
        body["next"] = _link(call, found.images[-1].id)
    return Reply(200, body)


@api.post("/images", dict[str, Any], policy=None)
async def create_image(call: Call[Image], body: dict[str, Any]) -> Reply:
    """Make an image without data."""
    new = images.read_new(body, call.who)
    owner = new.attributes["owner"]
    target = {"project_id": owner, "owner": owner}
    call.require("add_image", target)
    visibility = new.attributes["visibility"]
    if visibility == "public":
        call.require("publicize_image", target)
    elif visibility == "community":
        call.require("communitize_image", target)
    quota, now = await quotas.find(call.service, owner), call.service.clock.now()
    # Not "images": two that make images under locks of their own are neither of them outdated.
    resource = f"saga:{call.operation.saga}" if call.operation else ""

    def write(tx: Session) -> Record:
        earlier = fence.admit(tx, call.operation, resource, verb="POST")
        if earlier is not None:
            return images.visible(tx, call.who, earlier.body["id"])
        quotas.check_count(tx, quota)
        made = images.create(tx, call.who, new, now)
        answer = Answer(status=201, body={"id": made.id})
        fence.record(tx, call.operation, resource, answer, [made.id], verb="POST")
        return made

    made = await call.service.store.write(write)
    return Reply(201, views.image(made), {"location": call.url(f"/images/{made.id}")})


@api.get("/images/{image_id}", policy=None)
async def show_image(call: Call[Image]) -> Reply:
    """Return one image."""
    image_id = call.path["image_id"]
    shown = await call.service.store.read(lambda tx: images.visible(tx, call.who, image_id))
    call.require("get_image", shown.target())
    return Reply(200, views.image(shown))


@api.get("/images/{image_id}/tasks", policy=None)
async def list_image_tasks(call: Call[Image]) -> Reply:
    """List the tasks that are at work on an image: uploads are none, and imports are not built."""
    image_id = call.path["image_id"]
    shown = await call.service.store.read(lambda tx: images.visible(tx, call.who, image_id))
    call.require("get_image", shown.target())
    return Reply(200, {"tasks": []})


@api.patch("/images/{image_id}", list[Any], policy=None, media=patch.MEDIA)
async def change_image(call: Call[Image], body: list[Any]) -> Reply:
    """Change attributes and properties, all or none."""
    changes = patch.read(body, call.request.headers.get("content-type", ""))
    image_id, now = call.path["image_id"], call.service.clock.now()

    def write(tx: Session) -> Record:
        return images.change(tx, call.who, image_id, changes, now=now, require=call.require)

    return Reply(200, views.image(await call.service.store.write(write)))


@api.delete("/images/{image_id}", policy=None)
async def delete_image(call: Call[Image]) -> Reply:
    """Delete an image with its data."""
    image_id = call.path["image_id"]
    now = call.service.clock.now()
    names = await call.service.store.write(
        lambda tx: images.remove(tx, call.who, image_id, now=now, require=call.require)
    )
    # After the commit: a file that a crash leaves here belongs to nobody, and goes at the start.
    await asyncio.to_thread(files.remove, call.service.directory, names)
    return Reply(204)


@api.post("/images/{image_id}/actions/deactivate", policy=None)
async def deactivate_image(call: Call[Image]) -> Reply:
    """Keep everybody but administrators from reading the data."""
    return await _set_active(call, active=False)


@api.post("/images/{image_id}/actions/reactivate", policy=None)
async def reactivate_image(call: Call[Image]) -> Reply:
    """Let the data be read again."""
    return await _set_active(call, active=True)


@api.put("/images/{image_id}/tags/{tag}", policy=None)
async def add_tag(call: Call[Image]) -> Reply:
    """Mark an image with a tag."""
    image_id, tag = call.path["image_id"], call.path["tag"]
    now = call.service.clock.now()

    def write(tx: Session) -> None:
        images.add_tag(tx, call.who, image_id, tag, now=now, require=call.require)

    await call.service.store.write(write)
    return Reply(204)


@api.delete("/images/{image_id}/tags/{tag}", policy=None)
async def remove_tag(call: Call[Image]) -> Reply:
    """Take a tag away."""
    image_id, tag = call.path["image_id"], call.path["tag"]
    now = call.service.clock.now()

    def write(tx: Session) -> None:
        images.remove_tag(tx, call.who, image_id, tag, now=now, require=call.require)

    await call.service.store.write(write)
    return Reply(204)


async def _set_active(call: Call[Image], *, active: bool) -> Reply:
    image_id, now = call.path["image_id"], call.service.clock.now()

    def write(tx: Session) -> None:
        images.set_active(tx, call.who, image_id, active=active, now=now, require=call.require)

    await call.service.store.write(write)
    return Reply(204)


def _page(call: Call[Image]) -> paging.Page:
    page = paging.read(call.query, keys=listing.SORT_KEYS)
    if "limit" in call.query:
        return page
    return paging.Page(limits.IMAGE_PAGE_ROWS, page.marker, page.offset, page.sort)


def _link(call: Call[Image], marker: str | None) -> str:
    """Return the path of a page of the same list: the first one, or that behind the marker."""
    kept = [(name, value) for name, value in call.query.multi_items() if name != "marker"]
    query = urlencode(kept if marker is None else [*kept, ("marker", marker)])
    return f"/v2/images?{query}" if query else "/v2/images"
