"""`os-retype` and `os-migrate_volume`: another type, another pool (facts/block_storage.md 1.6)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mooring import limits
from mooring.errors import Invalid
from mooring.volume.migration import completing, migrating, retyping
from mooring.volume.migration.retyping import Policy, Retype
from mooring.volume.service import Volume
from mooring.volume.wire.api import values
from mooring.volume.wire.api.values import Flag, Uuid, asked
from mooring.web.api import Api, Call, Reply
from mooring.web.bodies import Since

api = Api[Volume]()

_PATH = "/volumes/{volume_id}/action"
_Name = Annotated[str, Meta(min_length=1, max_length=limits.VOLUME_NAME_LENGTH)]


class RetypeBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `os-retype`."""

    new_type: _Name
    migration_policy: Policy = "never"


class MigrateBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `os-migrate_volume`. What has to be copied a host always copies."""

    host: _Name | None = None
    cluster: Annotated[_Name | None, Since(3, 16)] = None
    force_host_copy: Flag = False
    lock_volume: Flag = False


class CompletionBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `os-migrate_volume_completion`: the copy, and whether it came to nothing."""

    new_volume: Uuid
    error: Flag = False


@api.action(_PATH, "os-retype", RetypeBody, policy="volume:retype")
async def retype(call: Call[Volume], body: RetypeBody) -> Reply:
    """Give it another type."""
    wanted = Retype(
        new_type=body.new_type,
        policy=body.migration_policy,
        may_multiattach=call.allowed("volume:multiattach"),
    )
    await retyping.retype(asked(call), call.path["volume_id"], wanted)
    return Reply(202)


@api.action(
    _PATH,
    "os-migrate_volume",
    MigrateBody,
    policy="volume_extension:volume_admin_actions:migrate_volume",
)
async def migrate(call: Call[Volume], body: MigrateBody) -> Reply:
    """Bring it to another pool."""
    values.flag(body.force_host_copy, "force_host_copy")
    lock = values.flag(body.lock_volume, "lock_volume")
    if body.cluster is not None or body.host is None:
        raise Invalid(
            "Invalid input received: Give the host that the volume is to come to, as "
            "host@backend#pool; there are no clusters. Nothing was changed.",
        )
    await migrating.migrate(asked(call), call.path["volume_id"], body.host, lock=lock)
    return Reply(202)


@api.action(
    _PATH,
    "os-migrate_volume_completion",
    CompletionBody,
    policy="volume_extension:volume_admin_actions:migrate_volume_completion",
)
async def complete(call: Call[Volume], body: CompletionBody) -> Reply:
    """Tell how it went to let a guest go on with the copy; answers what the volume is called."""
    failed = values.flag(body.error, "error")
    kept = await completing.complete(
        asked(call), call.path["volume_id"], body.new_volume, failed=failed
    )
    return Reply(200, {"save_volume_id": kept})
