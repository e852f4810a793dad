"""The place of a new server: a host that has room, and the resources held there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.groups import affinity
from mooring.compute.hosts import hosts
from mooring.compute.scheduling import needs, picking, tried
from mooring.compute.scheduling.picking import Owner
from mooring.compute.scheduling.reach import find_reach
from mooring.compute.servers import states
from mooring.compute.tables import Server
from mooring.compute.volumes import disk_places

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.create.sagas.create_notes import CreateServer
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


async def claim_host(notes: CreateServer, run: Run[Compute]) -> CreateServer:
    """Choose a host with room and hold the resources there. Raises NoCapacity."""
    server = await run.service.store.read(lambda tx: tx.get_one(Server, notes.server_id))
    near = [disk.volume_id or disk.beside for disk in notes.disks]
    volumes = sorted({volume_id for volume_id in near if volume_id})
    free_to_lie = [disk for disk in notes.disks if disk.source != "volume" and not disk.beside]
    reach = await find_reach(run.service.volumes, volumes, makes_some=bool(free_to_lie))
    wanted = needs.of_server(
        server,
        root_is_volume=not notes.image_id,
        besides=notes.traits,
        zone=notes.wished_zone,
        host=notes.wished_host,
        tried=tried.names(notes.tried),
        reach=reach,
        group_id=notes.group_id,
    )
    chosen = await picking.claim(run, wanted, Owner(notes.project_id, notes.user_id))
    return replace(notes, host=chosen.host, zone=chosen.zone)


async def release_claim(notes: CreateServer, run: Run[Compute]) -> None:
    """Hold nothing on any host."""
    await picking.release(run, notes.server_id, notes.group_id)


def place_server(tx: Session, notes: CreateServer, run: Run[Compute]) -> CreateServer:
    """Say where the server will be, and in which zone its host is by now.

    Its row is locked: an aggregate that changes the zone of a host sees the servers there.
    """
    now, host = run.now(), hosts.find(tx, notes.host)
    notes = replace(notes, zone=host.zone if host else notes.zone)
    values = {"host": notes.host, "zone": notes.zone, "task_state": "block_device_mapping"}
    states.change(tx, notes.server_id, now, **values)
    disk_places.choose_host(tx, notes.server_id, notes.host, now)
    if notes.group_id:
        affinity.leave_place(tx, notes.server_id)
    return replace(notes, placed=True)


def leave_place(tx: Session, notes: CreateServer, run: Run[Compute]) -> None:
    """Say that the server is at no host; whoever deletes it says what is done to it."""
    now, task_state = run.now(), tx.get_one(Server, notes.server_id).task_state
    states.change(tx, notes.server_id, now, host=None, zone=None)
    if task_state in {"block_device_mapping", "spawning"}:
        states.move(tx, notes.server_id, "scheduling", now)
