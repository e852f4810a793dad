"""Captures of volumes, for whoever makes images of them. Every verb may be repeated.

They lie in a directory of the agent's own, one for each volume, which goes with the volume: the
volume's storage may have no room to spare, or belong to others.
"""

from __future__ import annotations

from pathlib import Path

from mooring.agent import capture_files
from mooring.agent.host import Agent
from mooring.agent.serving import Call, Handlers
from mooring.agent.volumes import find_volume
from mooring.agent_api import verbs
from mooring.errors import NotFound
from mooring.fence.journal import Answer
from mooring.fence.threads import run_to_end

handlers = Handlers[Agent]()


@handlers.of(verbs.PUT_VOLUME_CAPTURE)
async def put_volume_capture(call: Call[Agent]) -> Answer:
    """Copy a volume that nobody has, or a snapshot, unless that was done."""
    agent, path = call.agent, _path(call)
    if (known := capture_files.find(path)) is not None:
        return Answer(body=known)
    driver, volume = await find_volume(call)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def copy(written: Path) -> None:
        target, snapshot_id = (written, call.body.disk_format), call.body.snapshot_id
        await driver.capture(volume.volume_id, target, call.operation_key, snapshot_id)
        agent.probe.at("agent/put_volume_capture/copied")

    made = await capture_files.make(path, call.path["image_id"], call.operation_key, copy)
    return Answer(body=made)


@handlers.of(verbs.SHOW_VOLUME_CAPTURE)
async def show_volume_capture(call: Call[Agent]) -> Answer:
    """Answer what was captured, or how much of it is there."""
    if (known := capture_files.show(_path(call), call.path["image_id"])) is None:
        raise _no_capture(call)
    return Answer(body=known)


@handlers.of(verbs.READ_VOLUME_CAPTURE)
async def read_volume_capture(call: Call[Agent]) -> Answer:
    """Answer a piece of the data."""
    if capture_files.find(_path(call)) is None:
        raise _no_capture(call)
    offset, length = int(call.number("offset", 0)), int(call.number("length", 0))
    return Answer(body=await run_to_end(lambda: capture_files.read(_path(call), offset, length)))


@handlers.of(verbs.DELETE_VOLUME_CAPTURE)
async def delete_volume_capture(call: Call[Agent]) -> Answer:
    """Remove a capture; what made it has ended before."""
    capture_files.remove(_path(call))
    return Answer(status=204)


def _path(call: Call[Agent]) -> Path:
    own = call.agent.volume_captures / call.path["volume_id"]
    return capture_files.path_in(own, call.path["image_id"])


def _no_capture(call: Call[Agent]) -> NotFound:
    return NotFound(
        f"Host {call.agent.settings.name} has no capture {call.path['image_id']} of volume "
        f"{call.path['volume_id']}. Have it made first."
    )
