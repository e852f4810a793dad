"""Servers that are put away and brought back: who may, and when (facts/compute.md 1.4, 4.11).

Only servers that boot from a volume: the root disk of another one would have to become an image.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from mooring.compute.actions import actions
from mooring.compute.create import block_devices
from mooring.compute.groups import affinity
from mooring.compute.hosts import hosts
from mooring.compute.moves import checks
from mooring.compute.servers import servers, states
from mooring.compute.shares import blocked
from mooring.compute.shelve.sagas.offload_server import OFFLOAD_SERVER
from mooring.compute.shelve.sagas.shelve_notes import (
    OffloadServer,
    UnshelveServer,
)
from mooring.compute.shelve.sagas.unshelve_server import UNSHELVE_SERVER
from mooring.compute.volumes import devices, disk_places
from mooring.compute.volumes.disk_places import NOWHERE
from mooring.compute.volumes.moving_disks import MovingDisk, moving
from mooring.errors import Conflict, Invalid

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.compute.tables import Server
    from mooring.who import Who

_FROM = frozenset({"active", "stopped", "paused", "suspended"})
_STANDS_STILL = frozenset({"paused", "suspended"})


async def shelve(compute: Compute, who: Who, server_id: str) -> None:
    """Switch a server off and put it away; what memory it has is lost.

    Raises NotFound; Conflict: wrong state, locked, or shares; Invalid (501) for a root disk on the
    host.
    """
    await _offload(compute, who, server_id, "shelve", _FROM)


async def offload(compute: Compute, who: Who, server_id: str) -> None:
    """Take a server that was switched off to be put away from its host. Raises as above."""
    await _offload(compute, who, server_id, "shelveOffload", frozenset({"shelved"}))


async def _offload(
    compute: Compute, who: Who, server_id: str, action: str, vm_states: Collection[str]
) -> None:
    attached, _ = await checks.look_at_volumes(compute, who, server_id)

    def begin(tx: Session) -> None:
        server = servers.visible(tx, who, server_id)
        blocked.refuse_shelving(tx, server_id)
        states.require(server, who, action, vm_states)
        _require_volume_root(server)
        now, saga_id = compute.clock.now(), str(uuid.uuid4())
        host = hosts.require_up(tx, server.host, now, compute.settings.host_down_s)
        disks = _at_host(tx, server, host.name)
        # One that stands still answers no request to shut down.
        mode = "hard" if server.vm_state in _STANDS_STILL else "soft"
        states.begin(tx, server, action, "shelving", now)
        notes = OffloadServer(
            server_id=server_id,
            host=host.name,
            action_id=actions.begin(tx, server_id, action, who, now, saga_id=saga_id),
            state="off",
            mode=mode,
            task_state="shelving",
            disks=disks,
            known=attached,
        )
        compute.sagas.start(tx, OFFLOAD_SERVER, notes, who=who, saga_id=saga_id)

    await servers.submit(compute, action, server_id, begin)


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
    only. Raises NotFound; Conflict: wrong state or locked; Invalid: no such zone or host, or the
    host is not in the zone.
    """
    attached, _ = await checks.look_at_volumes(compute, who, server_id)

    def begin(tx: Session) -> None:
        server = servers.visible(tx, who, server_id)
        states.require(server, who, "unshelve", {states.OFFLOADED})
        wished = server.pinned_zone if zone is UNSET else zone
        _check_wish(tx, compute, wished, host)
        disks = _waiting(tx, server)
        now, saga_id = compute.clock.now(), str(uuid.uuid4())
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
            group_id=affinity.group_of(tx, server_id),
        )
        compute.sagas.start(tx, UNSHELVE_SERVER, notes, who=who, saga_id=saga_id)

    await servers.submit(compute, "unshelve", server_id, begin)


def _require_volume_root(server: Server) -> None:
    if server.image_id:
        raise Invalid(
            f"Instance {server.id} has its root disk on its host. In this cloud only servers that "
            "boot from a volume are shelved. Nothing was changed; stop it instead.",
            status=501,
        )


def _at_host(tx: Session, server: Server, host: str) -> list[MovingDisk]:
    """Return the volumes that a host is to let go; not those that wait already.

    Raises Conflict while one of them is on its way, or at another host, too; Invalid for one that
    came by the old calls.
    """
    rows = [row for row in devices.of_server(tx, server.id) if row.volume_id]
    checks.check_volumes(server, rows)
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
    rows = [row for row in devices.of_server(tx, server.id) if row.volume_id]
    checks.check_volumes(server, rows)
    if not any(row.boot_index == 0 for row in rows):
        raise Conflict(
            f"The root volume of instance {server.id} was deleted. Nothing was changed; delete the "
            "instance, too.",
            lasts=True,
        )
    used, disks = [row.device_name for row in rows if row.device_name], list[MovingDisk]()
    for row in rows:
        disk = moving(row)
        if disk.device_name is None:
            name = block_devices.choose_device_name(
                used, requested=None, root=server.root_device_name
            )
            used.append(name)
            disk = disk.named(name)
        disks.append(disk)
    return disks
