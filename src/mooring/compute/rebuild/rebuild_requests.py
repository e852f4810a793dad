"""What a rebuild asks for, and what the other services say about it (facts/compute.md 5.2, 5.4)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, UnsetType

from mooring.clients.placement import has_trait
from mooring.compute.images import fitting
from mooring.compute.scheduling import needs
from mooring.errors import Conflict, Invalid
from mooring.fence.operation import Operation

if TYPE_CHECKING:
    from mooring.clients.image import Image
    from mooring.clients.volume import Attachment, Volume
    from mooring.compute.service import Compute
    from mooring.compute.tables import BlockDevice, Host, Server
    from mooring.who import Who

TRAIT = "COMPUTE_REBUILD_BFV"
"""The trait of a host that can rebuild a server which boots from a volume."""
_VOLUME_NEEDED = (3, 68)


class Rebuild(Struct, frozen=True, kw_only=True):
    """What the action asks for; `columns` are new values of the server's, by their names.

    `may_reimage`: whether the caller knows that the root volume gets the image that is named.
    `reimage` is the body's own word about that, None when it has none.
    """

    image_id: str
    reimage: bool | None = None
    columns: dict[str, Any] = {}
    metadata: dict[str, str] | None = None
    key_name: str | UnsetType | None = UNSET
    may_reimage: bool = False


class Found(Struct, frozen=True):
    """A volume of the server, and every attachment that it has."""

    volume: Volume
    attachments: list[Attachment]

    def is_held_empty(self, attachment_id: str | None) -> bool:
        """Whether the server's own empty attachment is the only one."""
        ids = [(one.id, one.status) for one in self.attachments]
        return ids == [(attachment_id, "reserved")]


class Material(Struct, frozen=True):
    """What the other services say. `reimages`: the root volume gets the image's content."""

    image: Image
    volumes: dict[str, Found] = {}
    reimages: bool = False


async def gather(
    compute: Compute,
    who: Who,
    wanted: Rebuild,
    server: Server,
    place: tuple[Host, list[BlockDevice]],
) -> Material:
    """Ask the other services, and check what they say, before anything changes.

    Raises Invalid; Conflict: the host lacks a trait that the image requires.
    """
    host, rows = place
    image = await fitting.find(compute, who, wanted.image_id, "rebuild")
    volumes: dict[str, Found] = {}
    for row in rows:
        if row.volume_id:
            volume = await compute.volumes.show(who, row.volume_id)
            there = await compute.volumes.attachments(None, volume_id=volume.id)
            volumes[volume.id] = Found(volume, there)
    root = _find_root(server, rows)
    root_volume = volumes[root.volume_id or ""].volume if root is not None else None
    fitting.check(server, image, None if root_volume is None else root_volume.size_gib)
    await _check_traits(compute, host, image)
    reimages = _decide(wanted, root_volume)
    if reimages and root_volume is not None:
        await _check_reimage(compute, host, root_volume)
    for row in rows:
        if row.volume_id:
            await _check_volume(compute, row, volumes[row.volume_id], reimages=reimages)
    return Material(image, volumes, reimages)


def _find_root(server: Server, rows: list[BlockDevice]) -> BlockDevice | None:
    """Return the root volume of a server that boots from one. Raises Invalid when it is lost."""
    if server.image_id:
        return None
    for row in rows:
        if row.boot_index == 0 and row.volume_id:
            return row
    raise Invalid(f"Server {server.id} has no root volume. Nothing was changed; delete it.")


def _decide(wanted: Rebuild, root: Volume | None) -> bool:
    """Return whether the root volume is to be reimaged. Raises Invalid for what goes not."""
    if root is None:
        if wanted.reimage:
            raise Invalid(
                "reimage_boot_volume is only for servers that boot from a volume; this one does "
                "not. Nothing was changed; leave it out."
            )
        return False
    reimages = wanted.may_reimage and wanted.reimage is not False
    if not reimages and root.volume_image_metadata.get("image_id") != wanted.image_id:
        reason = (
            "reimage_boot_volume is false"
            if wanted.may_reimage
            else "that needs compute API version 2.93"
        )
        raise Invalid(
            "Unable to rebuild with a different image for a volume-backed server: "
            f"{reason}. Nothing was changed."
        )
    return reimages


async def _check_traits(compute: Compute, host: Host, image: Image) -> None:
    asked = needs.traits_of_image(image.properties)
    if not asked:
        return
    has = await compute.placement.traits(host.provider_id)
    if lacks := [trait for trait in asked if not has_trait(has, trait)]:
        raise Conflict(
            f"Image {image.id} requires the trait {lacks[0]}, and host {host.name}, where the "
            "server is, lacks it. Nothing was changed; choose another image, or migrate the server "
            "to a host that has it.",
            lasts=True,
        )


async def _check_reimage(compute: Compute, host: Host, root: Volume) -> None:
    # Placement's word counts: an operator may take the trait from a host, or give it one.
    if not has_trait(await compute.placement.traits(host.provider_id), TRAIT):
        raise Invalid(
            f"RebuildVolumeBackedServerNotSupport: host {host.name} cannot rebuild a server that "
            f"boots from a volume (it lacks the trait {TRAIT}). Nothing was changed."
        )
    newest = await compute.volumes.find_newest_version(None)
    if newest < _VOLUME_NEEDED:
        raise Invalid(
            "CinderAPIVersionNotAvailable: Cinder API version 3.68 is not available; the volume "
            f"service speaks up to {newest[0]}.{newest[1]}. Nothing was changed."
        )
    if root.multiattach:
        raise Invalid(
            f"Volume {root.id} is multiattach; a server with such a root volume cannot be rebuilt "
            "with an image. Nothing was changed."
        )


async def _check_volume(
    compute: Compute, row: BlockDevice, found: Found, *, reimages: bool
) -> None:
    """See that a volume is the server's: in use, or kept for it since a rebuild that failed."""
    volume, is_root = found.volume, row.boot_index == 0
    if row.state == "attached" and volume.status == "in-use":
        return
    if row.state == "attached" and found.is_held_empty(row.attachment_id):
        if volume.status == "reserved":
            return
        if volume.status == "error" and is_root and reimages:
            await _require_mooring(compute, volume)
            return
    raise Invalid(
        f"Invalid volume: volume {volume.id} of the server is {volume.status}; a rebuild needs it "
        "in-use, or reserved for this server alone. Nothing was changed."
    )


async def _require_mooring(compute: Compute, volume: Volume) -> None:
    """Raise Invalid unless the volume service is ours, which reimages a volume in error too."""
    nobody = Operation(str(uuid.uuid4()), "look", 1, 0)
    if await compute.volumes.session.bury(nobody) is None:
        raise Invalid(
            f"Invalid volume: volume {volume.id} is in error. Nothing was changed; have an "
            "administrator mend the cause and reset its status to reserved, then rebuild again."
        )
