"""Volumes that take the place of others under running guests. Every verb may be repeated."""

from __future__ import annotations

from msgspec.structs import replace

from mooring.agent.guest_mirrors import is_switched
from mooring.agent.host import Agent
from mooring.agent.hypervisor import DiskPlan
from mooring.agent.serving import Call, Handlers
from mooring.agent_api import verbs
from mooring.errors import Invalid, NotFound
from mooring.fence.journal import Answer

handlers = Handlers[Agent]()


@handlers.of(verbs.SHOW_MIRRORING)
async def show_mirroring(call: Call[Agent]) -> Answer:
    """Answer how far the copy is."""
    return Answer(body=await call.agent.hypervisor.mirroring(*_disk(call)))


@handlers.of(verbs.MIRROR_DISK)
async def mirror_disk(call: Call[Agent]) -> Answer:
    """Connect the new volume, and begin to copy the old one to it."""
    agent, (server_id, volume_id), spec = call.agent, _disk(call), call.body
    if (guest := await agent.hypervisor.guest(server_id)) is None:
        raise NotFound(f"Host {agent.settings.name} has no guest {server_id}.")
    # By another attachment it is another file: of a volume that is migrated.
    there = next((one for one in guest.disks if one.attachment_id == spec.attachment_id), None)
    if there is not None and there.volume_id == volume_id:
        raise Invalid(f"Volume {volume_id} cannot take its own place. Nothing was changed.")
    if there is not None:
        raise is_switched(server_id, volume_id)
    size = await agent.hypervisor.disk_size(server_id, volume_id)
    plan = await agent.connections.plan(server_id, spec)
    agent.probe.at("agent/mirror_disk/connected")
    await agent.connections.fit(spec.attachment_id, size.guest_bytes, call.operation_key)
    agent.probe.at("agent/mirror_disk/fitted")
    await agent.hypervisor.mirror_disk(server_id, volume_id, plan)
    agent.probe.at("agent/mirror_disk/begun")
    return Answer(status=204)


@handlers.of(verbs.STOP_MIRROR)
async def stop_mirror(call: Call[Agent]) -> Answer:
    """End the copy, and disconnect the new volume unless the guest has it by now."""
    agent, attachment_id = call.agent, call.query.get("attachment_id", "")
    await agent.hypervisor.stop_mirror(*_disk(call), attachment_id)
    agent.probe.at("agent/stop_mirror/stopped")
    if attachment_id:
        await agent.connections.disconnect(attachment_id)
    return Answer(status=204)


@handlers.of(verbs.SWITCH_DISK)
async def switch_disk(call: Call[Agent]) -> Answer:
    """Let the guest write to the new volume alone."""
    agent, wanted = call.agent, call.body
    known = agent.connections.find(wanted.attachment_id)
    if known is None or known.connected.volume_id != wanted.volume_id:
        raise NotFound(
            f"Host {agent.settings.name} has not connected volume {wanted.volume_id}. The guest "
            "keeps the volume that it has."
        )
    plan = DiskPlan(
        volume_id=wanted.volume_id, attachment_id=wanted.attachment_id, source=known.origin
    )
    disk = await agent.hypervisor.switch_disk(*_disk(call), plan)
    agent.probe.at("agent/switch_disk/switched")
    return Answer(body=replace(disk, path=""))


def _disk(call: Call[Agent]) -> tuple[str, str]:
    return call.path["server_id"], call.path["volume_id"]
