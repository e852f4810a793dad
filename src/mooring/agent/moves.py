"""Guests that go from one host to another. Every verb may be repeated.

Neither host calls the other one: the control plane asks the one where a guest is taken in, and
tells that to the one that sends.
"""

from __future__ import annotations

from mooring.agent.config_drives import unpack
from mooring.agent.copies import check_room
from mooring.agent.host import Agent
from mooring.agent.move_checks import check_disks, check_encryption
from mooring.agent.move_daemon import check_daemon
from mooring.agent.move_identity import MoveIdentity
from mooring.agent.servers import find_image
from mooring.agent.serving import Call, Handlers
from mooring.agent_api import verbs
from mooring.agent_api.moves import Arrival
from mooring.errors import NotFound
from mooring.fence.journal import Answer
from mooring.fence.threads import run_to_end

handlers = Handlers[Agent]()


@handlers.of(verbs.SHOW_PORTRAIT)
async def show_portrait(call: Call[Agent]) -> Answer:
    """Answer what a guest needs of the host that is to take it."""
    portrait = await call.agent.hypervisor.portrait(call.path["server_id"])
    await _name(call.agent)
    return Answer(body=portrait)


@handlers.of(verbs.PUT_ARRIVAL)
async def put_arrival(call: Call[Agent]) -> Answer:
    """Expect a guest, if it can run here, and its disks that lie on its host."""
    agent, server_id, root = call.agent, call.path["server_id"], call.body.root
    await _check_entrance(agent, server_id)
    await agent.hypervisor.expect(server_id, call.body)
    if call.body.drive:
        drive = unpack(call.body.drive)
        await agent.hypervisor.expect_drive(server_id, drive, call.operation_key)
    swap = call.body.swap
    if (wanted := sum(disk.data_bytes for disk in (root, swap) if disk is not None)) > 0:
        check_room(agent.hypervisor.guest_directory, server_id, wanted)
    if root is not None:
        image = find_image(agent, root.image_id) if root.image_id else None
        source = agent.images.path(root.image_id) if image else None
        await agent.hypervisor.expect_root(server_id, image, source, root, call.operation_key)
    if swap is not None:
        await agent.hypervisor.expect_swap(server_id, swap.size_bytes, call.operation_key)
    return Answer(status=204)


@handlers.of(verbs.SHOW_ARRIVAL)
async def show_arrival(call: Call[Agent]) -> Answer:
    """Answer where a guest is to be sent, and which volumes it finds connected."""
    server_id = call.path["server_id"]
    landing = await call.agent.hypervisor.find_landing(server_id)
    arrival = Arrival(
        address=landing.address,
        console=landing.console,
        disks=call.agent.connections.of_server(server_id),
        root=landing.root,
        drive=landing.drive,
        swap=landing.swap,
        tls=await _name(call.agent),
        opens_serial=True,
    )
    return Answer(body=arrival)


@handlers.of(verbs.DELETE_ARRIVAL)
async def delete_arrival(call: Call[Agent]) -> Answer:
    """Expect a guest no more, and forget what came of it. Its volumes stay connected."""
    server_id = call.path["server_id"]
    await call.agent.hypervisor.turn_away(server_id)
    call.agent.connections.release(server_id)
    return Answer(status=204)


@handlers.of(verbs.PUT_DEPARTURE)
async def put_departure(call: Call[Agent]) -> Answer:
    """Send a guest to where it is expected."""
    agent, server_id = call.agent, call.path["server_id"]
    guest = await agent.hypervisor.guest(server_id)
    if guest is None:
        raise NotFound(f"Host {agent.settings.name} has no guest {server_id}.")
    check_disks(guest, call.body)
    check_encryption(server_id, call.body, is_wanted=agent.encrypts_moves)
    await agent.hypervisor.send(server_id, call.body)
    return Answer(status=204)


@handlers.of(verbs.SHOW_DEPARTURE)
async def show_departure(call: Call[Agent]) -> Answer:
    """Answer how far a guest is on its way."""
    return Answer(body=await call.agent.hypervisor.progress(call.path["server_id"]))


@handlers.of(verbs.CANCEL_DEPARTURE)
async def cancel_departure(call: Call[Agent]) -> Answer:
    """See that a guest goes nowhere any more. What was sent by this agent has ended before."""
    await call.agent.hypervisor.stop_sending(call.path["server_id"])
    return Answer(status=204)


@handlers.of(verbs.HASTEN_DEPARTURE)
async def hasten_departure(call: Call[Agent]) -> Answer:
    """Hold a guest still until it has arrived."""
    await call.agent.hypervisor.hasten(call.path["server_id"])
    return Answer(status=204)


async def _name(agent: Agent) -> str:
    """Return the name in what this host shows to those who send; "" where nothing is encrypted.

    Raises Conflict where it has nothing to show.
    """
    return await run_to_end(MoveIdentity(agent.settings).name) if agent.encrypts_moves else ""


async def _check_entrance(agent: Agent, server_id: str) -> None:
    """Raise Conflict unless guests can come here as they are to; nothing is begun by then."""
    landing = await agent.hypervisor.find_landing(server_id)
    await _name(agent)
    if agent.encrypts_moves and not agent.connections.is_simulated:
        settings = agent.settings
        directory = MoveIdentity(settings).directory
        await run_to_end(lambda: check_daemon(settings.name, landing.address, directory))
