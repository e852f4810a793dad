"""Who has a config drive, and what stands on it (facts/network.md 7, facts/compute.md 7.5).

It is put together when a guest is made or started, and handed on at once: user data may hold
secrets, so no notes have any of it.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from mooring.agent_api.config_drives import ConfigDrive, DriveKey
from mooring.compute.hosts import hosts
from mooring.compute.servers import metadata
from mooring.compute.shares import mappings
from mooring.compute.tables import Server
from mooring.compute.volumes import buses, devices

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy.orm import Session

    from mooring.agent_api.config_drives import DriveBus
    from mooring.compute.service import Compute
    from mooring.compute.tables import BlockDevice
    from mooring.saga.define import Run

TRAIT = "COMPUTE_CONFIG_DRIVE_REGENERATION"
"""The trait of a host that makes a guest's drive at each of its starts."""
_PROPERTY, _MANDATORY = "img_config_drive", "mandatory"
_GIVEN = frozenset({"inactive", "active"})
_CERTIFICATE = "-----BEGIN"


def asks_for_one(image_properties: Mapping[str, Any]) -> bool:
    """Whether an image says that its servers have a drive."""
    return image_properties.get(_PROPERTY) == _MANDATORY


def traits_of(*, has_drive: bool) -> list[str]:
    """Return what the host of a server must be able to do for its drive."""
    return [TRAIT] if has_drive else []


async def read(run: Run[Compute], server_id: str, host: str) -> ConfigDrive | None:
    """Return what a server's guest is to be told at a host; None for one without a drive."""
    return await run.service.store.read(lambda tx: specify(tx, server_id, host))


def specify(tx: Session, server_id: str, host: str) -> ConfigDrive | None:
    """Return the same, from what the database has."""
    server = tx.get_one(Server, server_id)
    if not server.config_drive:
        return None
    place = hosts.find(tx, host)
    return ConfigDrive(
        uuid=server.id,
        name=server.name,
        hostname=server.hostname,
        project_id=server.project_id,
        availability_zone=(place.zone if place else server.zone) or "",
        launch_index=server.launch_index,
        meta=metadata.read(tx, server.id),
        keys=_keys(server.key_name, server.public_key),
        devices=[*_disks(tx, server), *_shares(tx, server.id)],
        user_data=_decode(server.user_data or ""),
        bus=cast("DriveBus", server.cdrom_bus),
    )


def before(
    drive: ConfigDrive, columns: Mapping[str, Any], meta: dict[str, str] | None
) -> ConfigDrive | None:
    """Return what a guest is told of a server that gets columns, and metadata if any, back.

    None for one that had no drive before.
    """
    if not columns.get("config_drive", True):
        return None
    found = replace(
        drive,
        name=columns.get("name", drive.name),
        hostname=columns.get("hostname", drive.hostname),
        bus=columns.get("cdrom_bus", drive.bus),
        meta=drive.meta if meta is None else meta,
    )
    if "key_name" not in columns:
        return found
    return replace(found, keys=_keys(columns["key_name"], columns["public_key"]))


def _decode(text: str) -> bytes:
    """Return the bytes of user data, which was accepted with space of any kind in it."""
    return base64.b64decode("".join(text.split()))


def _keys(name: str | None, public_key: str | None) -> list[DriveKey]:
    if not name or not public_key:
        return []
    kind = "x509" if public_key.lstrip().startswith(_CERTIFICATE) else "ssh"
    return [DriveKey(name=name, type=kind, data=public_key)]


def _disks(tx: Session, server: Server) -> Iterator[dict[str, Any]]:
    """Yield the disks with a tag. A volume has its id for a serial number in the guest."""
    for row in devices.of_server(tx, server.id):
        if row.tag:
            bus = buses.of_row(row) if row.volume_id else server.root_bus
            where = {} if bus == "virtio" else {"bus": bus}
            yield {**_device("disk"), **where, **_serial(row), "tags": [row.tag]}


def _serial(row: BlockDevice) -> dict[str, str]:
    return {"serial": row.volume_id} if row.volume_id else {}


def _shares(tx: Session, server_id: str) -> Iterator[dict[str, Any]]:
    for row in mappings.of_server(tx, server_id):
        if row.status in _GIVEN:
            yield {**_device("share"), "share_id": row.share_id, "tag": row.tag}


def _device(kind: str) -> dict[str, Any]:
    # Where in the guest it is plugged in nobody knows before the guest starts.
    return {"type": kind, "bus": "none", "address": "none"}
