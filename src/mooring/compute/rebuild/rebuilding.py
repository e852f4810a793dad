"""Rebuilding a server: who may, when, and what it begins with (facts/compute.md 1.4, 5)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from mooring.clients.placement import has_trait
from mooring.compute.actions import actions
from mooring.compute.create import image_devices
from mooring.compute.drives import config_drives
from mooring.compute.hosts import hosts
from mooring.compute.keypairs import keypairs
from mooring.compute.quotas import quota
from mooring.compute.rebuild import rebuild_requests, rebuilt_buses
from mooring.compute.rebuild.sagas.rebuild_notes import RebuildServer
from mooring.compute.rebuild.sagas.rebuild_server import REBUILD_SERVER
from mooring.compute.rebuild.sagas.renew_server import RENEW_SERVER
from mooring.compute.servers import metadata, servers, states
from mooring.compute.shares import blocked
from mooring.compute.volumes import devices
from mooring.errors import Conflict, Invalid, NotFound

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.clients.image import Image
    from mooring.compute.rebuild.rebuild_requests import Found, Material, Rebuild
    from mooring.compute.service import Compute
    from mooring.compute.tables import BlockDevice, Host, Server
    from mooring.who import Who

_ACTION = "rebuild"
_FROM = frozenset({"active", "stopped", "error"})


async def rebuild(compute: Compute, who: Who, server_id: str, wanted: Rebuild) -> None:
    """Check everything, and begin. Raises NotFound, Conflict, Invalid, OverQuota."""
    server, host, rows = await compute.store.read(lambda tx: _look(tx, compute, who, server_id))
    material = await rebuild_requests.gather(compute, who, wanted, server, (host, rows))

    def begin(tx: Session) -> None:
        server, host, now = *_look(tx, compute, who, server_id)[:2], compute.clock.now()
        if _shape(devices.of_server(tx, server_id)) != _shape(rows):
            raise Conflict(
                f"The volumes of instance {server_id} changed meanwhile. Nothing was changed; "
                "ask again."
            )
        saga_id = str(uuid.uuid4())
        action_id = actions.begin(tx, server_id, _ACTION, who, now, saga_id=saga_id)
        states.begin(tx, server, _ACTION, "rebuilding", now)
        notes = _plan(compute, server, host, rows, material)
        of_image = _of_image(server, host, material.image)
        columns = {**wanted.columns, **of_image, **rebuilt_buses.find(server, host, rows, material)}
        notes = replace(notes, action_id=action_id)
        notes = _apply(tx, compute, who, replace(wanted, columns=columns), notes)
        saga = REBUILD_SERVER if material.reimages else RENEW_SERVER
        compute.sagas.start(tx, saga, notes, who=who, saga_id=saga_id)

    await servers.submit(compute, _ACTION, server_id, begin)


def _look(
    tx: Session, compute: Compute, who: Who, server_id: str
) -> tuple[Server, Host, list[BlockDevice]]:
    server = servers.visible(tx, who, server_id)
    blocked.refuse_rebuild(tx, server_id)
    states.require(server, who, _ACTION, _FROM)
    down_after_s = compute.settings.host_down_s
    host = hosts.require_up(tx, server.host, compute.clock.now(), down_after_s)
    return server, host, list(devices.of_server(tx, server_id))


def _shape(rows: Any) -> list[tuple[str, str | None, str]]:
    """Return what must not change between a look at block devices and another."""
    return [(row.id, row.attachment_id, row.state) for row in rows]


def _plan(
    compute: Compute, server: Server, host: Host, rows: list[BlockDevice], material: Material
) -> RebuildServer:
    """Return the notes of the saga, still without what the body changes."""
    image = material.image
    held = [row for row in rows if row.volume_id]
    reserved = [row.id for row in held if not _is_in_use(material.volumes[row.volume_id or ""])]
    notes = RebuildServer(
        server_id=server.id,
        host=host.name,
        action_id=0,
        image_id=image.id,
        vm_state=server.vm_state,
        has_local_root=bool(server.image_id),
        volumes=[row.volume_id or "" for row in held],
        to_connect=reserved,
    )
    if not material.reimages:
        return notes
    root = next(row for row in held if row.boot_index == 0)
    found = material.volumes[root.volume_id or ""]
    frees = root.id not in reserved
    per_gib_s = compute.settings.reimage_timeout_per_gb
    return replace(
        notes,
        to_connect=[*([root.id] if frees else []), *reserved],
        volume_id=found.volume.id,
        block_device_id=root.id,
        frees=frees,
        old_attachment_id=root.attachment_id if frees else None,
        attachment_id="" if frees else root.attachment_id or "",
        known=[one.id for one in found.attachments],
        old_image_id=found.volume.volume_image_metadata.get("image_id", ""),
        wait_s=per_gib_s * max(1, image.size_gib),
    )


def _is_in_use(found: Found) -> bool:
    return found.volume.status == "in-use"


def _apply(
    tx: Session, compute: Compute, who: Who, wanted: Rebuild, notes: RebuildServer
) -> RebuildServer:
    """Change the server as the body says; return the notes with what it was before."""
    server = servers.visible(tx, who, notes.server_id)
    values = {**wanted.columns, **_key(tx, who, wanted)}
    if notes.has_local_root:
        values["image_id"] = notes.image_id
    before = {name: getattr(server, name) for name in values if name != "user_data"}
    metadata_before = None
    if wanted.metadata is not None:
        quota.check_metadata(tx, server.project_id, len(wanted.metadata))
        metadata_before = metadata.read(tx, server.id)
        metadata.replace(tx, server.id, wanted.metadata)
    if values:
        states.change(tx, server.id, compute.clock.now(), **values)
    devices.name_root(tx, server.id, values.get("root_device_name"), compute.clock.now())
    return replace(notes, before=before, metadata_before=metadata_before)


def _of_image(server: Server, host: Host, image: Image) -> dict[str, Any]:
    """Return the columns that come from an image: its properties, and whether it asks for a drive.

    Raises Conflict where the host makes no config drives and the image asks for one.
    """
    values: dict[str, Any] = {"image_properties": image_devices.without_own(image.properties)}
    if server.config_drive or not config_drives.asks_for_one(image.properties):
        return values
    if not has_trait(host.traits, config_drives.TRAIT):
        raise Conflict(
            f"Image {image.id} asks for a config drive, and host {host.name} makes none (it lacks "
            f"the trait {config_drives.TRAIT}). Server {server.id} was not rebuilt; upgrade the "
            "host's agent first."
        )
    return {**values, "config_drive": True}


def _key(tx: Session, who: Who, wanted: Rebuild) -> dict[str, Any]:
    if wanted.key_name is UNSET:
        return {}
    if wanted.key_name is None:
        return {"key_name": None, "public_key": None}
    try:
        key = keypairs.visible(tx, who.user_id, wanted.key_name)
    except NotFound as error:
        raise Invalid(error.public, private=error.private) from error
    return {"key_name": key.name, "public_key": key.public_key}
