"""Images of servers: who may ask for one, when, and what it says (facts/compute.md 1.4)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.clients.image import GLANCES_OWN, inherited
from mooring.compute.actions import actions
from mooring.compute.hosts import hosts
from mooring.compute.images.sagas.create_backup import CREATE_BACKUP, CreateBackup
from mooring.compute.images.sagas.create_image import CREATE_IMAGE, CreateImage
from mooring.compute.images.sagas.picture_volumes import PICTURE_VOLUMES
from mooring.compute.images.sagas.volume_picture_notes import PicturedVolume, PictureVolumes
from mooring.compute.servers import servers, states
from mooring.compute.volumes import devices
from mooring.errors import Conflict, Forbidden, Invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.compute.tables import BlockDevice, Server
    from mooring.who import Who

_IMAGE, _BACKUP = "createImage", "createBackup"
_FROM = frozenset({"active", "stopped", "paused", "suspended"})


class Wish(Struct, frozen=True, kw_only=True):
    """The image that is asked for.

    `volumes_allowed`: whether policy lets the caller have one of a server that boots from a volume.
    """

    name: str
    metadata: dict[str, str] = {}
    volumes_allowed: bool = True


class Rotation(Struct, frozen=True):
    """How many images of one type of backup a server keeps, the new one among them."""

    backup_type: str
    keep: int


async def create_image(compute: Compute, who: Who, server_id: str, wish: Wish) -> str:
    """Begin to make an image of the server; return its id once its record is there.

    It has the server's root disk, or names a snapshot of each of its volumes where it boots from
    one. The lock of a server is not looked at: nothing of it changes. Raises NotFound, Conflict,
    Forbidden, and what the image service and the volume service refuse.
    """

    def begin(tx: Session, server: Server, image_id: str, saga_id: str) -> None:
        if not server.image_id:
            _require_allowed(wish)
            hosts.require_up(tx, server.host, compute.clock.now(), compute.settings.host_down_s)
            action_id = _begin_action(tx, compute, who, _IMAGE, (server_id, saga_id))
            volumes = _of_volumes(tx, server, wish, image_id, action_id)
            compute.sagas.start(tx, PICTURE_VOLUMES, volumes, who=who, saga_id=saga_id)
            return
        notes = CreateImage(
            server_id=server_id,
            host=_begin_on_host(tx, compute, server, _IMAGE),
            action_id=_begin_action(tx, compute, who, _IMAGE, (server_id, saga_id)),
            image_id=image_id,
            name=wish.name,
            properties=properties_of(server, wish.metadata),
            min_disk_gib=server.disk_gib,
        )
        compute.sagas.start(tx, CREATE_IMAGE, notes, who=who, saga_id=saga_id)

    return await _submit(compute, who, server_id, _IMAGE, begin)


async def create_backup(
    compute: Compute, who: Who, server_id: str, wish: Wish, rotation: Rotation
) -> str:
    """Begin to make an image that takes the place of the oldest one of its type.

    Raises as `create_image` does; Invalid for a server that boots from a volume.
    """

    def begin(tx: Session, server: Server, image_id: str, saga_id: str) -> None:
        if not server.image_id:
            raise Invalid(
                f"Backup is not supported for volume-backed instances, as {server_id}. Nothing was "
                "changed; make an image of it instead."
            )
        own = {"image_type": "backup", "backup_type": rotation.backup_type}
        notes = CreateBackup(
            server_id=server_id,
            project_id=server.project_id,
            host=_begin_on_host(tx, compute, server, _BACKUP),
            action_id=_begin_action(tx, compute, who, _BACKUP, (server_id, saga_id)),
            image_id=image_id,
            name=wish.name,
            properties={**properties_of(server, wish.metadata), **own},
            min_disk_gib=server.disk_gib,
            backup_type=rotation.backup_type,
            keep=rotation.keep,
        )
        compute.sagas.start(tx, CREATE_BACKUP, notes, who=who, saga_id=saga_id)

    return await _submit(compute, who, server_id, _BACKUP, begin)


async def _submit(
    compute: Compute,
    who: Who,
    server_id: str,
    action: str,
    begin: Callable[[Session, Server, str, str], None],
) -> str:
    """Start a saga under new ids of an image and of itself; return the image's once answered."""
    image_id, saga_id = str(uuid.uuid4()), str(uuid.uuid4())

    def start(tx: Session) -> None:
        server = servers.visible(tx, who, server_id)
        _check(server, action)
        begin(tx, server, image_id, saga_id)

    await servers.submit(compute, action, server_id, start)
    await servers.until_answered(compute, saga_id)
    return image_id


def properties_of(server: Server, metadata: Mapping[str, str]) -> dict[str, str]:
    """Return what an image says of the server that it was made of; `metadata` is the user's.

    A user may give the image a type of its own, as in Nova.
    """
    own = {
        "base_image_ref": server.image_id,
        "instance_uuid": server.id,
        "user_id": server.user_id,
        "owner_id": server.project_id,
    }
    found = {**inherited(server.image_properties), "image_type": "snapshot", **metadata, **own}
    return {key: value for key, value in found.items() if key not in GLANCES_OWN}


def _of_volumes(
    tx: Session, server: Server, wish: Wish, image_id: str, action_id: int
) -> PictureVolumes:
    """Return the notes of an image of all the volumes that the server has, the root first."""
    rows = devices.of_server(tx, server.id, state="attached")
    volumes = sorted(rows, key=lambda row: row.boot_index != 0)
    return PictureVolumes(
        server_id=server.id,
        action_id=action_id,
        image_id=image_id,
        name=wish.name,
        properties=properties_of(server, wish.metadata),
        root_device_name=server.root_device_name or "",
        volumes=[_pictured(row) for row in volumes if row.volume_id],
    )


def _pictured(row: BlockDevice) -> PicturedVolume:
    return PicturedVolume(
        volume_id=row.volume_id or "",
        device_name=row.device_name,
        boot_index=row.boot_index,
        size_gib=row.volume_size_gib or 0,
        delete_on_termination=row.delete_on_termination,
        disk_bus=row.disk_bus,
        device_type=row.device_type,
    )


def _require_allowed(wish: Wish) -> None:
    if not wish.volumes_allowed:
        raise Forbidden(
            "Policy does not let you make images of servers that boot from a volume. Nothing was "
            "changed."
        )


def _begin_on_host(tx: Session, compute: Compute, server: Server, action: str) -> str:
    """Show that the server's disk is to be copied; return the host that has it."""
    now = compute.clock.now()
    host = hosts.require_up(tx, server.host, now, compute.settings.host_down_s)
    states.begin(tx, server, action, "image_snapshot_pending", now)
    return host.name


def _begin_action(
    tx: Session, compute: Compute, who: Who, action: str, ids: tuple[str, str]
) -> int:
    """Write the action down; `ids` are those of the server and of the saga."""
    return actions.begin(tx, ids[0], action, who, compute.clock.now(), saga_id=ids[1])


def _check(server: Server, action: str) -> None:
    """Raise Conflict unless the server can be copied now."""
    if server.vm_state not in _FROM:
        raise states.refusal(server.id, action, "vm_state", server.vm_state)
    if server.task_state is not None:
        raise states.refusal(server.id, action, "task_state", server.task_state)
    if server.launched_at is None:
        raise Conflict(
            f"Instance {server.id} is in an invalid state for '{action}': it never ran. "
            "Nothing was changed."
        )
