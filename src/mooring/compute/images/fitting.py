"""Whether a server can have an image for a disk (facts/compute.md 1.4, 5.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.errors import Forbidden, Invalid, NotFound

if TYPE_CHECKING:
    from mooring.clients.image import Image
    from mooring.compute.service import Compute
    from mooring.compute.tables import Server
    from mooring.who import Who


async def find(compute: Compute, who: Who, image_id: str, action: str) -> Image:
    """Return an image that its caller may use for `action`. Raises Invalid."""
    try:
        image = await compute.images.show(who, image_id)
    except (NotFound, Forbidden) as error:
        raise Invalid(
            f"Cannot find image {image_id} for {action}. Nothing was changed.", private=str(error)
        ) from error
    if not image.is_active:
        raise Invalid(f"Image {image_id} is not active, it is {image.status}. Nothing was changed.")
    if image.has_no_data:
        raise Invalid(
            f"Image {image_id} has no data for {action}: it names snapshots of the volumes of a "
            "server. Nothing was changed; make a server of it."
        )
    return image


def check(server: Server, image: Image, root_gib: int | None) -> None:
    """See that an image fits into a server's memory, and into a disk as large as its root disk.

    `root_gib` is the size of its root volume, None when it boots from none. A flavor without disk
    takes any. Raises Invalid.
    """
    if image.min_ram_mib > server.memory_mib:
        raise Invalid(
            f"Flavor's memory is too small for requested image: {image.min_ram_mib} MiB are "
            f"needed, server {server.id} has {server.memory_mib}. Nothing was changed."
        )
    room_gib = server.disk_gib if root_gib is None else root_gib
    if root_gib is None and room_gib == 0:
        return
    sizes = {
        "min_disk": image.min_disk_gib,
        "size": image.size_gib,
        "virtual size": image.virtual_size_gib,
    }
    for what, size_gib in sizes.items():
        if size_gib > room_gib:
            raise Invalid(
                f"The {what} of image {image.id}, {size_gib} GiB, is larger than the root disk of "
                f"server {server.id}, {room_gib} GiB. Nothing was changed; use another image."
            )
