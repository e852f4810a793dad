"""Captures of guests' root disks, for whoever makes images of them. Every verb may be repeated.

They lie beside the guest's own files and go with them.
"""

from __future__ import annotations

from pathlib import Path

from mooring.agent import capture_files
from mooring.agent.host import Agent
from mooring.agent.serving import Call, Handlers
from mooring.agent_api import verbs
from mooring.errors import NotFound
from mooring.fence.journal import Answer
from mooring.fence.threads import run_to_end

handlers = Handlers[Agent]()


@handlers.of(verbs.PUT_CAPTURE)
async def put_capture(call: Call[Agent]) -> Answer:
    """Copy a guest's root disk, unless that was done."""
    agent, path = call.agent, _path(call)
    if (known := capture_files.find(path)) is not None:
        return Answer(body=known)
    if await agent.hypervisor.guest(call.path["server_id"]) is None:
        raise NotFound(f"Host {agent.settings.name} has no guest {call.path['server_id']}.")
    # One is made at a time: of others, whoever wanted them was absorbed while this host was silent.
    capture_files.remove_others(path)

    async def copy(written: Path) -> None:
        await agent.hypervisor.capture_root(call.path["server_id"], written, call.operation_key)
        agent.probe.at("agent/put_capture/copied")

    made = await capture_files.make(path, call.path["image_id"], call.operation_key, copy)
    return Answer(body=made)


@handlers.of(verbs.SHOW_CAPTURE)
async def show_capture(call: Call[Agent]) -> Answer:
    """Answer what was captured, or how much of it is there."""
    if (known := capture_files.show(_path(call), call.path["image_id"])) is None:
        raise _no_capture(call)
    return Answer(body=known)


@handlers.of(verbs.READ_CAPTURE)
async def read_capture(call: Call[Agent]) -> Answer:
    """Answer a piece of the data."""
    if capture_files.find(_path(call)) is None:
        raise _no_capture(call)
    offset, length = int(call.number("offset", 0)), int(call.number("length", 0))
    return Answer(body=await run_to_end(lambda: capture_files.read(_path(call), offset, length)))


@handlers.of(verbs.DELETE_CAPTURE)
async def delete_capture(call: Call[Agent]) -> Answer:
    """Remove a capture. What made it here has ended before; in an emulator it may go on."""
    await call.agent.hypervisor.stop_capture(call.path["server_id"])
    capture_files.remove(_path(call))
    return Answer(status=204)


def _path(call: Call[Agent]) -> Path:
    own = call.agent.hypervisor.guest_directory / call.path["server_id"]
    return capture_files.path_in(own, call.path["image_id"])


def _no_capture(call: Call[Agent]) -> NotFound:
    return NotFound(
        f"Host {call.agent.settings.name} has no capture {call.path['image_id']} of server "
        f"{call.path['server_id']}. Have it made first."
    )
