"""Servers that are put away and brought back: who may, and when (facts/compute.md 1.4, 4.11).

One that boots from a volume leaves its host at once. The root disk of another one becomes an image
first; then it is SHELVED at its host for as long as `shelved_offload_time` says.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType, structs

from mooring.compute.actions import actions
from mooring.compute.create import block_devices
from mooring.compute.groups import affinity
from mooring.compute.hosts import hosts
from mooring.compute.images import imaging
from mooring.compute.moves import checks
from mooring.compute.servers import servers, states
from mooring.compute.shares import blocked
from mooring.compute.shelve.sagas.offload_server import OFFLOAD_SERVER
from mooring.compute.shelve.sagas.shelve_notes import (
    OffloadServer,
    ShelveServer,
    UnshelveHere,
    UnshelveServer,
)
from mooring.compute.shelve.sagas.shelve_server import SHELVE_SERVER
from mooring.compute.shelve.sagas.unshelve_here import UNSHELVE_HERE
from mooring.compute.shelve.sagas.unshelve_server import UNSHELVE_SERVER
from mooring.compute.volumes import devices, disk_places
from mooring.compute.volumes.disk_places import NOWHERE
from mooring.compute.volumes.moving_disks import MovingDisk, moving
from mooring.errors import Conflict, Invalid

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.compute.tables import Host, Server
    from mooring.who import Who

_OFFLOAD = "shelveOffload"
_FROM = frozenset({"active", "stopped", "paused", "suspended"})
_STANDS_STILL = frozenset({"paused", "suspended"})
_LONGEST_NAME = 255 - len("-shelved")
"""Of a server, so that the name of its image is none too long."""


async def shelve(compute: Compute, who: Who, server_id: str) -> None:
    """Switch a server off and put it away; what memory it has is lost.

    One with its root disk on its host has that made an image first: the record is there, or what
    the image service refused is raised, when this returns. Raises NotFound; Conflict: wrong state,
    locked, or shares.
    """
    attached, _ = await checks.look_at_volumes(compute, who, server_id)

    def begin(tx: Session) -> str:
        server, saga_id = servers.visible(tx, who, server_id), str(uuid.uuid4())
        blocked.refuse_shelving(tx, server_id)
        states.require(server, who, "shelve", _FROM)
        now, down_after_s = compute.clock.now(), compute.settings.host_down_s
        host = hosts.require_up(tx, server.host, now, down_after_s)
        leaving = OffloadServer(
            server_id=server_id,
            host=host.name,
            action_id=actions.begin(tx, server_id, "shelve", who, now, saga_id=saga_id),
            state="off",
            # One that stands still answers no request to shut down.
            mode="hard" if server.vm_state in _STANDS_STILL else "soft",
            task_state="shelving",
            disks=_at_host(tx, server, host.name),
            known=attached,
        )
        states.begin(tx, server, "shelve", leaving.task_state, now)
        if not server.image_id:
            compute.sagas.start(tx, OFFLOAD_SERVER, leaving, who=who, saga_id=saga_id)
            return ""
        notes = _picture(compute, who, server, leaving)
        return compute.sagas.start(tx, SHELVE_SERVER, notes, who=who, saga_id=saga_id)

    pictured = await servers.submit(compute, "shelve", server_id, begin)
    if pictured:
        await servers.until_answered(compute, pictured)


async def offload(compute: Compute, who: Who, server_id: str) -> None:
    """Take a server that is SHELVED from its host; one that was forced down pays when it is back.

    Raises NotFound; Conflict: wrong state, locked, or its host is down.
    """
    attached, _ = await checks.look_at_volumes(compute, who, server_id)

    def begin(tx: Session) -> None:
        server, saga_id = servers.visible(tx, who, server_id), str(uuid.uuid4())
        states.require(server, who, _OFFLOAD, {states.SHELVED})
        now, host = compute.clock.now(), _find_host(tx, compute, server)
        notes = OffloadServer(
            server_id=server_id,
            host=host.name,
            action_id=actions.begin(tx, server_id, _OFFLOAD, who, now, saga_id=saga_id),
            state="off",
            mode="hard",
            task_state="shelving_offloading",
            disks=_at_host(tx, server, host.name),
            known=attached,
            was_off=True,
        )
        states.begin(tx, server, _OFFLOAD, notes.task_state, now)
        compute.sagas.start(tx, OFFLOAD_SERVER, notes, who=who, saga_id=saga_id)

    await servers.submit(compute, _OFFLOAD, server_id, begin)


async def unshelve(
    compute: Compute,
    who: Who,
    server_id: str,
    *,
    zone: str | UnsetType | None = UNSET,
    host: str | None = None,
) -> None:
    """Give a server that was put away a host again, and start it there.

    A `zone` is where it belongs from now on, None lets it belong to none; a `host` is for this time
    only. One that is SHELVED starts where it is, and for it neither is taken. Raises NotFound;
    Conflict: wrong state or locked; Invalid: no such zone or host, or the host is not in the zone.
    """
    attached, _ = await checks.look_at_volumes(compute, who, server_id)

    def begin(tx: Session) -> None:
        server = servers.visible(tx, who, server_id)
        states.require(server, who, "unshelve", {states.SHELVED, states.OFFLOADED})
        saga_id = str(uuid.uuid4())
        if server.vm_state == states.SHELVED:
            _refuse_place(server, zone, host)
            _start_here(tx, compute, who, server, saga_id)
            return
        wished = server.pinned_zone if zone is UNSET else zone
        _check_wish(tx, compute, wished, host)
        disks, now = _waiting(tx, server), compute.clock.now()
        states.begin(tx, server, "unshelve", "unshelving", now)
        if zone is not UNSET:
            states.change(tx, server_id, now, pinned_zone=zone)
        notes = UnshelveServer(
            server_id=server_id,
            action_id=actions.begin(tx, server_id, "unshelve", who, now, saga_id=saga_id),
            project_id=server.project_id,
            user_id=server.user_id,
            wished_zone=wished,
            wished_host=host,
            disks=disks,
            known=attached,
            image_id=server.shelved_image_id,
            group_id=affinity.group_of(tx, server_id),
        )
        compute.sagas.start(tx, UNSHELVE_SERVER, notes, who=who, saga_id=saga_id)

    await servers.submit(compute, "unshelve", server_id, begin)


def _picture(compute: Compute, who: Who, server: Server, leaving: OffloadServer) -> ShelveServer:
    """Return the notes of a server whose root disk becomes an image before it leaves."""
    return ShelveServer(
        **structs.asdict(leaving),
        image_id=str(uuid.uuid4()),
        name=f"{server.name[:_LONGEST_NAME]}-shelved",
        properties=imaging.properties_of(server, {}),
        min_disk_gib=server.disk_gib,
        former_image=server.shelved_image_id,
        offloads=compute.settings.shelved_offload_time == 0,
        user_id=who.user_id,
    )


def _find_host(tx: Session, compute: Compute, server: Server) -> Host:
    """Return a server's host. Raises Conflict unless it is up, or known to be dead."""
    host = hosts.find(tx, server.host)
    if host is not None and host.forced_down:
        hosts.hold(tx, host)
        if host.forced_down:
            return host
    return hosts.require_up(tx, server.host, compute.clock.now(), compute.settings.host_down_s)


def _start_here(tx: Session, compute: Compute, who: Who, server: Server, saga_id: str) -> None:
    """Begin to start the guest of a server that is at its host still. Raises Conflict."""
    now = compute.clock.now()
    host = hosts.require_up(tx, server.host, now, compute.settings.host_down_s)
    states.begin(tx, server, "unshelve", "unshelving", now)
    notes = UnshelveHere(
        server_id=server.id,
        host=host.name,
        action_id=actions.begin(tx, server.id, "unshelve", who, now, saga_id=saga_id),
        state="on",
        mode="hard",
        task_state="unshelving",
        image_id=server.shelved_image_id,
    )
    compute.sagas.start(tx, UNSHELVE_HERE, notes, who=who, saga_id=saga_id)


def _at_host(tx: Session, server: Server, host: str) -> list[MovingDisk]:
    """Return the volumes that a host is to let go; not those that wait already.

    Raises Conflict while one of them is on its way, or at another host, too, or some host is too
    old for the attachments that keep them.
    """
    rows = [row for row in devices.of_server(tx, server.id) if row.volume_id]
    checks.check_volumes(server, rows)
    checks.check_gate(tx, rows)
    for row in rows:
        for place in disk_places.of_device(tx, row.id):
            if place.host not in {host, NOWHERE}:
                raise Conflict(
                    f"Volume {row.volume_id} of instance {server.id} is still attached at host "
                    f"{place.host}, which did not let it go. Nothing was changed; delete that "
                    "attachment, or reset the server's state, first.",
                    lasts=True,
                )
    return [
        moving(row)
        for row in rows
        if any(place.host == host for place in disk_places.of_device(tx, row.id))
    ]


def _refuse_place(server: Server, zone: str | UnsetType | None, host: str | None) -> None:
    """Raise Conflict where one that is at its host is to be elsewhere (facts/compute.md 1.4)."""
    if zone is not UNSET or host is not None:
        raise Conflict(
            f"Cannot 'unshelve' instance {server.id} in a zone or on a host of choice while it is "
            f"in vm_state {states.SHELVED}: it is at its host. Nothing was changed; unshelve it "
            "without, or have it taken from its host first (openstack server shelve --offload)."
        )


def _check_wish(tx: Session, compute: Compute, zone: str | None, host: str | None) -> None:
    if zone not in {None, compute.settings.default_zone, *hosts.zones(tx)}:
        raise Invalid(
            "The requested availability zone is not available. Nothing was changed; choose one of "
            "`openstack availability zone list`."
        )
    if host is None:
        return
    found = hosts.find(tx, host)
    if found is None:
        raise Invalid(f"Compute host {host} could not be found. Nothing was changed.")
    if zone not in {None, found.zone}:
        raise Invalid(
            f"Compute host {host} is in availability zone {found.zone}, and not in {zone}. Nothing "
            "was changed."
        )


def _waiting(tx: Session, server: Server) -> list[MovingDisk]:
    """Return the volumes that wait for a server, each with the name that it will have."""
    every = devices.of_server(tx, server.id)
    rows = [row for row in every if row.volume_id]
    checks.check_volumes(server, rows)
    if not server.image_id and not any(row.boot_index == 0 for row in rows):
        raise Conflict(
            f"The root volume of instance {server.id} was deleted. Nothing was changed; delete the "
            "instance, too.",
            lasts=True,
        )
    # The root disk that comes back from its image has kept its name, too.
    names, disks = [row.device_name for row in every], list[MovingDisk]()
    used = block_devices.names_in_use(names, server)
    for row in rows:
        disk = moving(row)
        if disk.device_name is None:
            name = block_devices.choose_device_name(used, disk.bus)
            used.append(name)
            disk = disk.named(name)
        disks.append(disk)
    return disks
