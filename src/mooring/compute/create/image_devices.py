"""The disks that an image names in its properties (facts/compute.md 3.4).

Such an image was made of a server that boots from a volume: it has no data, and names a snapshot of
each volume. What is read here anybody may have written, who may make images.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from mooring import typed
from mooring.clients.image import BLOCK_DEVICES
from mooring.compute.create.block_devices import NewBlockDevice, is_root
from mooring.compute.wire.fields import LARGEST, DeviceName, Given, Short, Tag, Uuid
from mooring.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mooring.clients.image import Image

MAPPING = BLOCK_DEVICES
OWN = frozenset({MAPPING, "bdm_v2", "root_device_name"})
"""Properties that are about such disks: a server has none of them, nor an image of its disk."""
_TRUE = frozenset({"true", "1", "yes", "on", "t", "y"})


class ImageDevice(Struct, frozen=True, kw_only=True):
    """One item of the property, typed as `server_bodies.Device`.

    Members that it has beside these are left alone.
    """

    source_type: Literal["volume", "image", "snapshot", "blank"]
    destination_type: Literal["local", "volume"] | None = None
    snapshot_id: Uuid | None = None
    volume_id: Uuid | None = None
    image_id: Uuid | None = None
    boot_index: Annotated[int, Meta(ge=-(2**31), le=LARGEST)] | None = None
    volume_size: Annotated[int, Meta(ge=1, le=LARGEST)] | None = None
    volume_type: Given | None = None
    delete_on_termination: bool | None = None
    tag: Tag | None = None
    disk_bus: Short | None = None
    device_type: Short | None = None
    device_name: DeviceName | None = None
    guest_format: Short | None = None
    no_device: bool | None = None


def of_image(image: Image) -> list[NewBlockDevice]:
    """Return the disks that an image names; none for most. Raises Invalid: nobody can read them."""
    text = image.properties.get(MAPPING)
    if not text:
        return []
    if image.properties.get("bdm_v2", "").lower() not in _TRUE:
        raise Invalid(
            f"Image {image.id} names its disks in the form before block_device_mapping_v2, which "
            "is not built. Nothing was created; name the snapshots in the request instead."
        )
    try:
        plain: Any = msgspec.json.decode(text)
        items = typed.convert(plain, list[ImageDevice], strict=False)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise Invalid(
            f"Block Device Mapping is Invalid: the property {MAPPING} of image {image.id} names "
            "disks that make no sense. Nothing was created; correct the property, or choose "
            "another image.",
            private=str(error),
        ) from error
    return [_read(item) for item in items if not item.no_device]


def _read(item: ImageDevice) -> NewBlockDevice:
    named = {"snapshot": item.snapshot_id, "volume": item.volume_id, "image": item.image_id}
    return NewBlockDevice(
        source_type=item.source_type,
        destination_type=item.destination_type,
        uuid=named.get(item.source_type),
        boot_index=item.boot_index,
        volume_size_gib=item.volume_size,
        volume_type=item.volume_type,
        delete_on_termination=bool(item.delete_on_termination),
        tag=item.tag,
        disk_bus=item.disk_bus,
        device_type=item.device_type,
        device_name=item.device_name,
        guest_format=item.guest_format,
    )


def merge(
    of_its_own: Sequence[NewBlockDevice], asked: Sequence[NewBlockDevice]
) -> list[NewBlockDevice]:
    """Return the disks that an image names, and those of the request in their place and beside.

    One of the request takes the place of that with the same device name; with `no_device` there is
    neither. What stands for the image itself as the root disk, as the stock client sends it, is
    left out where the image names a root disk.
    """
    if any(is_root(item) for item in of_its_own):
        asked = [item for item in asked if item.source_type != "image" or not is_root(item)]
    replaced = {_last(item) for item in asked} - {""}
    return [*(item for item in of_its_own if _last(item) not in replaced), *asked]


def without_own(properties: Mapping[str, str]) -> dict[str, str]:
    """Return an image's properties as a server has them."""
    return {key: value for key, value in properties.items() if key not in OWN}


def _last(item: NewBlockDevice) -> str:
    return (item.device_name or "").removeprefix("/dev/")
