"""The bodies of POST and PUT /servers and of `rebuild` (facts/compute.md 1.4, 3.1, 9.5)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from mooring import limits
from mooring.compute.wire.api.values import (
    Described,
    DiskConfig,
    Metadata,
    Name,
    Truth,
    Whole,
)
from mooring.compute.wire.fields import DeviceName, Given, Short, Tag, Uuid
from mooring.web.bodies import Gap, Required, Since, Until, Was

_Empty = Annotated[str, Meta(max_length=0)]
_ImageRef = Annotated[
    str, Meta(pattern=r"^(?:[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12})?\Z")
]
_Certificates = Annotated[list[Given], Meta(min_length=1, max_length=50)]
_Tags = Annotated[list[Tag], Meta(max_length=limits.COMPUTE_TAGS)]
_UserData = Annotated[str, Meta(max_length=limits.COMPUTE_USER_DATA_BYTES)]


class Network(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One network that a server is to be on."""

    uuid: Uuid | UnsetType = UNSET
    port: Uuid | UnsetType | None = UNSET
    fixed_ip: Short | UnsetType = UNSET
    # Tags of networks and disks were lost by accident for a while.
    tag: Annotated[Tag | UnsetType, Since(2, 32), Gap((2, 37), (2, 41))] = UNSET


class Device(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One item of block_device_mapping_v2."""

    source_type: Literal["volume", "image", "snapshot", "blank"]
    destination_type: Literal["local", "volume"] | None = None
    uuid: _ImageRef | None = None
    boot_index: Whole | None = None
    volume_size: Whole | None = None
    delete_on_termination: Truth = False
    disk_bus: Short | None = None
    device_type: Short | None = None
    device_name: DeviceName | None = None
    guest_format: Short | None = None
    no_device: Any = None
    virtual_name: Short | None = None
    volume_id: Uuid | None = None
    snapshot_id: Uuid | None = None
    image_id: Uuid | None = None
    connection_info: Any = None
    tag: Annotated[Tag | UnsetType | None, Since(2, 32), Gap((2, 33), (2, 41))] = UNSET
    volume_type: Annotated[Given | UnsetType | None, Since(2, 67)] = UNSET


class LegacyDevice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One item of block_device_mapping."""

    device_name: DeviceName | None = None
    virtual_name: Short | None = None
    volume_id: Uuid | None = None
    snapshot_id: Uuid | None = None
    volume_size: Whole | None = None
    no_device: Any = None
    delete_on_termination: Truth = False
    connection_info: Any = None


class SecurityGroup(Struct, frozen=True, kw_only=True):
    """A security group by its name."""

    name: Short = ""


class File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file to be put into the guest."""

    path: Short
    contents: str


class ServerBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a new server may be told."""

    name: Name
    flavor_ref: Given | int = field(name="flavorRef")
    image_ref: _ImageRef = field(name="imageRef", default="")
    admin_pass: Given | UnsetType = field(name="adminPass", default=UNSET)
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
    networks: Annotated[
        list[Network] | Literal["auto", "none"] | UnsetType,
        Was(list[Network] | UnsetType, (2, 36)),
        Required(2, 37),
    ] = UNSET
    personality: Annotated[list[File] | UnsetType, Until(2, 56)] = UNSET
    description: Annotated[Described | UnsetType | None, Since(2, 19)] = UNSET
    tags: Annotated[_Tags | UnsetType, Since(2, 52)] = UNSET
    trusted_image_certificates: Annotated[_Certificates | UnsetType | None, Since(2, 63)] = UNSET
    host: Annotated[Given | UnsetType, Since(2, 74)] = UNSET
    hypervisor_hostname: Annotated[Given | UnsetType, Since(2, 74)] = UNSET
    hostname: Annotated[Given | UnsetType, Since(2, 90)] = UNSET


class Create(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /servers. Scheduler hints may have keys of any name."""

    server: ServerBody
    hints: dict[str, Any] = field(name="os:scheduler_hints", default={})
    old_hints: dict[str, Any] = field(name="OS-SCH-HNT:scheduler_hints", default={})


class ServerChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may change about a server."""

    name: Name | UnsetType = UNSET
    disk_config: DiskConfig | UnsetType = field(name="OS-DCF:diskConfig", default=UNSET)
    access_ip_v4: str | UnsetType = field(name="accessIPv4", default=UNSET)
    access_ip_v6: str | UnsetType = field(name="accessIPv6", default=UNSET)
    description: Annotated[Described | UnsetType | None, Since(2, 19)] = UNSET
    hostname: Annotated[Given | UnsetType, Since(2, 90)] = UNSET
    pinned_availability_zone: Annotated[Name | UnsetType | None, Since(2, 104)] = UNSET


class RebuildBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The value of `rebuild`. What is left out stays as it is."""

    image_ref: Uuid = field(name="imageRef")
    name: Name | UnsetType = UNSET
    admin_pass: Given | UnsetType = field(name="adminPass", default=UNSET)
    metadata: Metadata | UnsetType = UNSET
    preserve_ephemeral: Truth = False
    disk_config: DiskConfig | UnsetType = field(name="OS-DCF:diskConfig", default=UNSET)
    access_ip_v4: str | UnsetType = field(name="accessIPv4", default=UNSET)
    access_ip_v6: str | UnsetType = field(name="accessIPv6", default=UNSET)
    personality: Annotated[list[File] | UnsetType, Until(2, 56)] = UNSET
    description: Annotated[Described | UnsetType | None, Since(2, 19)] = UNSET
    key_name: Annotated[Name | UnsetType | None, Since(2, 54)] = UNSET
    user_data: Annotated[_UserData | UnsetType | None, Since(2, 57)] = UNSET
    trusted_image_certificates: Annotated[_Certificates | UnsetType | None, Since(2, 63)] = UNSET
    hostname: Annotated[Given | UnsetType, Since(2, 90)] = UNSET
    reimage_boot_volume: Annotated[Truth | UnsetType, Since(2, 93)] = UNSET
    """Ours alone, from spec 004: whether the root volume gets the image; absent means true."""
