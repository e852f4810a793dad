"""How a volume's content comes from one host to another: captured, carried, taken in.

The capture has the id of the copy that is made from it, at both hosts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring import captured_images
from mooring.agent_api.captures import CAPTURE_FORMAT
from mooring.agent_api.images import ImageSpec
from mooring.errors import Conflict, Unavailable
from mooring.volume.backends import apart, backends
from mooring.volume.volumes import filling

if TYPE_CHECKING:
    from mooring.fence.operation import Operation
    from mooring.saga.define import Run
    from mooring.volume.migration.copies import Move
    from mooring.volume.service import Volume


async def are_apart(run: Run[Volume], move: Move) -> bool:
    """Whether neither host has the storage of the other's pool, as they tell now.

    Raises Unavailable as long as one of their pools does not tell what storage it is.
    """
    names = move.source, move.target
    hosts = [await run.service.agents[name].host() for name in names]
    seen = apart.Seen(
        {
            host.name: {backends.name_of(host.name, pool): pool.identity for pool in host.pools}
            for host in hosts
        }
    )
    found = seen.are_apart(move.moves_from, move.moves_to)
    if found is None:
        raise Unavailable(
            f"A pool of host {move.source} or of host {move.target} does not say what storage it "
            "is. Nothing is removed there before; see that all their pools work."
        )
    return found


async def capture(run: Run[Volume], volume_id: str, move: Move) -> None:
    """Have the source copy the volume into a file of its own, or find it done."""
    agent = await backends.agent_of(run, move.source)
    copying = agent.put_volume_capture(
        volume_id, move.copy_id, CAPTURE_FORMAT, operation=run.operation
    )
    await filling.follow(run, agent, volume_id, copying)


async def remove_capture(
    run: Run[Volume], volume_id: str, move: Move, operation: Operation
) -> None:
    """Have the source stop copying, and remove the file."""
    agent = await backends.agent_of(run, move.source)
    await agent.delete_volume_capture(volume_id, move.copy_id, operation=operation)


async def carry(run: Run[Volume], volume_id: str, move: Move) -> None:
    """Bring the file to the target, which has it whole and checked then.

    What was broken off goes on where it was. Raises Conflict when the source has the file no more.
    """
    source = await backends.agent_of(run, move.source)
    target = await backends.agent_of(run, move.target)
    if await target.show_image(move.copy_id) is not None:
        return
    made = await source.show_volume_capture(volume_id, move.copy_id)
    if made is None or not made.is_whole:
        raise Conflict(
            f"Host {source.name} has no copy of volume {volume_id} any more. The volume is as it "
            "was; migrate it again."
        )
    spec = ImageSpec(
        disk_format=CAPTURE_FORMAT,
        size_bytes=made.size_bytes,
        os_hash_algo="sha256",
        os_hash_value=made.sha256,
        for_operation=True,
        begins_at=await target.arrived_bytes(move.copy_id),
    )
    sent = spec.begins_at
    pieces = source.read_volume_capture(volume_id, made, begins_at=sent)
    followed = captured_images.followed(run, pieces, made.size_bytes, sent)
    await target.put_image(move.copy_id, spec, followed, operation=run.operation)


async def remove_carried(run: Run[Volume], move: Move, operation: Operation) -> None:
    """Remove the file at the target."""
    agent = await backends.agent_of(run, move.target)
    await agent.delete_image(move.copy_id, operation=operation)
