"""Volumes and images on this host. Every verb may be repeated."""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mooring import typed
from mooring.agent import capture_files
from mooring.agent.drivers.base import ExtendNeedsCompute, SourceImage, VolumeDriver, require
from mooring.agent.files import DamagedRecord
from mooring.agent.host import Agent
from mooring.agent.serving import Call, Handlers
from mooring.agent.sources import FileSource
from mooring.agent_api import verbs
from mooring.agent_api.images import Arrived, ImageSpec
from mooring.agent_api.volumes import (
    Copying,
    Export,
    Extended,
    VolumeFile,
)
from mooring.errors import Invalid, NotFound, Unavailable
from mooring.fence.journal import Answer
from mooring.fence.threads import run_to_end

handlers = Handlers[Agent]()


@handlers.of(verbs.SHOW_IMAGE)
async def show_image(call: Call[Agent]) -> Answer:
    """Answer an image of the cache."""
    image_id = call.path["image_id"]
    if (image := call.agent.images.use(image_id)) is None:
        raise NotFound(f"Image {image_id} is not in the cache of {call.agent.settings.name}.")
    return Answer(body=image)


@handlers.of(verbs.SHOW_ARRIVED)
async def show_arrived(call: Call[Agent]) -> Answer:
    """Answer how much has come of an image for an operation."""
    return Answer(body=Arrived(await call.agent.images.arrived_bytes(call.path["image_id"])))


@handlers.of(verbs.PUT_IMAGE)
async def put_image(call: Call[Agent]) -> Answer:
    """Take an image in from the request's body."""
    try:
        spec = typed.convert(dict(call.query), ImageSpec, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"The image is not declared as it must be: {error}.") from error
    image = await call.agent.images.put(
        call.path["image_id"], spec, call.stream(), call.operation_key
    )
    return Answer(body=image)


@handlers.of(verbs.DELETE_IMAGE)
async def delete_image(call: Call[Agent]) -> Answer:
    """Take an image out of the cache."""
    call.agent.images.delete(call.path["image_id"])
    return Answer(status=204)


@handlers.of(verbs.SHOW_VOLUME)
async def show_volume(call: Call[Agent]) -> Answer:
    """Answer a volume of this host's pools."""
    _, volume = await find_volume(call)
    return Answer(body=volume)


@handlers.of(verbs.PUT_VOLUME)
async def put_volume(call: Call[Agent]) -> Answer:
    """Make a volume."""
    spec = call.body
    if spec.size_gib < 1:
        raise Invalid("A volume has at least 1 GiB.")
    driver = call.agent.driver(spec.pool)
    wanted = VolumeFile(
        volume_id=call.path["volume_id"],
        pool=spec.pool,
        size_gib=spec.size_gib,
        format=spec.format or driver.pool.format,
    )
    source = _source(call.agent, spec.image_id) if spec.image_id else None
    if source is not None and spec.image_id == wanted.volume_id:
        source = replace(source, lasting=False)
    if spec.snapshot is not None:
        source = await driver.snapshot_source(spec.snapshot.volume_id, spec.snapshot.snapshot_id)
    if spec.source_volume:
        where = call.agent.driver(spec.source_pool or spec.pool)
        source = await where.volume_source(spec.source_volume)
    made = await driver.create(wanted, source, call.operation_key, becomes=spec.becomes)
    return Answer(body=made)


@handlers.of(verbs.EXTEND_VOLUME)
async def extend_volume(call: Call[Agent]) -> Answer:
    """Grow a volume, or say that only its guest's hypervisor can."""
    size_gib = call.body.size_gib
    if size_gib < 1:
        raise Invalid("A volume has at least 1 GiB.")
    driver, volume = await find_volume(call)
    try:
        grown = await driver.extend(volume.volume_id, size_gib, call.operation_key)
    except ExtendNeedsCompute as error:
        return Answer(body=Extended(error.volume.virtual_bytes, needs_compute=True))
    return Answer(body=Extended(grown.virtual_bytes))


@handlers.of(verbs.FORGET_EXTEND)
async def forget_extend(call: Call[Agent]) -> Answer:
    """Leave a tombstone: the fence has ended what ran. What has grown stays so."""
    del call
    return Answer(status=204)


@handlers.of(verbs.SHOW_COPYING)
async def show_copying(call: Call[Agent]) -> Answer:
    """Answer how far a volume's content has been written."""
    volume_id = call.path["volume_id"]
    for driver in call.agent.drivers.values():
        if (percent := await driver.copied_percent(volume_id)) is not None:
            return Answer(body=Copying(percent))
    return Answer(body=Copying(None))


@handlers.of(verbs.REPLACE_CONTENT)
async def replace_content(call: Call[Agent]) -> Answer:
    """Give a volume the content of a cached image."""
    driver, volume = await find_volume(call)
    source = _source(call.agent, call.body.image_id)
    return Answer(body=await driver.replace(volume.volume_id, source, call.operation_key))


@handlers.of(verbs.FORGET_CONTENT)
async def forget_content(call: Call[Agent]) -> Answer:
    """Leave a tombstone: the fence has ended what ran. What was replaced stays so."""
    del call
    return Answer(status=204)


@handlers.of(verbs.ADOPT_COPY)
async def adopt_copy(call: Call[Agent]) -> Answer:
    """Give a copy the volume's place: what that was goes first, then the copy has its id.

    Until the copy has it there is the copy, so that nothing is lost in between. A guest may have
    one that was made to become the volume, and nobody has what that was.
    """
    volume_id, copy_id = call.path["volume_id"], call.path["copy_id"]
    driver = call.agent.driver(call.body.pool)
    if (copy := await driver.find(copy_id)) is not None:
        former = call.agent.drivers.get(call.body.former, driver)
        if copy.becomes and former is not driver:
            await _end_exports(former, volume_id)
        for each in {former, driver} - ({driver} if copy.becomes else set()):
            await each.delete(volume_id)
        call.agent.probe.at("agent/adopt_copy/removed")
    await driver.rename(copy_id, volume_id)
    return Answer(body=require(await driver.find(volume_id), volume_id))


@handlers.of(verbs.DELETE_VOLUME)
async def delete_volume(call: Call[Agent]) -> Answer:
    """Remove a volume from whichever pool has it, or has begun it."""
    volume_id = call.path["volume_id"]
    for driver in await _reachable(call, with_damaged=True):
        await driver.delete(volume_id)
    await run_to_end(lambda: capture_files.remove_all(call.agent.volume_captures / volume_id))
    return Answer(status=204)


@handlers.of(verbs.CLAIM_VOLUME)
async def claim_volume(call: Call[Agent]) -> Answer:
    """Change nothing: the fence has the newer lock's mark, and what ran before has ended."""
    del call
    return Answer(status=204)


@handlers.of(verbs.EXPORT_VOLUME)
async def export_volume(call: Call[Agent]) -> Answer:
    """Let a host reach a volume."""
    driver, volume = await find_volume(call)
    info = await driver.export(volume.volume_id, call.path["attachment_id"], call.body.connector)
    return Answer(body=Export(info), secret=True)


@handlers.of(verbs.UNEXPORT_VOLUME)
async def unexport_volume(call: Call[Agent]) -> Answer:
    """Undo an export."""
    for driver in await _reachable(call):
        await driver.unexport(call.path["volume_id"], call.path["attachment_id"])
    return Answer(status=204)


@handlers.of(verbs.SHOW_HOLDERS)
async def show_holders(call: Call[Agent]) -> Answer:
    """Answer who has a volume's image open."""
    driver, volume = await find_volume(call)
    return Answer(body=await driver.holders(volume.volume_id))


@handlers.of(verbs.FENCE_HOLDER)
async def fence_holder(call: Call[Agent]) -> Answer:
    """Take a volume's image from one attachment, where the storage can."""
    driver, volume = await find_volume(call)
    await driver.fence(volume.volume_id, call.path["attachment_id"])
    return Answer(status=204)


@handlers.of(verbs.LIFT_FENCE)
async def lift_fence(call: Call[Agent]) -> Answer:
    """Undo a fence."""
    for driver in await _reachable(call):
        await driver.lift_fence(call.path["volume_id"], call.path["attachment_id"])
    return Answer(status=204)


async def _end_exports(driver: VolumeDriver, volume_id: str) -> None:
    found = await driver.find(volume_id)
    for attachment_id in found.exports if found else ():
        await driver.unexport(volume_id, attachment_id)


async def find_volume(call: Call[Agent]) -> tuple[VolumeDriver, VolumeFile]:
    """Return the volume that a call names, and its pool. Raises NotFound, Unavailable."""
    if (found := await _find(call)) is not None:
        return found
    raise NotFound(f"Volume {call.path['volume_id']} is not on host {call.agent.settings.name}.")


async def find_driver(call: Call[Agent]) -> VolumeDriver | None:
    """Return the pool of the volume that a call names, None: it is nowhere. Raises Unavailable."""
    found = await _find(call)
    return found[0] if found else None


async def _find(call: Call[Agent]) -> tuple[VolumeDriver, VolumeFile] | None:
    seen = await _look_for(call)
    seen.check()
    return seen.found


async def _reachable(call: Call[Agent], *, with_damaged: bool = False) -> list[VolumeDriver]:
    """Return all pools that can be used now, also one in which the volume is damaged if asked.

    Raises Unavailable when the volume is in none of them, and may be in one that cannot.
    """
    seen = await _look_for(call)
    if with_damaged and seen.damaged:
        return [*seen.drivers, *seen.damaged]
    seen.check()
    return seen.drivers


class _Seen(Struct):
    """Where a volume is, the pools that can be asked for it, and why others cannot."""

    found: tuple[VolumeDriver, VolumeFile] | None = None
    drivers: list[VolumeDriver] = []
    damaged: list[VolumeDriver] = []
    """Those that have it, and cannot read what it is."""
    failures: list[Unavailable] = []
    """Of a damaged one first: there the volume is."""

    def check(self) -> None:
        """Raise Unavailable when the volume was not found, and may be where nobody could look."""
        if self.found is None and self.failures:
            raise self.failures[0]


async def _look_for(call: Call[Agent]) -> _Seen:
    seen = _Seen()
    for driver in call.agent.drivers.values():
        try:
            volume = await driver.find(call.path["volume_id"])
        except DamagedRecord as error:
            seen.damaged.append(driver)
            seen.failures.insert(0, error)
            continue
        except Unavailable as error:
            seen.failures.append(error)
            continue
        seen.drivers.append(driver)
        if volume is not None and seen.found is None:
            seen.found = driver, volume
    return seen


def _source(agent: Agent, image_id: str) -> SourceImage:
    if (image := agent.images.use(image_id)) is None:
        raise NotFound(
            f"Image {image_id} is not in the cache of host {agent.settings.name}; push it first."
        )
    file = FileSource(str(agent.images.path(image_id)), image.disk_format)
    return SourceImage(image_id, file, image.virtual_bytes)
