"""Captures of guests' root disks, for whoever makes images of them. Every verb may be repeated.

`<image id>.capture` lies beside the guest's own files and goes with them; `<image id>.capture.json`
says what it is and makes it count.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from mooring.agent import files
from mooring.agent.host import Agent
from mooring.agent.serving import Call, Handlers
from mooring.agent_api import verbs
from mooring.agent_api.captures import Capture
from mooring.errors import Invalid, NotFound
from mooring.fence.journal import Answer
from mooring.fence.threads import run_to_end
from mooring.limits import CAPTURE_PIECE_BYTES

handlers = Handlers[Agent]()
_CAPTURE = ".capture"


@handlers.of(verbs.PUT_CAPTURE)
async def put_capture(call: Call[Agent]) -> Answer:
    """Copy a guest's root disk, unless that was done."""
    agent, path = call.agent, _path(call)
    if (known := _find(call)) is not None:
        return Answer(body=known)
    if await agent.hypervisor.guest(call.path["server_id"]) is None:
        raise NotFound(f"Host {agent.settings.name} has no guest {call.path['server_id']}.")
    # One is made at a time: of others, whoever wanted them was absorbed while this host was silent.
    for left in path.parent.glob(f"*{_CAPTURE}*"):
        left.unlink(missing_ok=True)
    written = files.partial(path, call.operation_key)
    try:
        with files.full_disk_told(path):
            await agent.hypervisor.capture_root(call.path["server_id"], written, call.operation_key)
        agent.probe.at("agent/put_capture/copied")
        await run_to_end(lambda: files.finish(written, path))
        capture = await run_to_end(lambda: _measure(path, call.path["image_id"]))
        files.write_record(_record_path(path), capture, forced=True)
    finally:
        written.unlink(missing_ok=True)
    return Answer(body=capture)


@handlers.of(verbs.SHOW_CAPTURE)
async def show_capture(call: Call[Agent]) -> Answer:
    """Answer what was captured, or how much of it is there."""
    if (known := _find(call)) is not None:
        return Answer(body=known)
    path = _path(call)
    for being_made in (path, *files.partials(path)):
        if being_made.exists():
            size_bytes = being_made.stat().st_blocks * 512
            return Answer(body=Capture(image_id=call.path["image_id"], size_bytes=size_bytes))
    raise _no_capture(call)


@handlers.of(verbs.READ_CAPTURE)
async def read_capture(call: Call[Agent]) -> Answer:
    """Answer a piece of the data."""
    offset, length = int(call.number("offset", 0)), int(call.number("length", 0))
    if offset < 0 or not 0 < length <= CAPTURE_PIECE_BYTES:
        raise Invalid(f"A piece has 1 to {CAPTURE_PIECE_BYTES} bytes, from an offset of 0 on.")
    if _find(call) is None:
        raise _no_capture(call)
    return Answer(body=await run_to_end(lambda: _read(_path(call), offset, length)))


@handlers.of(verbs.DELETE_CAPTURE)
async def delete_capture(call: Call[Agent]) -> Answer:
    """Remove a capture. What made it here has ended before; in an emulator it may go on."""
    path = _path(call)
    await call.agent.hypervisor.stop_capture(call.path["server_id"])
    for left in (_record_path(path), path, *files.partials(path)):
        left.unlink(missing_ok=True)
    return Answer(status=204)


def _path(call: Call[Agent]) -> Path:
    own = call.agent.hypervisor.guest_directory / call.path["server_id"]
    return own / f"{call.path['image_id']}{_CAPTURE}"


def _record_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _find(call: Call[Agent]) -> Capture | None:
    path = _path(call)
    return files.read_record(_record_path(path), Capture) if path.exists() else None


def _measure(path: Path, image_id: str) -> Capture:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size_bytes = file.seek(0, os.SEEK_END)
    return Capture(image_id=image_id, size_bytes=size_bytes, sha256=digest)


def _read(path: Path, offset: int, length: int) -> bytes:
    with path.open("rb") as file:
        return os.pread(file.fileno(), length, offset)


def _no_capture(call: Call[Agent]) -> NotFound:
    return NotFound(
        f"Host {call.agent.settings.name} has no capture {call.path['image_id']} of server "
        f"{call.path['server_id']}. Have it made first."
    )
