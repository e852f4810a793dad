"""The guests of this host. Every verb may be repeated."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import structlog
from msgspec.structs import replace

from mooring.agent import config_drives
from mooring.agent.host import Agent
from mooring.agent.hypervisor import DiskPlan, GuestPlan, RootPlan
from mooring.agent.page_sizes import read_page_size
from mooring.agent.qemu_img import GIB
from mooring.agent.rescues import RescuePlan
from mooring.agent.serving import Call, Handlers
from mooring.agent.swap_disks import SwapPlan
from mooring.agent_api import verbs
from mooring.agent_api.config_drives import ConfigDrive
from mooring.agent_api.disks import DiskBus, DiskSpec
from mooring.agent_api.guest_shares import GuestShare
from mooring.agent_api.images import CachedImage
from mooring.agent_api.servers import Console, Guest, RescueDisk, RootDisk, ServerSpec
from mooring.errors import Invalid, MooringError, NotFound
from mooring.fence.journal import Answer
from mooring.limits import AGENT_DISKS

handlers = Handlers[Agent]()
log = structlog.get_logger()

_STANDING = frozenset({"pause", "unpause", "suspend", "resume"})
"""What is asked of a guest's power without its losing its memory."""


@handlers.of(verbs.LIST_SERVERS)
async def list_servers(call: Call[Agent]) -> Answer:
    """Answer all guests."""
    return Answer(body=await call.agent.hypervisor.guests())


@handlers.of(verbs.SHOW_SERVER)
async def show_server(call: Call[Agent]) -> Answer:
    """Answer one guest."""
    return Answer(body=await _get(call))


@handlers.of(verbs.PUT_SERVER)
async def put_server(call: Call[Agent]) -> Answer:
    """Make its disks on this host, connect the volumes, define the guest, start it."""
    server_id, spec = call.path["server_id"], call.body
    _check(spec)
    await _check_shares(call, spec.shares, starts=spec.power == "on")
    drive = _build_drive(spec.drive)
    plan = GuestPlan(
        server_id=server_id,
        name=spec.name,
        vcpus=spec.vcpus,
        memory_mib=spec.memory_mib,
        root=await _make_root(call, spec.root, spec.root_bus) if spec.root else None,
        disks=await _plans(call, spec.disks),
        network=spec.network,
        metadata=spec.metadata,
        shares=tuple(spec.shares),
        mem_page_size=spec.mem_page_size,
        has_drive=drive is not None,
        drive_bus=spec.drive.bus if spec.drive else "scsi",
        bus=spec.bus,
        swap=await _make_swap(call, spec.swap_mib),
    )
    call.agent.probe.at("agent/put_server/rooted")
    await _define(call.agent, plan)
    call.agent.probe.at("agent/put_server/defined")
    await _give_drive(call, drive)
    call.agent.probe.at("agent/put_server/told")
    if spec.power == "on":
        await _start(call)
    alone = spec.root is not None and spec.root.stands_alone
    return Answer(body=replace(await _get(call), root_stands_alone=alone))


@handlers.of(verbs.DELETE_SERVER)
async def delete_server(call: Call[Agent]) -> Answer:
    """End the guest and remove its files, or leave the disks to one that comes back."""
    server_id = call.path["server_id"]
    await call.agent.copying.withdraw(server_id)
    keeps_disks = bool(call.number("keeps_disks", 0))
    await call.agent.hypervisor.remove(server_id, keeps_disks=keeps_disks)
    call.agent.connections.release(server_id)
    return Answer(status=204)


@handlers.of(verbs.CLAIM_SERVER)
async def claim_server(call: Call[Agent]) -> Answer:
    """Change nothing: the fence has the newer lock's mark, and what ran before has ended."""
    del call
    return Answer(status=204)


@handlers.of(verbs.SET_POWER)
async def set_power(call: Call[Agent]) -> Answer:
    """Start, stop or reboot, with fresh connections when they were sent."""
    if call.body.state in _STANDING:
        return await _stand(call)
    server_id, request = call.path["server_id"], call.body
    hypervisor = call.agent.hypervisor
    known = await _get(call)
    # Before a guest that runs is ended.
    wanted = known.shares if request.shares is None else request.shares
    await _check_shares(call, wanted, starts=request.state != "off")
    drive = _build_drive(request.drive)
    rescue = None if request.rescue is None else await _make_rescue(call, request.rescue)
    call.agent.probe.at("agent/set_power/rescued")
    if request.state != "on":
        graceful_s = request.timeout_s if request.mode == "soft" else 0.0
        await hypervisor.power_off(server_id, graceful_s)
        call.agent.probe.at("agent/set_power/off")
    if request.disks is not None:
        await hypervisor.redefine_start(server_id, await _plans(call, request.disks), rescue)
        await _leave_lost(call, {disk.attachment_id for disk in request.disks})
    if request.shares is not None:
        await hypervisor.redefine_shares(server_id, tuple(request.shares))
    await _give_drive(call, drive)
    call.agent.probe.at("agent/set_power/told")
    if request.state != "off":
        # What is written to from now on is given to nobody.
        await call.agent.copying.withdraw(server_id)
        await _start(call)
    return Answer(body=await _get(call))


async def _leave_lost(call: Call[Agent], given: Collection[str]) -> None:
    """Disconnect what a guest had and is not given again, which nobody else may ask for.

    Its attachment is gone, by an administrator's word: no row names it any more. By what is
    connected, as an agent that died in between has told the guest already. What does not let go
    keeps no guest from starting: the next start tries again.
    """
    connections, server_id = call.agent.connections, call.path["server_id"]
    for one in connections.of_server(server_id):
        others = connections.servers(one.attachment_id) != (server_id,)
        if others or one.attachment_id in given:
            continue
        try:
            await connections.disconnect(one.attachment_id)
        except MooringError as error:
            named = {"server_id": server_id, "volume_id": one.volume_id}
            log.warning("a volume stays connected", **named, reason=str(error))


@handlers.of(verbs.READ_CONSOLE)
async def read_console(call: Call[Agent]) -> Answer:
    """Answer the end of the serial console."""
    length = call.number("length", -1)
    lines = None if length < 0 else int(length)
    return Answer(body=Console(await call.agent.hypervisor.console(call.path["server_id"], lines)))


async def _stand(call: Call[Agent]) -> Answer:
    """Let a guest stand still, or go on where it was."""
    server_id, request = call.path["server_id"], call.body
    hypervisor = call.agent.hypervisor
    await _get(call)
    if request.state == "pause":
        await hypervisor.pause(server_id)
    elif request.state == "unpause":
        await hypervisor.unpause(server_id)
    elif request.state == "suspend":
        await hypervisor.suspend(server_id)
    else:
        if request.disks is not None:
            await hypervisor.redefine_disks(server_id, await _plans(call, request.disks))
        call.agent.probe.at("agent/set_power/connected")
        await hypervisor.resume(server_id)
    return Answer(body=await _get(call))


def find_image(agent: Agent, image_id: str) -> CachedImage:
    """Return an image that a root disk is to lie over. Raises NotFound."""
    if (image := agent.images.use(image_id)) is None:
        raise NotFound(
            f"Image {image_id} is not in the cache of host {agent.settings.name}; push it first."
        )
    return image


async def _get(call: Call[Agent]) -> Guest:
    server_id = call.path["server_id"]
    if (guest := await call.agent.hypervisor.guest(server_id)) is None:
        raise NotFound(f"Host {call.agent.settings.name} has no guest {server_id}.")
    return guest


async def _define(agent: Agent, plan: GuestPlan) -> None:
    """Define a guest, and remove the swap disk that it is not to have any more."""
    await agent.copying.withdraw(plan.server_id)
    await agent.hypervisor.define(plan)
    if plan.swap is None:
        await agent.hypervisor.drop_swap(plan.server_id)


async def _make_root(call: Call[Agent], root: RootDisk, bus: DiskBus) -> RootPlan:
    """Make the root disk from the cache, or take the one that was copied here.

    Raises NotFound without the image, or the copy; Invalid: too small.
    """
    server_id, hypervisor = call.path["server_id"], call.agent.hypervisor
    if root.copied:
        wanted_bytes = root.size_gib * GIB
        found = await hypervisor.find_root(
            server_id, root.image_id, wanted_bytes, call.operation_key
        )
        return replace(found, bus=bus)
    image = find_image(call.agent, root.image_id)
    size_bytes = root.size_gib * GIB or image.virtual_bytes
    if size_bytes < image.virtual_bytes:
        raise Invalid(
            f"Image {root.image_id} needs a root disk of {image.virtual_bytes} bytes; "
            f"{root.size_gib} GiB is too small. Use a larger flavor."
        )
    path = call.agent.images.path(root.image_id)
    make = hypervisor.fill_root if root.stands_alone else hypervisor.make_root
    made = await make(server_id, image, path, size_bytes, call.operation_key)
    return replace(made, bus=bus)


async def _make_swap(call: Call[Agent], size_mib: int) -> SwapPlan | None:
    """Make the swap disk, or find it; the one of a definition that is to have none stays."""
    if not size_mib:
        return None
    size_bytes = size_mib << 20
    return await call.agent.hypervisor.make_swap(
        call.path["server_id"], size_bytes, call.operation_key
    )


async def _make_rescue(call: Call[Agent], wanted: RescueDisk) -> RescuePlan:
    """Make the disk of a rescue from the cache. Raises NotFound without the image; Invalid."""
    server_id, agent = call.path["server_id"], call.agent
    image, path = find_image(agent, wanted.image_id), agent.images.path(wanted.image_id)
    return await agent.hypervisor.make_rescue(server_id, wanted, image, path, call.operation_key)


async def _plans(call: Call[Agent], disks: list[DiskSpec]) -> tuple[DiskPlan, ...]:
    connections, server_id = call.agent.connections, call.path["server_id"]
    return tuple([await connections.plan(server_id, disk) for disk in disks])


def _build_drive(drive: ConfigDrive | None) -> bytes | None:
    return None if drive is None else config_drives.build(drive)


async def _give_drive(call: Call[Agent], image: bytes | None) -> None:
    if image is not None:
        server_id = call.path["server_id"]
        await call.agent.hypervisor.give_drive(server_id, image, call.operation_key)


async def _start(call: Call[Agent]) -> None:
    server_id = call.path["server_id"]
    async with call.agent.guest_shares.starting(server_id):
        await call.agent.hypervisor.power_on(server_id)


async def _check_shares(call: Call[Agent], shares: Sequence[GuestShare], *, starts: bool) -> None:
    """Raise Invalid for shares that no guest can have, Conflict when one it needs is missing."""
    kept = call.agent.guest_shares
    kept.check_shares(shares)
    if starts:
        await kept.check_mounted(call.path["server_id"], shares)


def _check(spec: ServerSpec) -> None:
    if spec.vcpus < 1 or spec.memory_mib < 1:
        raise Invalid("A server needs at least one vCPU and 1 MiB of memory.")
    if spec.swap_mib < 0:
        raise Invalid("The size of a swap disk is a number of MiB, or 0 for a server without one.")
    if len(spec.disks) + bool(spec.root) + bool(spec.swap_mib) > AGENT_DISKS:
        raise Invalid(f"A server can have {AGENT_DISKS} disks at most.")
    if spec.shares:
        read_page_size(spec.mem_page_size)
    if spec.root is None and all(disk.boot_index != 0 for disk in spec.disks):
        raise Invalid("The server has nothing to boot from: no root disk and no boot index 0.")
