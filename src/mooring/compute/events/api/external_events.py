"""POST /os-server-external-events: news from other services (facts/compute.md 8)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from mooring import limits
from mooring.compute.events import external_events
from mooring.compute.service import Compute
from mooring.compute.wire.api.values import canonical_uuid
from mooring.compute.wire.fields import Uuid
from mooring.web.api import Api, Call, Reply
from mooring.web.bodies import Was

api = Api[Compute]()

_Since21 = Literal[
    "network-changed", "network-vif-deleted", "network-vif-plugged", "network-vif-unplugged"
]
_Since251 = Literal[_Since21, "volume-extended"]
_Since276 = Literal[_Since251, "power-update"]
_Since282 = Literal[_Since276, "accelerator-request-bound"]
_Since293 = Literal[_Since282, "volume-reimaged"]
_ANSWERED_SINCE = (2, 105)
"""From here on, volume-extended is answered by the volume service's completion action."""


class Event(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One event for one server."""

    server_uuid: Uuid
    name: Annotated[
        _Since293,
        Was(_Since282, (2, 92)),
        Was(_Since276, (2, 81)),
        Was(_Since251, (2, 75)),
        Was(_Since21, (2, 50)),
    ]
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
    sender = external_events.Sender(call.who, call.version >= _ANSWERED_SINCE, call.operation)
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
