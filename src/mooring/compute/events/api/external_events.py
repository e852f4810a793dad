"""POST /os-server-external-events: news from other services (facts/compute.md 8)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from mooring import limits
from mooring.compute.events import external_events
from mooring.compute.service import Compute
from mooring.compute.wire.api.values import Uuid, canonical_uuid
from mooring.errors import Invalid
from mooring.web.api import Api, Call, Reply, Version

api = Api[Compute]()

SINCE: dict[str, Version] = {
    "network-changed": (2, 1),
    "network-vif-deleted": (2, 1),
    "network-vif-plugged": (2, 1),
    "network-vif-unplugged": (2, 1),
    "volume-extended": (2, 51),
    "power-update": (2, 76),
    "accelerator-request-bound": (2, 82),
    "volume-reimaged": (2, 93),
}
"""Every event with the first version that knows it."""


class Event(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One event for one server."""

    server_uuid: Uuid
    name: str
    status: Literal["failed", "completed", "in-progress"] | UnsetType = UNSET
    tag: Annotated[str, Meta(max_length=255)] | UnsetType = UNSET


class Events(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /os-server-external-events."""

    events: Annotated[list[Event], Meta(min_length=1, max_length=limits.COMPUTE_EVENTS)]


@api.post(
    "/os-server-external-events", Events, policy="os_compute_api:os-server-external-events:create"
)
async def take_events(call: Call[Compute], body: Events) -> Reply:
    """Take events: 200 when every one is accepted, else 207; each tells its own code."""
    for event in body.events:
        if event.name not in SINCE or call.version < SINCE[event.name]:
            raise Invalid(f"Invalid input for field/attribute name. Value: {event.name[:64]}.")
    news = [
        external_events.News(
            server_id=canonical_uuid(event.server_uuid) or event.server_uuid,
            name=event.name,
            status=event.status or "completed",
            tag=event.tag or "",
        )
        for event in body.events
    ]
    compute = call.service
    sender = external_events.Sender(call.who, call.version, call.operation)
    codes = await compute.store.write(lambda tx: external_events.take(tx, compute, sender, news))
    answers = [_answer(event, code) for event, code in zip(body.events, codes, strict=True)]
    return Reply(200 if all(code == 200 for code in codes) else 207, {"events": answers})


def _answer(event: Event, code: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "server_uuid": event.server_uuid,
        "name": event.name,
        "status": "completed" if code == 200 else "failed",
        "code": code,
    }
    if event.tag is not UNSET:
        body["tag"] = event.tag
    return body
