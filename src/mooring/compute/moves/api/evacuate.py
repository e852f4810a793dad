"""The action `evacuate` of a server (facts/compute.md 1.6)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from mooring.compute.create.api import server_create
from mooring.compute.moves import evacuating
from mooring.compute.servers import servers
from mooring.compute.service import Compute
from mooring.compute.wire.api.values import Truth, truth
from mooring.errors import Invalid
from mooring.web.api import Api, Call, Reply
from mooring.web.bodies import Required, Since, Until

api = Api[Compute]()

_RULE = "os_compute_api:os-evacuate"
_Host = Annotated[str, Meta(min_length=1, max_length=255)]
_LEFT_OFF_SINCE = (2, 95)
_WITH_PASSWORD_UNTIL = (2, 13)


class Evacuate(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a server of a dead host is to go."""

    host: _Host | None = None
    admin_pass: str | None = field(name="adminPass", default=None)
    on_shared_storage: Annotated[Truth, Required(2, 1), Until(2, 13)] = field(
        name="onSharedStorage", default=False
    )
    force: Annotated[Truth, Since(2, 29), Until(2, 67)] = False


@api.action("/servers/{server_id}/action", "evacuate", Evacuate, policy=_RULE)
async def evacuate(call: Call[Compute], body: Evacuate) -> Reply:
    """Give a server of a dead host to another one; 200, with a password before 2.14.

    A root disk that was on the host is made anew of its image. Whether a host can take the server
    is found out after the answer, in every version, also of one that is `force`d.
    """
    compute, server_id = call.service, call.path["server_id"]
    is_left_off = call.version >= _LEFT_OFF_SINCE
    if truth(body.force) and body.host is None:
        raise Invalid("A server is forced to a host that is named; nothing was changed.")
    if truth(body.on_shared_storage):
        await _check_shared(call, body)
    if is_left_off:
        await compute.store.read(evacuating.require_versions)
    await evacuating.evacuate(compute, call.who, server_id, host=body.host, is_left_off=is_left_off)
    if call.version > _WITH_PASSWORD_UNTIL:
        return Reply(200)
    return Reply(200, {"adminPass": server_create.password(body.admin_pass)})


async def _check_shared(call: Call[Compute], body: Evacuate) -> None:
    """Raise Invalid where a server is said to lie on shared storage, and does not."""
    server_id = call.path["server_id"]
    if body.admin_pass:
        raise Invalid("The password of a disk that stays as it is cannot be changed.")
    server = await call.service.store.read(lambda tx: servers.visible(tx, call.who, server_id))
    if server.image_id:
        raise Invalid(
            f"Instance {server_id} has its root disk on its host, and not on shared storage. "
            "Nothing was changed; evacuated with onSharedStorage false it gets a new one of its "
            "image."
        )
