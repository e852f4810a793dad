"""Connected volumes, and the disks of the guests on this host. Every verb may be repeated."""

from __future__ import annotations

from msgspec.structs import replace

from mooring.agent.disk_checks import check_attachment
from mooring.agent.host import Agent
from mooring.agent.serving import Call, Handlers
from mooring.agent.sources import shown
from mooring.agent_api import verbs
from mooring.agent_api.disks import RELEASED, Connected, Unplugged
from mooring.errors import Conflict, Invalid, MooringError, NotFound, told_also
from mooring.fence.journal import Answer

handlers = Handlers[Agent]()


@handlers.of(verbs.CONNECT)
async def connect(call: Call[Agent]) -> Answer:
    """Connect a volume's backend to the host."""
    attachment_id, volume_id = call.path["attachment_id"], call.body.volume_id
    source = await call.agent.connections.connect(
        attachment_id, volume_id, call.body.connection, server_id=call.body.server_id
    )
    path, disk_format = shown(source)
    connected = Connected(
        attachment_id=attachment_id, volume_id=volume_id, path=path, format=disk_format
    )
    # A path may tell how storage is reached: the journal keeps its digest and asks again.
    return Answer(body=connected, secret=True)


@handlers.of(verbs.DISCONNECT)
async def disconnect(call: Call[Agent]) -> Answer:
    """Let go of a volume's backend, unless a guest still has it."""
    attachment_id = call.path["attachment_id"]
    if user := await _find_user(call.agent, attachment_id):
        raise Conflict(f"Server {user} still has attachment {attachment_id}; unplug it first.")
    await call.agent.connections.disconnect(attachment_id)
    return Answer(status=204)


@handlers.of(verbs.PLUG_DISK)
async def plug_disk(call: Call[Agent]) -> Answer:
    """Connect a volume and give it to the guest."""
    agent, server_id, spec = call.agent, call.path["server_id"], call.body
    if spec.volume_id != call.path["volume_id"]:
        raise Invalid("The path and the body name different volumes.")
    if (guest := await agent.hypervisor.guest(server_id)) is None:
        raise NotFound(f"Host {agent.settings.name} has no guest {server_id}.")
    known = next((disk for disk in guest.disks if disk.volume_id == spec.volume_id), None)
    if known is not None:
        check_attachment(server_id, spec.volume_id, known.attachment_id, spec.attachment_id)
    plan = await agent.connections.plan(server_id, spec)
    agent.probe.at("agent/plug_disk/connected")
    disk = await agent.hypervisor.plug(server_id, plan)
    return Answer(body=replace(disk, path=""))


@handlers.of(verbs.UNPLUG_DISK)
async def unplug_disk(call: Call[Agent]) -> Answer:
    """Take a disk from the guest, see that it let go, and disconnect what it was attached by."""
    agent, attachment_id = call.agent, call.query.get("attachment_id", "")
    await agent.hypervisor.unplug(call.path["server_id"], call.path["volume_id"], attachment_id)
    if not attachment_id:
        return Answer(status=204)
    agent.probe.at("agent/unplug_disk/unplugged")
    try:
        # A volume of the old calls is connected once for all guests of the host that have it.
        if not await _find_user(agent, attachment_id):
            await agent.connections.disconnect(attachment_id)
    except MooringError as error:
        raise told_also(error, **{RELEASED: True}) from error
    return Answer(body=Unplugged(attachment_id))


@handlers.of(verbs.RESIZE_DISK)
async def resize_disk(call: Call[Agent]) -> Answer:
    """Grow a volume's file, and tell the guest that has it."""
    size_bytes = call.body.size_bytes
    if size_bytes < 1:
        raise Invalid("A disk has at least one byte.")
    names = call.path["server_id"], call.path["volume_id"]
    await call.agent.connections.reach_of(*names)
    return Answer(body=await call.agent.hypervisor.resize_disk(*names, size_bytes))


@handlers.of(verbs.FORGET_RESIZE)
async def forget_resize(call: Call[Agent]) -> Answer:
    """Leave a tombstone, once nothing is at work any more. What has grown stays so.

    A volume that was made smaller to be copied to has its own size again.
    """
    agent, server_id, volume_id = call.agent, call.path["server_id"], call.path["volume_id"]
    await agent.hypervisor.until_quiet(server_id)
    known = agent.connections.find_shrunk(server_id, volume_id)
    if known is None:
        return Answer(status=204)
    guest = await agent.hypervisor.guest(server_id)
    if guest and any(disk.volume_id == volume_id for disk in guest.disks):
        await agent.connections.reach(known)
        await agent.hypervisor.resize_disk(server_id, volume_id, known.full_bytes)
    else:
        # What is still copied to it ends first.
        await agent.hypervisor.unplug(server_id, volume_id)
        await agent.connections.restore(known)
    return Answer(status=204)


@handlers.of(verbs.SHOW_DISK_SIZE)
async def show_disk_size(call: Call[Agent]) -> Answer:
    """Answer how big a disk is for its guest, and its image."""
    names = call.path["server_id"], call.path["volume_id"]
    await call.agent.connections.reach_of(*names)
    return Answer(body=await call.agent.hypervisor.disk_size(*names))


async def _find_user(agent: Agent, attachment_id: str) -> str:
    """Return a guest of this host that still has a connected volume; "" for none."""
    for server_id in agent.connections.servers(attachment_id):
        guest = await agent.hypervisor.guest(server_id)
        if guest and any(disk.attachment_id == attachment_id for disk in guest.disks):
            return server_id
    return ""
