"""What the saga of an image of a server's volumes knows between two steps."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mooring.clients.image import NewImage
from mooring.clients.snapshots import NewSnapshot

_NAME_CHARACTERS = 255


class PicturedVolume(Struct, frozen=True, kw_only=True):
    """A volume of the server, as a server that is made of the image has it, and its snapshot.

    Without a `snapshot_id` none is known yet. `size_gib` is that of the snapshot once there is one.
    """

    volume_id: str
    device_name: str | None
    boot_index: int | None
    size_gib: int
    delete_on_termination: bool = False
    disk_bus: str | None = None
    device_type: str | None = None
    snapshot_id: str = ""

    def mapping(self) -> dict[str, Any]:
        """Return it as an image's `block_device_mapping` has it."""
        return {
            "source_type": "snapshot",
            "destination_type": "volume",
            "snapshot_id": self.snapshot_id,
            "boot_index": self.boot_index,
            "volume_size": self.size_gib,
            "delete_on_termination": self.delete_on_termination,
            "device_name": self.device_name,
            "disk_bus": self.disk_bus,
            "device_type": self.device_type,
        }


class PictureVolumes(Struct, frozen=True, kw_only=True):
    """The notes. `properties` are the image's own keys, beside those that name the snapshots."""

    server_id: str
    action_id: int
    image_id: str
    name: str
    properties: dict[str, str]
    root_device_name: str
    volumes: list[PicturedVolume]


def every(notes: PictureVolumes) -> list[str]:
    """Return the ids of the volumes, the root first."""
    return [volume.volume_id for volume in notes.volumes]


def find(notes: PictureVolumes, volume_id: str) -> PicturedVolume:
    """Return one of the volumes."""
    return next(volume for volume in notes.volumes if volume.volume_id == volume_id)


def with_snapshot(
    notes: PictureVolumes, volume_id: str, snapshot_id: str, size_gib: int
) -> PictureVolumes:
    """Return the notes with the snapshot of a volume."""
    volumes = [
        replace(volume, snapshot_id=snapshot_id, size_gib=size_gib or volume.size_gib)
        if volume.volume_id == volume_id
        else volume
        for volume in notes.volumes
    ]
    return replace(notes, volumes=volumes)


def new_snapshot(notes: PictureVolumes, volume_id: str) -> NewSnapshot:
    """Return the snapshot to take of a volume; by the image's id it is told from all others."""
    return NewSnapshot(
        volume_id=volume_id,
        name=f"snapshot for {notes.name}"[:_NAME_CHARACTERS],
        metadata={"image_id": notes.image_id},
    )


def new_image(notes: PictureVolumes) -> NewImage:
    """Return the record of the image, which has no data but its snapshots' names.

    It is raw, as empty data are what a service takes for an image of that format alone
    (facts/identity_image_placement.md 8.7).
    """
    mapping = msgspec.json.encode([volume.mapping() for volume in notes.volumes]).decode()
    return NewImage(
        id=notes.image_id,
        name=notes.name,
        disk_format="raw",
        min_disk_gib=notes.volumes[0].size_gib,
        properties={
            **notes.properties,
            "block_device_mapping": mapping,
            "bdm_v2": "True",
            "root_device_name": notes.root_device_name,
        },
    )
