"""Volumes in the pools of a host, and their exports to hosts."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


class VolumeSpec(Struct, frozen=True, kw_only=True):
    """Body of `PUT /volumes/{volume_id}`: so big, empty or with a cached image's content.

    `format` empty takes the pool's own. A volume smaller than the image's virtual size is Invalid.
    """

    pool: str
    size_gib: int
    image_id: str = ""
    format: Literal["", "raw", "qcow2"] = ""


class VolumeFile(Struct, frozen=True, kw_only=True):
    """A volume as its pool holds it."""

    volume_id: str
    pool: str
    size_gib: int
    format: str
    exports: list[str] = []
    """Ids of the attachments it is exported to."""


class ExportRequest(Struct, frozen=True):
    """Body of `PUT /volumes/{volume_id}/exports/{attachment_id}`: whom to."""

    connector: dict[str, Any]


class Export(Struct, frozen=True):
    """How the connector's host reaches the volume: `driver_volume_type` and `data`. A secret."""

    connection_info: dict[str, Any]
