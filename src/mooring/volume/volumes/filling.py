"""Bringing an image into a volume: to the volume's host first, then into its storage."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from mooring.agent_api.images import ImageSpec
from mooring.errors import Invalid, MooringError
from mooring.limits import VOLUME_PROGRESS_S

if TYPE_CHECKING:
    from mooring.agent_api.client import AgentClient
    from mooring.clients.image import Image
    from mooring.saga.define import Run
    from mooring.volume.service import Volume

T = TypeVar("T")
FORMATS = ("raw", "qcow2")
"""Disk formats of images that volumes are filled from."""
REPLACING = frozenset({"downloading", "restoring-backup"})
"""Statuses of a volume whose content its host may be replacing."""


def refuse_without_data(image: Image) -> None:
    """Raise Invalid for an image that only names snapshots (facts/compute.md 3.4)."""
    if image.has_no_data:
        raise Invalid(
            f"Invalid input received: Image {image.id} has no data: it names snapshots of the "
            "volumes of a server. Nothing was changed; make a server of it, or make a volume of "
            "one of the snapshots.",
        )


def spec_of(image: Image) -> ImageSpec:
    """Return what a host must know of an image to take it in and to check it."""
    return ImageSpec(
        disk_format=image.disk_format or "raw",
        size_bytes=image.size_bytes or 0,
        os_hash_algo=image.os_hash_algo or "",
        os_hash_value=image.os_hash_value or "",
    )


def metadata_of(image: Image) -> dict[str, str]:
    """Return what a volume shows of the image it was filled from."""
    known: dict[str, Any] = {
        "image_id": image.id,
        "image_name": image.name,
        "checksum": image.checksum,
        "container_format": image.container_format,
        "disk_format": image.disk_format,
        "min_disk": image.min_disk_gib,
        "min_ram": image.min_ram_mib,
        "size": image.size_bytes,
    }
    shown = {key: str(value) for key, value in known.items() if value is not None}
    return {**image.properties, **shown}


async def bring_image(run: Run[Volume], agent: AgentClient, image_id: str, spec: ImageSpec) -> None:
    """See that the host has the image. It stays in the host's cache, whatever becomes of us."""
    if await agent.show_image(image_id) is not None:
        return
    async with run.service.images.download(None, image_id) as chunks:
        await agent.put_image(image_id, spec, chunks, operation=run.operation)


async def follow(
    run: Run[Volume], agent: AgentClient, volume_id: str, copy: Coroutine[Any, Any, T]
) -> T:
    """Await a copy, and tell meanwhile how far it is."""
    copying = asyncio.ensure_future(copy)
    try:
        while not (await asyncio.wait({copying}, timeout=VOLUME_PROGRESS_S))[0]:
            await _tell_progress(run, agent, volume_id)
        return copying.result()
    finally:
        copying.cancel()


async def _tell_progress(run: Run[Volume], agent: AgentClient, volume_id: str) -> None:
    try:
        percent = (await agent.show_copying(volume_id)).percent
    except MooringError:
        # Only a courtesy: whether the copy itself goes on, its own call tells.
        return
    if percent is not None:
        await run.progress(percent)
