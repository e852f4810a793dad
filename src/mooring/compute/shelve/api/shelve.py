"""The actions `shelve`, `shelveOffload` and `unshelve` of a server (facts/compute.md 1.4)."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from mooring.compute.service import Compute
from mooring.compute.shelve import shelving
from mooring.errors import Invalid
from mooring.web.api import Api, Call, Reply

api = Api[Compute]()

_PATH = "/servers/{server_id}/action"
_RULE = "os_compute_api:os-shelve"
_Name = Annotated[str, Meta(min_length=1, max_length=255)]


class ToZone(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a server is to be from now on (2.77 to 2.90)."""

    availability_zone: _Name


class ToPlace(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a server is to be: in a zone, or in none that is named, and now on a host (2.91)."""

    availability_zone: _Name | UnsetType | None = UNSET
    host: _Name | UnsetType = UNSET


@api.action(_PATH, "shelve", policy=f"{_RULE}:shelve")
async def shelve(call: Call[Compute]) -> Reply:
    """Switch a server off and take it from its host; its volumes wait for it."""
    await shelving.shelve(call.service, call.who, call.path["server_id"])
    return Reply(202)


@api.action(_PATH, "shelveOffload", policy=f"{_RULE}:shelve_offload")
async def shelve_offload(call: Call[Compute]) -> Reply:
    """Take a shelved server from its host."""
    await shelving.offload(call.service, call.who, call.path["server_id"])
    return Reply(202)


@api.action(_PATH, "unshelve", Any, policy=f"{_RULE}:unshelve", until=(2, 76))
async def unshelve(call: Call[Compute], body: Any) -> Reply:
    """Start a shelved server again, wherever there is room; what the body has is not looked at."""
    del body
    await shelving.unshelve(call.service, call.who, call.path["server_id"])
    return Reply(202)


@api.action(
    _PATH, "unshelve", ToZone | None, policy=f"{_RULE}:unshelve", since=(2, 77), until=(2, 90)
)
async def unshelve_to_zone(call: Call[Compute], body: ToZone | None) -> Reply:
    """Do the same, in a zone if one is named."""
    zone = UNSET if body is None else body.availability_zone
    await shelving.unshelve(call.service, call.who, call.path["server_id"], zone=zone)
    return Reply(202)


@api.action(_PATH, "unshelve", ToPlace | None, policy=f"{_RULE}:unshelve", since=(2, 91))
async def unshelve_to_place(call: Call[Compute], body: ToPlace | None) -> Reply:
    """Do the same, in a zone or on a host if those are named; a host is an administrator's."""
    body = ToPlace() if body is None else _require_any(body)
    host = None if body.host is UNSET else body.host
    if host is not None:
        call.require(f"{_RULE}:unshelve_to_host")
    await shelving.unshelve(
        call.service, call.who, call.path["server_id"], zone=body.availability_zone, host=host
    )
    return Reply(202)


def _require_any(body: ToPlace) -> ToPlace:
    if body.availability_zone is UNSET and body.host is UNSET:
        raise Invalid(
            "Nothing is said of where the server is to be. Nothing was changed; name a zone or a "
            "host, or send null."
        )
    return body
