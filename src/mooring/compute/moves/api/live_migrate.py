"""The action `os-migrateLive` of a server (facts/compute.md 1.5)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mooring.compute.moves import live_migrating
from mooring.compute.service import Compute
from mooring.compute.wire.api.values import Truth, TruthOrAuto, truth
from mooring.errors import Invalid
from mooring.web.api import Api, Call, Reply
from mooring.web.bodies import Required, Since, Until, Was

api = Api[Compute]()

_RULE = "os_compute_api:os-migrate-server:migrate_live"
_Host = Annotated[str, Meta(min_length=1, max_length=255)]


class MigrateLive(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a server is to go, and what of its disks."""

    host: _Host | None
    block_migration: Annotated[TruthOrAuto, Was(Truth, (2, 24))]
    disk_over_commit: Annotated[Truth, Required(2, 1), Until(2, 24)] = False
    force: Annotated[Truth, Since(2, 30), Until(2, 67)] = False


@api.action("/servers/{server_id}/action", "os-migrateLive", MigrateLive, policy=_RULE)
async def migrate_live(call: Call[Compute], body: MigrateLive) -> Reply:
    """Move a server to another host while it runs.

    Whether a host can take it is found out after the answer, in every version: the server's events
    and migrations tell.
    """
    if body.host is None and truth(body.force):
        raise Invalid("A server is forced to a host that is named; nothing was changed.")
    if body.host is not None:
        call.require(f"{_RULE}:host")
    blocks = body.block_migration
    await live_migrating.live_migrate(
        call.service,
        call.who,
        call.path["server_id"],
        host=body.host,
        block_migration="auto" if blocks == "auto" else truth(blocks),
    )
    return Reply(202)
