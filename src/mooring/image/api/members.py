"""/images/{image_id}/members: the projects that an image is shared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from mooring.image import members
from mooring.image.api import views
from mooring.image.attributes import Text
from mooring.image.service import Image
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

api = Api[Image]()

_ALL = "/images/{image_id}/members"
_ONE = "/images/{image_id}/members/{member_id}"


class NewMember(Struct, frozen=True):
    """The project to share with."""

    member: Annotated[Text, Meta(min_length=1)]


class MemberStatus(Struct, frozen=True):
    """What the receiving project thinks of the image."""

    status: Literal["pending", "accepted", "rejected"]


@api.get(_ALL, policy=None)
async def list_members(call: Call[Image]) -> Reply:
    """Return whom an image is shared with."""
    image_id = call.path["image_id"]
    found = await call.service.store.read(
        lambda tx: members.listed(tx, call.who, image_id, require=call.require)
    )
    body = {"members": [views.member(each) for each in found], "schema": "/v2/schemas/members"}
    return Reply(200, body)


@api.post(_ALL, NewMember, policy=None)
async def add_member(call: Call[Image], body: NewMember) -> Reply:
    """Share an image with a project."""
    image_id, now = call.path["image_id"], call.service.clock.now()

    def write(tx: Session) -> members.Member:
        return members.add(tx, call.who, image_id, body.member, now=now, require=call.require)

    return Reply(200, views.member(await call.service.store.write(write)))


@api.get(_ONE, policy=None)
async def show_member(call: Call[Image]) -> Reply:
    """Return one project that an image is shared with."""
    image_id, member_id = call.path["image_id"], call.path["member_id"]
    shown = await call.service.store.read(
        lambda tx: members.find(tx, call.who, image_id, member_id, require=call.require)
    )
    return Reply(200, views.member(shown))


@api.put(_ONE, MemberStatus, policy=None)
async def set_member_status(call: Call[Image], body: MemberStatus) -> Reply:
    """Accept or reject an image that was shared."""
    image_id, member_id = call.path["image_id"], call.path["member_id"]
    who, now = call.who, call.service.clock.now()

    def write(tx: Session) -> members.Member:
        return members.set_status(
            tx, who, image_id, member_id, status=body.status, now=now, require=call.require
        )

    return Reply(200, views.member(await call.service.store.write(write)))


@api.delete(_ONE, policy=None)
async def remove_member(call: Call[Image]) -> Reply:
    """Stop to share an image with a project."""
    image_id, member_id = call.path["image_id"], call.path["member_id"]
    await call.service.store.write(
        lambda tx: members.remove(tx, call.who, image_id, member_id, require=call.require)
    )
    return Reply(204)
