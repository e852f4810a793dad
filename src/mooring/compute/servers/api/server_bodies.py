"""The bodies of POST and PUT /servers and of `rebuild` (facts/compute.md 1.4, 3.1, 9.5).

One struct knows every field of every microversion; `check_version` refuses those that the caller's
version does not know, as it refuses unknown ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from mooring import limits
from mooring.compute.wire.api.values import (
    Described,
    DiskConfig,
    Metadata,
    Name,
    Tag,
    Truth,
    Uuid,
    Whole,
)
from mooring.errors import Invalid
from mooring.web.api import Version

_Short = Annotated[str, Meta(max_length=255)]
_Given = Annotated[str, Meta(min_length=1, max_length=255)]
_Empty = Annotated[str, Meta(max_length=0)]
_ImageRef = Annotated[
    str, Meta(pattern=r"^(?:[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12})?\Z")
]
_DeviceName = Annotated[str, Meta(max_length=255, pattern=r"^[a-zA-Z0-9._/-]*\Z")]
_UserData = Annotated[str, Meta(max_length=limits.COMPUTE_USER_DATA_BYTES)]


class Network(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One network that a server is to be on."""

    uuid: Uuid | UnsetType = UNSET
    port: Uuid | UnsetType | None = UNSET
    fixed_ip: _Short | UnsetType = UNSET
    tag: Tag | UnsetType = UNSET


class Device(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One item of block_device_mapping_v2."""

    source_type: Literal["volume", "image", "snapshot", "blank"]
    destination_type: Literal["local", "volume"] | None = None
    uuid: _ImageRef | None = None
    boot_index: Whole | None = None
    volume_size: Whole | None = None
    delete_on_termination: Truth = False
    disk_bus: _Short | None = None
    device_type: _Short | None = None
    device_name: _DeviceName | None = None
    guest_format: _Short | None = None
    no_device: Any = None
    virtual_name: _Short | None = None
    volume_id: Uuid | None = None
    snapshot_id: Uuid | None = None
    image_id: Uuid | None = None
    connection_info: Any = None
    tag: Tag | UnsetType | None = UNSET
    volume_type: _Given | UnsetType | None = UNSET


class LegacyDevice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One item of block_device_mapping."""

    device_name: _DeviceName | None = None
    virtual_name: _Short | None = None
    volume_id: Uuid | None = None
    snapshot_id: Uuid | None = None
    volume_size: Whole | None = None
    no_device: Any = None
    delete_on_termination: Truth = False
    connection_info: Any = None


class SecurityGroup(Struct, frozen=True, kw_only=True):
    """A security group by its name."""

    name: _Short = ""


class File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file to be put into the guest."""

    path: _Short
    contents: str


class ServerBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a new server may be told, in any microversion."""

    name: Name
    flavor_ref: _Given | int = field(name="flavorRef")
    image_ref: _ImageRef = field(name="imageRef", default="")
    admin_pass: _Given | UnsetType = field(name="adminPass", default=UNSET)
    metadata: Metadata = {}
    disk_config: DiskConfig = field(name="OS-DCF:diskConfig", default="MANUAL")
    access_ip_v4: str | UnsetType = field(name="accessIPv4", default=UNSET)
    access_ip_v6: str | UnsetType = field(name="accessIPv6", default=UNSET)
    availability_zone: Name | None = None
    block_device_mapping: list[LegacyDevice] = []
    block_device_mapping_v2: list[Device] = []
    config_drive: Truth = False
    key_name: Name | None = None
    min_count: Whole = 1
    max_count: Whole | UnsetType = UNSET
    return_reservation_id: Truth = False
    security_groups: list[SecurityGroup] = []
    user_data: _UserData | None = None
    networks: list[Network] | Literal["auto", "none"] | UnsetType = UNSET
    personality: list[File] | UnsetType = UNSET
    description: Described | UnsetType | None = UNSET
    tags: Annotated[list[Tag], Meta(max_length=limits.COMPUTE_TAGS)] | UnsetType = UNSET
    trusted_image_certificates: (
        Annotated[list[_Given], Meta(min_length=1, max_length=50)] | UnsetType | None
    ) = UNSET
    host: _Given | UnsetType = UNSET
    hypervisor_hostname: _Given | UnsetType = UNSET
    hostname: _Given | UnsetType = UNSET


class Create(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /servers. Scheduler hints may have keys of any name."""

    server: ServerBody
    hints: dict[str, Any] = field(name="os:scheduler_hints", default={})
    old_hints: dict[str, Any] = field(name="OS-SCH-HNT:scheduler_hints", default={})


class ServerChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may change about a server, in any microversion."""

    name: Name | UnsetType = UNSET
    disk_config: DiskConfig | UnsetType = field(name="OS-DCF:diskConfig", default=UNSET)
    access_ip_v4: str | UnsetType = field(name="accessIPv4", default=UNSET)
    access_ip_v6: str | UnsetType = field(name="accessIPv6", default=UNSET)
    description: Described | UnsetType | None = UNSET
    hostname: _Given | UnsetType = UNSET
    pinned_availability_zone: Name | UnsetType | None = UNSET


class RebuildBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The value of `rebuild`, in any microversion. What is left out stays as it is."""

    image_ref: Uuid = field(name="imageRef")
    name: Name | UnsetType = UNSET
    admin_pass: _Given | UnsetType = field(name="adminPass", default=UNSET)
    metadata: Metadata | UnsetType = UNSET
    preserve_ephemeral: Truth = False
    disk_config: DiskConfig | UnsetType = field(name="OS-DCF:diskConfig", default=UNSET)
    access_ip_v4: str | UnsetType = field(name="accessIPv4", default=UNSET)
    access_ip_v6: str | UnsetType = field(name="accessIPv6", default=UNSET)
    personality: list[File] | UnsetType = UNSET
    description: Described | UnsetType | None = UNSET
    key_name: Name | UnsetType | None = UNSET
    user_data: _UserData | UnsetType | None = UNSET
    trusted_image_certificates: (
        Annotated[list[_Given], Meta(min_length=1, max_length=50)] | UnsetType | None
    ) = UNSET
    hostname: _Given | UnsetType = UNSET
    reimage_boot_volume: Truth | UnsetType = UNSET
    """Ours alone, from spec 004: whether the root volume gets the image; absent means true."""


_NEVER: Version = (9999, 0)
_Since = Mapping[str, tuple[Version, Version]]

_CREATE: _Since = {
    "description": ((2, 19), _NEVER),
    "tags": ((2, 52), _NEVER),
    "personality": ((2, 1), (2, 56)),
    "trusted_image_certificates": ((2, 63), _NEVER),
    "host": ((2, 74), _NEVER),
    "hypervisor_hostname": ((2, 74), _NEVER),
    "hostname": ((2, 90), _NEVER),
}
_UPDATE: _Since = {
    "description": ((2, 19), _NEVER),
    "hostname": ((2, 90), _NEVER),
    "pinned_availability_zone": ((2, 104), _NEVER),
}
_REBUILD: _Since = {
    "description": ((2, 19), _NEVER),
    "key_name": ((2, 54), _NEVER),
    "personality": ((2, 1), (2, 56)),
    "user_data": ((2, 57), _NEVER),
    "trusted_image_certificates": ((2, 63), _NEVER),
    "hostname": ((2, 90), _NEVER),
    "reimage_boot_volume": ((2, 93), _NEVER),
}
_DEVICE: _Since = {"volume_type": ((2, 67), _NEVER)}


def check_version(body: ServerBody | ServerChange | RebuildBody, version: Version) -> None:
    """Raise Invalid for a field that `version` does not have, anywhere in the body."""
    if not isinstance(body, ServerBody):
        _check(body, _UPDATE if isinstance(body, ServerChange) else _REBUILD, version)
        return
    _check(body, _CREATE, version)
    _check_networks(body, version)
    # Tags of disks and networks were lost by accident between 2.33 and 2.41.
    tagged = version >= (2, 42) or version == (2, 32)
    for device in body.block_device_mapping_v2:
        _check(device, _DEVICE, version)
        if device.tag is not UNSET and not tagged:
            raise _unexpected("block_device_mapping_v2.tag")


def _check_networks(body: ServerBody, version: Version) -> None:
    if version >= (2, 37):
        if body.networks is UNSET:
            raise Invalid("Invalid input for field/attribute server. networks is required.")
    elif isinstance(body.networks, str):
        raise Invalid(f"Invalid input for field/attribute networks. Value: {body.networks}.")
    tagged = version >= (2, 42) or (2, 32) <= version <= (2, 36)
    networks = body.networks if isinstance(body.networks, list) else []
    if any(network.tag is not UNSET for network in networks) and not tagged:
        raise _unexpected("networks.tag")


def _check(body: Struct, fields: _Since, version: Version) -> None:
    for name, (since, until) in fields.items():
        if getattr(body, name) is not UNSET and not since <= version <= until:
            raise _unexpected(name)


def _unexpected(name: str) -> Invalid:
    return Invalid(
        f"Invalid input for field/attribute {name}. "
        "Additional properties are not allowed in this API version."
    )
