"""The actions `migrate`, `resize`, `confirmResize` and `revertResize` (facts/compute.md 1.4)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from mooring.compute.moves import cold_migrating
from mooring.compute.service import Compute
from mooring.web.api import Api, Call, Reply

api = Api[Compute]()

PATH = "/servers/{server_id}/action"
_RULE = "os_compute_api:"
_MIGRATE = f"{_RULE}os-migrate-server:migrate"
_Host = Annotated[str, Meta(min_length=1, max_length=255)]
_SHARES_SINCE = (2, 106)
"""From this microversion on servers with shares move while they are off, too (specs 003)."""
_Flavor = Annotated[str, Meta(min_length=1, max_length=255)] | int


class Migrate(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a server is to go."""

    host: _Host | None


class Resize(Struct, frozen=True, forbid_unknown_fields=True):
    """The flavor that a server is to have."""

    flavor_id: _Flavor = field(name="flavorRef")
    disk_config: Literal["AUTO", "MANUAL"] | None = field(name="OS-DCF:diskConfig", default=None)


@api.action(PATH, "migrate", policy=_MIGRATE, until=(2, 55))
async def migrate(call: Call[Compute]) -> Reply:
    """Move a server to another host; it is off meanwhile."""
    await cold_migrating.migrate(
        call.service, call.who, call.path["server_id"], None, with_shares=False
    )
    return Reply(202)


@api.action(PATH, "migrate", Migrate | None, policy=_MIGRATE, since=(2, 56))
async def migrate_to(call: Call[Compute], body: Migrate | None) -> Reply:
    """Do the same, to a host of the caller's choice."""
    host = body.host if body else None
    if host is not None:
        call.require(f"{_MIGRATE}:host")
    with_shares = call.version >= _SHARES_SINCE
    await cold_migrating.migrate(
        call.service, call.who, call.path["server_id"], host, with_shares=with_shares
    )
    return Reply(202)


@api.action(PATH, "resize", Resize, policy=f"{_RULE}servers:resize")
async def resize(call: Call[Compute], body: Resize) -> Reply:
    """Give a server another flavor, on its host or on another one."""
    wanted = cold_migrating.NewSize(
        flavor_id=str(body.flavor_id),
        disk_config=body.disk_config,
        with_shares=call.version >= _SHARES_SINCE,
    )
    await cold_migrating.resize(call.service, call.who, call.path["server_id"], wanted)
    return Reply(202)


@api.action(PATH, "confirmResize", policy=f"{_RULE}servers:confirm_resize")
async def confirm_resize(call: Call[Compute]) -> Reply:
    """Let a server stay as it was resized, or where it was moved."""
    await cold_migrating.confirm(call.service, call.who, call.path["server_id"])
    return Reply(204)


@api.action(PATH, "revertResize", policy=f"{_RULE}servers:revert_resize")
async def revert_resize(call: Call[Compute]) -> Reply:
    """Bring a server back to its former host and flavor."""
    await cold_migrating.revert(call.service, call.who, call.path["server_id"])
    return Reply(202)
