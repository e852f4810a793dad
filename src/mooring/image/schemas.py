"""The JSON schemas that clients read before they speak of images.

Source: facts/identity_image_placement.md 8.4. Nova picks the format of a snapshot from
`disk_format.enum`, and glanceclient learns which attributes are read-only.
"""

from __future__ import annotations

from typing import Any

from mooring.image.attributes import (
    CONTAINER_FORMATS,
    DISK_FORMATS,
    READ_ONLY,
    STATUSES,
    VISIBILITIES,
)
from mooring.image.members import STATUSES as MEMBER_STATUSES
from mooring.limits import IMAGE_NAME_CHARACTERS

_UUID = "^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){12}$"


def _text(description: str, *, null: bool = False, length: int = 0) -> dict[str, Any]:
    shown: dict[str, Any] = {"type": ["null", "string"] if null else "string"}
    if length:
        shown["maxLength"] = length
    return shown | {"description": description}


def _number(description: str, *, null: bool = False) -> dict[str, Any]:
    return {"type": ["null", "integer"] if null else "integer", "description": description}


def _choice(description: str, words: tuple[str, ...], *, null: bool = False) -> dict[str, Any]:
    values: list[str | None] = [None, *words] if null else [*words]
    return {
        "type": ["null", "string"] if null else "string",
        "enum": values,
        "description": description,
    }


def _flag(description: str) -> dict[str, Any]:
    return {"type": "boolean", "description": description}


_TAGS = {
    "type": "array",
    "items": {"type": "string", "maxLength": IMAGE_NAME_CHARACTERS},
    "description": "Words that the image is marked with",
}
_LOCATIONS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["url", "metadata"],
        "properties": {
            "url": {"type": "string", "maxLength": IMAGE_NAME_CHARACTERS},
            "metadata": {"type": "object"},
        },
    },
    "description": "Never shown: images are uploaded here",
}
_PROPERTIES: dict[str, dict[str, Any]] = {
    "id": _text("The image's id") | {"pattern": _UUID},
    "name": _text("A name for people", null=True, length=IMAGE_NAME_CHARACTERS),
    "status": _choice("How far the image is", STATUSES),
    "visibility": _choice("Who may see the image", VISIBILITIES),
    "protected": _flag("Whether the image refuses to be deleted"),
    "os_hidden": _flag("Whether lists leave the image out"),
    "checksum": _text("MD5 of the data", null=True, length=32),
    "os_hash_algo": _text("How os_hash_value was made", null=True, length=64),
    "os_hash_value": _text("Hash of the data, hexadecimal", null=True, length=128),
    "owner": _text("The project that owns the image", null=True, length=IMAGE_NAME_CHARACTERS),
    "size": _number("Size of the data in bytes", null=True),
    "virtual_size": _number("Size of the disk in the data in bytes", null=True),
    "container_format": _choice("What the data are wrapped in", CONTAINER_FORMATS, null=True),
    "disk_format": _choice("What format the disk has", DISK_FORMATS, null=True),
    "created_at": _text("When the image was made"),
    "updated_at": _text("When the image changed last"),
    "tags": _TAGS,
    "direct_url": _text("Never shown: data are read through this API"),
    "min_ram": _number("Memory in MiB that a server needs at least"),
    "min_disk": _number("Disk in GiB that a server needs at least"),
    "self": _text("Where the image is"),
    "file": _text("Where its data are"),
    "stores": _text("Never shown: there is one store"),
    "schema": _text("Where this schema is"),
    "locations": _LOCATIONS,
    "architecture": _text("What processor the system is made for"),
    "instance_uuid": _text("The server that the image was made from"),
    "kernel_id": _text("The image of the kernel to boot with", null=True) | {"pattern": _UUID},
    "ramdisk_id": _text("The image of the first file system", null=True) | {"pattern": _UUID},
    "os_distro": _text("The distribution's name"),
    "os_version": _text("The distribution's version"),
}

IMAGE: dict[str, Any] = {
    "name": "image",
    "properties": {
        name: shown | ({"readOnly": True} if name in READ_ONLY else {})
        for name, shown in _PROPERTIES.items()
    },
    "additionalProperties": {"type": "string"},
    "links": [
        {"rel": "self", "href": "{self}"},
        {"rel": "enclosure", "href": "{file}"},
        {"rel": "describedby", "href": "{schema}"},
    ],
}
MEMBER: dict[str, Any] = {
    "name": "member",
    "properties": {
        "member_id": _text("The project that the image is shared with"),
        "image_id": _text("The image") | {"pattern": _UUID},
        "created_at": _text("When it was shared"),
        "updated_at": _text("When the status changed last"),
        "status": _choice("What the project thinks of it", MEMBER_STATUSES),
        "schema": {"readOnly": True, "type": "string"},
    },
}


def collection(name: str, item: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a list of `item`."""
    return {
        "name": name,
        "properties": {
            name: {"type": "array", "items": item},
            "first": {"type": "string"},
            "next": {"type": "string"},
            "schema": {"type": "string"},
        },
        "links": [
            {"rel": "first", "href": "{first}"},
            {"rel": "next", "href": "{next}"},
            {"rel": "describedby", "href": "{schema}"},
        ],
    }
