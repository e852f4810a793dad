"""What a host is asked when a server's power changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.agent_api.servers import PowerRequest, RootDisk
from mooring.compute.create import spawning
from mooring.compute.drives import config_drives
from mooring.compute.hosts import guests
from mooring.compute.power.sagas.power_notes import ChangePower, starts_anew, takes_disks
from mooring.compute.shares import folders
from mooring.compute.tables import Server
from mooring.compute.volumes import disks
from mooring.errors import Conflict, NotFound

if TYPE_CHECKING:
    from mooring.agent_api.client import AgentClient
    from mooring.agent_api.servers import ServerSpec
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


async def ask(notes: ChangePower, run: Run[Compute]) -> None:
    """Have the host do it. A hard reboot brings up a guest that the host has not any more.

    Raises NotFound for any other change of such a one, and Conflict where its root disk is gone.
    """
    request = await build(notes, run)

    async def set_power(agent: AgentClient) -> None:
        await agent.set_power(notes.server_id, request, operation=run.operation)

    try:
        await guests.ask(run, notes.host, set_power)
    except NotFound:
        if (notes.state, notes.mode) != ("reboot", "hard"):
            raise
        await _define_anew(notes, run, request)


async def _define_anew(notes: ChangePower, run: Run[Compute], request: PowerRequest) -> None:
    """Define and start a guest with the disks that its server has on the host.

    A root disk that is not there is made of the image that has it, if the server was put away.
    """
    server = await run.service.store.read(lambda tx: tx.get_one(Server, notes.server_id))
    given = request.disks or []
    spec = spawning.specify_guest(server, "", given, drive=request.drive)
    root = RootDisk(image_id=server.image_id, copied=True) if server.image_id else None
    spec = replace(spec, root=root, shares=request.shares or [])

    try:
        await guests.put(run, notes.host, notes.server_id, spec)
    except NotFound as error:
        if server.shelved_image_id:
            await _define_of_image(run, server, spec)
            return
        raise Conflict(
            f"Host {notes.host} has neither the guest of server {server.id} nor its root disk, and "
            "nothing was made in their place. Rebuild the server, with a new disk of its image, or "
            "delete it.",
            private=error.public,
        ) from error


async def _define_of_image(run: Run[Compute], server: Server, spec: ServerSpec) -> None:
    """Define and start a guest whose root disk was lost with it, and is in an image."""
    host, image_id = server.host or "", server.shelved_image_id
    await spawning.bring_image(run, host, image_id)
    root = RootDisk(image_id=image_id, size_gib=server.disk_gib, stands_alone=True)
    operation = guests.other(run.operation, "image")

    async def verb(agent: AgentClient) -> None:
        await agent.put_server(server.id, replace(spec, root=root), operation=operation)

    await guests.ask(run, host, verb)


async def build(notes: ChangePower, run: Run[Compute]) -> PowerRequest:
    """Return the request, with what a guest that starts has and is told now."""
    volumes, shares, drive = None, None, None
    if takes_disks(notes):
        volumes = await disks.specify_all(run, notes.host, notes.server_id, completes=True)
    if starts_anew(notes):
        drive = await config_drives.read(run, notes.server_id, notes.host)
        shares = await folders.specify_all(run, notes.host, notes.server_id)
    return PowerRequest(
        state=notes.state,
        mode=notes.mode,
        timeout_s=run.service.settings.shutdown_timeout_s,
        disks=volumes,
        shares=shares,
        drive=drive,
    )
