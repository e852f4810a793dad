"""Snapshots of this host's volumes. Every verb may be repeated."""

from __future__ import annotations

from mooring.agent.host import Agent
from mooring.agent.serving import Call, Handlers
from mooring.agent.volumes import find_driver
from mooring.agent_api import verbs
from mooring.agent_api.snapshots import SnapshotSpec
from mooring.errors import NotFound
from mooring.fence.journal import Answer

handlers = Handlers[Agent]()


@handlers.of(verbs.SHOW_SNAPSHOT)
async def show_snapshot(call: Call[Agent]) -> Answer:
    """Answer a snapshot, taken or prepared."""
    driver, names = await find_driver(call), _names(call)
    found = await driver.snapshot(*names) if driver else None
    if found is None:
        raise NotFound(f"Volume {names[0]} has no snapshot {names[1]} on this host.")
    return Answer(body=found)


@handlers.of(verbs.PUT_SNAPSHOT)
async def put_snapshot(call: Call[Agent]) -> Answer:
    """Take a snapshot, copy one, or prepare one for a hypervisor to switch to."""
    names, driver = _names(call), await find_driver(call)
    if driver is None:
        raise NotFound(f"Volume {names[0]} is not on host {call.agent.settings.name}.")
    spec: SnapshotSpec = call.body
    acts = {
        "prepared": driver.prepare_snapshot,
        "taken": driver.take_snapshot,
        "copied": driver.copy_snapshot,
    }
    return Answer(body=await acts[spec.state](*names, call.operation_key))


@handlers.of(verbs.DELETE_SNAPSHOT)
async def delete_snapshot(call: Call[Agent]) -> Answer:
    """Merge the files of a snapshot, or remove what was only prepared."""
    if (driver := await find_driver(call)) is not None:
        released = "released" in call.query
        await driver.delete_snapshot(*_names(call), call.operation_key, released=released)
    return Answer(status=204)


@handlers.of(verbs.REVERT_VOLUME)
async def revert_volume(call: Call[Agent]) -> Answer:
    """Give a volume the content of its newest snapshot."""
    names, driver = _names(call), await find_driver(call)
    if driver is None:
        raise NotFound(f"Volume {names[0]} is not on host {call.agent.settings.name}.")
    return Answer(body=await driver.revert(*names, call.operation_key))


@handlers.of(verbs.FORGET_REVERT)
async def forget_revert(call: Call[Agent]) -> Answer:
    """Leave a tombstone: the fence has ended what ran. What was reverted stays so."""
    del call
    return Answer(status=204)


@handlers.of(verbs.RECORD_MERGE)
async def record_merge(call: Call[Agent]) -> Answer:
    """Record that a hypervisor has merged the files of a snapshot."""
    if (driver := await find_driver(call)) is not None:
        await driver.record_merge(*_names(call))
    return Answer(status=204)


def _names(call: Call[Agent]) -> tuple[str, str]:
    return call.path["volume_id"], call.path["snapshot_id"]
