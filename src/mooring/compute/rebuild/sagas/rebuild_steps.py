"""The steps that every rebuild of a server has (facts/compute.md 4.13, 5.3).

From the moment the guest is switched off there is only forward: a call that got no answer is asked
again until it has one, so none of them can come late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.agent_api.servers import PowerRequest
from mooring.compute.actions.story import SAYS_ALL, Told, tell
from mooring.compute.create import spawning
from mooring.compute.drives import config_drives
from mooring.compute.hosts import guests
from mooring.compute.rebuild.sagas.rebuild_notes import RebuildServer, say_how, to_connect
from mooring.compute.servers import metadata, states
from mooring.compute.tables import Server
from mooring.compute.volumes import devices, disk_places, disks, reservations
from mooring.errors import Conflict, NotFound
from mooring.saga.define import Each, Lock, Run, Step, exclusive

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.servers import ServerSpec
    from mooring.compute.service import Compute
    from mooring.compute.tables import BlockDevice


def locks_of(notes: RebuildServer) -> list[Lock]:
    """Return what a rebuild holds: the server and each of its volumes, alone."""
    volumes = [exclusive(f"volume:{volume_id}") for volume_id in notes.volumes]
    return [exclusive(f"server:{notes.server_id}"), *volumes]


def begin_rebuild(tx: Session, notes: RebuildServer, run: Run[Compute]) -> None:
    """Show it."""
    states.move(tx, notes.server_id, "rebuilding", run.now())


def give_back(tx: Session, notes: RebuildServer, run: Run[Compute]) -> None:
    """Give the server back what the request changed."""
    states.change(tx, notes.server_id, run.now(), task_state=None, **notes.before)
    devices.name_root(tx, notes.server_id, notes.before.get("root_device_name"), run.now())
    if notes.metadata_before is not None:
        metadata.replace(tx, notes.server_id, notes.metadata_before)


async def look_at_guest(notes: RebuildServer, run: Run[Compute]) -> RebuildServer:
    """See how the guest is; a server in ERROR may have none."""
    await require_host(notes, run)
    guest = await guests.ask(run, notes.host, lambda agent: agent.show_server(notes.server_id))
    return replace(notes, found=guest.state if guest else "")


async def switch_off(notes: RebuildServer, run: Run[Compute]) -> None:
    """Shut the guest down, so that its other volumes are left in order."""
    if not notes.was_running:
        return
    await require_host(notes, run)
    timeout_s = run.service.settings.shutdown_timeout_s
    request = PowerRequest(state="off", mode="soft", timeout_s=timeout_s)
    await switch(notes, run, request)


async def destroy_guest(notes: RebuildServer, run: Run[Compute]) -> RebuildServer:
    """Remove the guest and what is its own on the host; its volumes stay connected."""
    await guests.destroy(run, notes.host, notes.server_id)
    return replace(notes, destroyed=True)


def begin_mapping(tx: Session, notes: RebuildServer, run: Run[Compute]) -> None:
    """Say that the volumes are being connected, also those that wait at no host."""
    states.move(tx, notes.server_id, "rebuild_block_device_mapping", run.now())
    disk_places.choose_host(tx, notes.server_id, notes.host, run.now())


async def connect_volume(notes: RebuildServer, item: str, run: Run[Compute]) -> None:
    """Give a volume's empty attachment the host's connector: it is exported again."""
    row = await run.service.store.read(lambda tx: devices.find(tx, item))
    if row is not None:
        await guests.insist(run, connect_reserved(notes, row, run))


def begin_spawning(tx: Session, notes: RebuildServer, run: Run[Compute]) -> None:
    """Say that the guest is being started."""
    states.move(tx, notes.server_id, "rebuild_spawning", run.now())


async def spawn_guest(notes: RebuildServer, run: Run[Compute]) -> None:
    """Define the guest with all its volumes and start it, unless the server was stopped."""
    await require_host(notes, run)
    power_on = notes.vm_state != "stopped"
    spec = await specify(notes, run, power_on=power_on)
    await guests.insist(run, guests.put(run, notes.host, notes.server_id, spec))


async def complete_volume(notes: RebuildServer, item: str, run: Run[Compute]) -> None:
    """Tell the volume service that the guest has the volume."""
    row = await run.service.store.read(lambda tx: devices.find(tx, item))
    if row is not None and row.attachment_id:
        await guests.insist(run, disks.complete(run, disks.disk_of(row, notes.host)))


def record_rebuilt(tx: Session, notes: RebuildServer, run: Run[Compute]) -> None:
    """Say that the server is rebuilt; one that was stopped is stopped."""
    now = run.now()
    if notes.vm_state == "stopped":
        vm_state, power_state = "stopped", states.SHUTDOWN
    else:
        vm_state, power_state = "active", states.RUNNING
    record_places(tx, notes, run)
    states.settle(tx, notes.server_id, vm_state, power_state, now, launched_at=now)


# -- shared ------------------------------------------------------------------------------------


async def require_host(notes: RebuildServer, run: Run[Compute]) -> None:
    """Raise Conflict when the host was removed or forced down."""
    if await guests.is_lost(run, notes.host):
        raise Conflict(
            f"Host {notes.host} was forced down. Server {notes.server_id} was not rebuilt; "
            "delete it, or rebuild it when its host is back.",
            **SAYS_ALL,
        )


async def connect_reserved(notes: RebuildServer, row: BlockDevice, run: Run[Compute]) -> None:
    """Give an empty attachment the host's connector; one that is connected is left alone."""
    attachment = await reservations.find(run, row.attachment_id)
    if attachment is None or attachment.status not in {"reserved", "attaching"}:
        return
    # Whatever was reimaged was waited for; what merely was kept has its data.
    disk = replace(disks.disk_of(row, notes.host), has_data=True)
    await disks.export(run, disk, guests.other(run.operation, row.id))


def rows_of(tx: Session, notes: RebuildServer) -> list[BlockDevice]:
    """Return the block devices whose volumes have to be connected."""
    found = [devices.find(tx, item) for item in notes.to_connect]
    return [row for row in found if row is not None]


def record_places(tx: Session, notes: RebuildServer, run: Run[Compute]) -> None:
    """Say that the host has those volumes."""
    for item in notes.to_connect:
        disk_places.change(tx, item, notes.host, run.now(), state="attached")


async def switch(notes: RebuildServer, run: Run[Compute], request: PowerRequest) -> None:
    """Switch the guest on or off."""
    try:
        await guests.ask(
            run,
            notes.host,
            lambda agent: agent.set_power(notes.server_id, request, operation=run.operation),
        )
    except NotFound:
        # A guest that is gone is off; one that is to run is missed by whoever compares.
        if request.state == "on":
            raise


async def specify(
    notes: RebuildServer, run: Run[Compute], *, power_on: bool, is_back: bool = False
) -> ServerSpec:
    """Return the guest as its host takes it, with all its volumes; one that `is_back` as it was."""
    given = await disks.specify_all(run, notes.host, notes.server_id)
    server = await run.service.store.read(lambda tx: tx.get_one(Server, notes.server_id))
    image_id = notes.image_id if notes.has_local_root else ""
    drive = await config_drives.read(run, notes.server_id, notes.host)
    name, power = "", "on" if power_on else "off"
    if is_back:
        name = str(notes.before.get("name", ""))
        if drive is not None:
            drive = config_drives.before(drive, notes.before, notes.metadata_before)
    before = notes.before if is_back else {}
    return spawning.specify_guest(
        server, image_id, given, drive=drive, name=name, power=power, before=before
    )


def _describe(notes: RebuildServer) -> Told:
    return Told(event="compute_rebuild_instance", host=notes.host, notice="rebuild")


STORY = tell(_describe, state=say_how)
BEGIN = Step("begin_rebuild", begin_rebuild, undo=give_back)
TAKE_DOWN = (
    Step("look_at_guest", look_at_guest),
    Step("switch_off", switch_off, deadline_s=700.0),
    Step("destroy_guest", destroy_guest),
)
"""The pivot is among them: from `switch_off` on there is only forward."""
BRING_UP = (
    Step("begin_mapping", begin_mapping),
    Each("reserved", to_connect, Step("connect_volume", connect_volume)),
    Step("begin_spawning", begin_spawning),
    Step("spawn_guest", spawn_guest, deadline_s=900.0),
    Each("connected", to_connect, Step("complete_volume", complete_volume)),
    Step("record_rebuilt", record_rebuilt),
)
