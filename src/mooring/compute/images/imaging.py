"""Images of servers: who may ask for one, when, and what it says (facts/compute.md 1.4)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from mooring.clients.image import GLANCES_OWN, inherited
from mooring.compute.actions import actions
from mooring.compute.hosts import hosts
from mooring.compute.images.sagas.create_image import CREATE_IMAGE, CreateImage
from mooring.compute.servers import servers, states
from mooring.errors import Conflict, Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.compute.tables import Server
    from mooring.who import Who

_ACTION = "createImage"
_FROM = frozenset({"active", "stopped", "paused", "suspended"})


async def create_image(
    compute: Compute, who: Who, server_id: str, name: str, metadata: Mapping[str, str]
) -> str:
    """Begin to make an image of the server's root disk; return its id once its record is there.

    The lock of a server is not looked at: nothing of it changes. Raises NotFound, Conflict, Invalid
    (501 for a server that boots from a volume), and what the image service refuses.
    """
    image_id = str(uuid.uuid4())

    def begin(tx: Session) -> str:
        server = servers.visible(tx, who, server_id)
        _check(server)
        now, down_after_s = compute.clock.now(), compute.settings.host_down_s
        host = hosts.require_up(tx, server.host, now, down_after_s)
        states.begin(tx, server, _ACTION, "image_snapshot_pending", now)
        saga_id = str(uuid.uuid4())
        notes = CreateImage(
            server_id=server_id,
            host=host.name,
            action_id=actions.begin(tx, server_id, _ACTION, who, now, saga_id=saga_id),
            image_id=image_id,
            name=name,
            properties=properties_of(server, metadata),
            min_disk_gib=server.disk_gib,
        )
        return compute.sagas.start(tx, CREATE_IMAGE, notes, who=who, saga_id=saga_id)

    saga_id = await servers.submit(compute, _ACTION, server_id, begin)
    await servers.until_answered(compute, saga_id)
    return image_id


def properties_of(server: Server, metadata: Mapping[str, str]) -> dict[str, str]:
    """Return what an image says of the server that it was made of; `metadata` is the user's."""
    own = {
        "base_image_ref": server.image_id,
        "image_type": "snapshot",
        "instance_uuid": server.id,
        "user_id": server.user_id,
        "owner_id": server.project_id,
    }
    found = {**inherited(server.image_properties), **metadata, **own}
    return {key: value for key, value in found.items() if key not in GLANCES_OWN}


def _check(server: Server) -> None:
    """Raise Conflict unless the server can be copied now, Invalid when that is not built."""
    if server.vm_state not in _FROM:
        raise states.refusal(server.id, _ACTION, "vm_state", server.vm_state)
    if server.task_state is not None:
        raise states.refusal(server.id, _ACTION, "task_state", server.task_state)
    if server.launched_at is None:
        raise Conflict(
            f"Instance {server.id} is in an invalid state for '{_ACTION}': it never ran. "
            "Nothing was changed."
        )
    if not server.image_id:
        raise Invalid(
            f"Instance {server.id} boots from a volume; images of such servers are not built in "
            "this cloud. Nothing was changed; take a snapshot of its volume instead.",
            status=501,
        )
