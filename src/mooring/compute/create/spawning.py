"""What a host is told about a guest that it is to have, and the image for its root disk."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from mooring.agent_api.images import ImageSpec
from mooring.agent_api.servers import RootDisk, ServerSpec
from mooring.compute.hosts import guests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mooring.agent_api.config_drives import ConfigDrive
    from mooring.agent_api.disks import DiskSpec
    from mooring.compute.service import Compute
    from mooring.compute.tables import Server
    from mooring.saga.define import Run


def specify_guest(
    server: Server,
    image_id: str,
    disks: Sequence[DiskSpec],
    *,
    drive: ConfigDrive | None,
    name: str = "",
    power: Literal["on", "off"] = "on",
    before: Mapping[str, Any] = MappingProxyType({}),
) -> ServerSpec:
    """Return a server as its host takes it; without an `image_id` it boots from a volume.

    `before`: columns of the server as they were, of one that has its former buses.
    """
    return ServerSpec(
        name=name or server.name,
        vcpus=server.vcpus,
        memory_mib=server.memory_mib,
        root=RootDisk(image_id=image_id, size_gib=server.disk_gib) if image_id else None,
        disks=list(disks),
        mem_page_size=server.extra_specs.get("hw:mem_page_size", ""),
        network="none" if server.network == "none" else "auto",
        power=power,
        drive=drive,
        swap_mib=server.swap_mib,
        root_bus=before.get("root_bus", server.root_bus),
        bus=before.get("disk_bus", server.disk_bus),
        metadata={
            "project_id": server.project_id,
            "user_id": server.user_id,
            "flavor": server.flavor_name,
        },
    )


async def bring_image(run: Run[Compute], host: str, image_id: str) -> None:
    """See that a host has an image; it stays in the cache, whatever becomes of the server."""
    images = run.service.images
    if await guests.ask(run, host, lambda agent: agent.show_image(image_id)):
        return
    image = await images.show(None, image_id)
    spec = ImageSpec(
        disk_format=image.disk_format or "",
        size_bytes=image.size_bytes or 0,
        os_hash_algo=image.os_hash_algo or "",
        os_hash_value=image.os_hash_value or "",
    )
    async with images.download(None, image_id) as chunks:
        await guests.ask(
            run,
            host,
            lambda agent: agent.put_image(image_id, spec, chunks, operation=run.operation),
        )
