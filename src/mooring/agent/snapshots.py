"""Overlays of the disks of guests: a snapshot lets a guest write to a new file, a merge ends one.

Every verb may be repeated. Source: facts/block_storage.md 5.2.
"""

from __future__ import annotations

from pathlib import PurePath

from mooring.agent.host import Agent
from mooring.agent.serving import Call, Handlers
from mooring.agent_api import verbs
from mooring.agent_api.disks import GuestDisk
from mooring.agent_api.overlays import ActiveFile, check_name
from mooring.fence.journal import Answer

handlers = Handlers[Agent]()


@handlers.of(verbs.SNAPSHOT_DISK)
async def snapshot_disk(call: Call[Agent]) -> Answer:
    """Let the guest write to an overlay from now on."""
    new_file = check_name(call.body.new_file)
    await call.agent.connections.reach_of(*_disk(call))
    disk = await call.agent.hypervisor.snapshot_disk(*_disk(call), new_file)
    call.agent.probe.at("agent/snapshot_disk/switched")
    return _follow(call, disk)


@handlers.of(verbs.TAKE_BACK_SNAPSHOT)
async def take_back_snapshot(call: Call[Agent]) -> Answer:
    """Let the guest write to the file below again; what it wrote meanwhile goes there too."""
    new_file = check_name(call.query.get("new_file", ""))
    await call.agent.connections.reach_of(*_disk(call))
    disk = await call.agent.hypervisor.take_back_snapshot(
        *_disk(call), new_file, call.operation_key
    )
    call.agent.probe.at("agent/take_back_snapshot/switched")
    if disk is not None:
        _follow(call, disk)
    return Answer(status=204)


@handlers.of(verbs.MERGE_DISK)
async def merge_disk(call: Call[Agent]) -> Answer:
    """Merge files of the disk, and answer once that is done."""
    await call.agent.connections.reach_of(*_disk(call))
    disk = await call.agent.hypervisor.merge_disk(*_disk(call), call.body, call.operation_key)
    return _follow(call, disk)


@handlers.of(verbs.STOP_MERGE)
async def stop_merge(call: Call[Agent]) -> Answer:
    """End a merge that is under way."""
    await call.agent.hypervisor.stop_merge(*_disk(call))
    return Answer(status=204)


def _disk(call: Call[Agent]) -> tuple[str, str]:
    return call.path["server_id"], call.path["volume_id"]


def _follow(call: Call[Agent], disk: GuestDisk) -> Answer:
    """Note the file in the connection's record, and answer it without its directory."""
    call.agent.connections.follow(disk.attachment_id, disk.path, disk.format)
    return Answer(body=ActiveFile(file=PurePath(disk.path).name, format=disk.format))
