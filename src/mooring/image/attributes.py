"""What an image may be told to be: its attributes, and the properties that clients add.

Source: facts/identity_image_placement.md 8.1, 8.6 and 8.10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_type_hints
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from mooring import limits, typed
from mooring.errors import Forbidden, Invalid, OverQuota

DISK_FORMATS = (
    "ami",
    "ari",
    "aki",
    "vhd",
    "vhdx",
    "vmdk",
    "raw",
    "qcow2",
    "vdi",
    "iso",
    "ploop",
)
CONTAINER_FORMATS = ("ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed")
VISIBILITIES = ("public", "community", "shared", "private")
STATUSES = ("queued", "saving", "active", "deactivated")

READ_ONLY = frozenset(
    (
        "checksum",
        "created_at",
        "direct_url",
        "file",
        "os_hash_algo",
        "os_hash_value",
        "schema",
        "self",
        "size",
        "status",
        "stores",
        "updated_at",
        "virtual_size",
    )
)
RESERVED_PREFIX = "os_glance_"
ONCE_ONLY = frozenset(("disk_format", "container_format"))
"""What may no longer be changed once there are data, or while they come."""

Text = Annotated[str, Meta(max_length=limits.IMAGE_NAME_CHARACTERS)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Attributes(Struct):
    """The attributes that a client may set, by their wire names, with their types."""

    name: Text | None
    visibility: Literal["public", "community", "shared", "private"]
    owner: Text | None
    disk_format: (
        Literal["ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop"]
        | None
    )
    container_format: (
        Literal["ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed"] | None
    )
    min_disk: Count
    min_ram: Count
    protected: bool
    os_hidden: bool
    tags: list[Text]


_TYPES = get_type_hints(Attributes, include_extras=True)
COLUMNS = {"min_disk": "min_disk_gib", "min_ram": "min_ram_mib"}
"""The column of an attribute, where it has another name."""
BASE = frozenset(_TYPES) | READ_ONLY | {"id", "locations"}
"""Every name that is no property of a client's own."""


def check_name(name: str) -> None:
    """Raise Forbidden for a name that only the service itself writes."""
    if name in READ_ONLY:
        raise Forbidden(f"Attribute '{name}' is read-only.")
    if name.startswith(RESERVED_PREFIX):
        raise Forbidden(f"Attribute '{name}' is reserved: names with {RESERVED_PREFIX} are ours.")
    if name == "locations":
        raise Forbidden("Attribute 'locations' cannot be set: images are uploaded here.")
    if not 1 <= len(name) <= limits.IMAGE_NAME_CHARACTERS:
        raise Invalid(f"The name of a property has 1 to {limits.IMAGE_NAME_CHARACTERS} characters.")


def check_value(name: str, value: Any) -> Any:
    """Return the value of an attribute or property, as it is kept. Raises Invalid, OverQuota."""
    if name not in _TYPES:
        return _property(name, value)
    try:
        kept = typed.convert(value, _TYPES[name])
    except msgspec.ValidationError as error:
        raise Invalid(f"Invalid value for attribute '{name}'. {error}.") from error
    if name == "tags":
        kept = sorted(set(kept))
        check_tags(kept)
    return kept


def check_tags(tags: list[str]) -> None:
    """Raise Invalid for an empty tag, OverQuota for too many."""
    if any(not tag for tag in tags):
        raise Invalid("A tag has at least one character.")
    if len(tags) > limits.IMAGE_TAGS:
        raise OverQuota(
            f"An image may have {limits.IMAGE_TAGS} tags; {len(tags)} were asked for. Remove some."
        )


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise OverQuota when there are too many properties."""
    if len(properties) > limits.IMAGE_PROPERTIES:
        raise OverQuota(
            f"An image may have {limits.IMAGE_PROPERTIES} properties; {len(properties)} were asked "
            "for. Remove some."
        )


def check_id(value: Any) -> str:
    """Return an image's id in small letters. Raises Invalid unless it is a uuid with dashes."""
    try:
        text = typed.convert(value, str)
        canonical = str(UUID(text))
    except ValueError as error:
        raise Invalid("Invalid value for attribute 'id': it must be a uuid.") from error
    if canonical != text.lower():
        raise Invalid("Invalid value for attribute 'id': it must be a uuid with dashes.")
    return canonical


def _property(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise Invalid(f"Invalid value for property '{name}': it must be a string.")
    if len(value) > limits.IMAGE_VALUE_CHARACTERS:
        raise Invalid(
            f"Invalid value for property '{name}': it is longer than "
            f"{limits.IMAGE_VALUE_CHARACTERS} characters."
        )
    return value
