"""Servers of hosts that are dead, given to others: who may, when, and on what proof.

A host that is silent may be alive, and its guests with it: two guests would write to one volume.
So an evacuation begins only where an administrator, or a fence that did its work, has said that the
host is dead (specs 001, design section 4; facts/compute.md 1.6, 4.10).
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.actions import actions
from mooring.compute.hosts import hosts
from mooring.compute.moves import checks, migrations
from mooring.compute.moves.describing import describe
from mooring.compute.moves.migrations import New
from mooring.compute.moves.sagas.evacuate import EVACUATE
from mooring.compute.moves.sagas.move_notes import Evacuate
from mooring.compute.servers import servers, states
from mooring.compute.shares import blocked
from mooring.compute.volumes import devices, disk_places
from mooring.compute.volumes.disk_places import NOWHERE
from mooring.compute.volumes.moving_disks import moving
from mooring.errors import Conflict, Invalid, NotFound

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.compute.tables import BlockDevice, Host, Server
    from mooring.who import Who

_ACTION = "evacuate"
_FROM = frozenset({"active", "stopped", "error"})


async def evacuate(
    compute: Compute,
    who: Who,
    server_id: str,
    *,
    host: str | None,
    is_left_off: bool,
    only_from: str | None = None,
) -> None:
    """Begin to give a server of a dead host to another one, a `host` of the caller's choice or any.

    One that is not `is_left_off` runs there, unless it was stopped. Locks of servers are not looked
    at. Raises NotFound, also for the host; Conflict: wrong state, shares, or no more on the host
    that it is to be evacuated from, if that is said (`only_from`); Invalid: its host is not
    known to be dead, or the other one is down or cannot have its volumes.
    """
    attached, reached = await checks.look_at_volumes(compute, who, server_id)

    def begin(tx: Session) -> None:
        server = servers.visible(tx, who, server_id)
        blocked.refuse_evacuation(tx, server_id)
        _require_state(server, only_from)
        source = _require_dead(tx, server)
        if host is not None and hosts.find(tx, host) is None:
            raise NotFound(f"Compute host {host} could not be found.")
        checks.check_wish(tx, compute, source, host)
        checks.check_reach(tx, source.name, host, reached)
        checks.check_copied(tx, server, source, None)
        rows = [row for row in devices.of_server(tx, server_id) if row.volume_id]
        _check_volumes(tx, server, source, rows)
        now, saga_id = compute.clock.now(), str(uuid.uuid4())
        states.begin(tx, server, _ACTION, "rebuilding", now)
        new = New(uuid=str(uuid.uuid4()), saga_id=saga_id, type=migrations.EVACUATION)
        row = migrations.add(tx, server, who, now, new)
        begun = actions.begin(tx, server.id, _ACTION, who, now, saga_id=saga_id)
        notes = replace(
            describe(Evacuate, tx, server, row, begun),
            wished_host=host,
            waiting=disk_places.choose_host(tx, server_id, source.name, now),
            disks=[moving(one) for one in rows],
            known=attached,
            stays_off=_stays_off(server, is_left_off=is_left_off),
        )
        compute.sagas.start(tx, EVACUATE, notes, who=who, saga_id=saga_id)

    await servers.submit(compute, _ACTION, server_id, begin)


def require_versions(tx: Session) -> None:
    """Raise Invalid while some host is too old to leave an evacuated server off (2.95)."""
    if older := hosts.tell_older(tx, hosts.LEFT_OFF_VERSION):
        raise Invalid(
            f"{older} and cannot leave an evacuated server off. Nothing was changed; upgrade or "
            "remove what is too old, or evacuate with a version below 2.95."
        )


def _require_state(server: Server, only_from: str | None) -> None:
    if only_from is not None and server.host != only_from:
        raise Conflict(f"Instance {server.id} is on host {only_from} no more.")
    if server.vm_state not in _FROM:
        raise states.refusal(server.id, _ACTION, "vm_state", server.vm_state)
    if server.shelved_image_id:
        raise Conflict(
            f"The root disk of instance {server.id} is in image {server.shelved_image_id}, and an "
            "evacuation would make it of another one. Nothing was changed; make a new instance of "
            "that image, and delete this one.",
            lasts=True,
        )
    if server.launched_at is None:
        raise Conflict(
            f"Instance {server.id} is in an invalid state for '{_ACTION}': it never ran. Nothing "
            "was changed; delete it and make another one."
        )


def _require_dead(tx: Session, server: Server) -> Host:
    """Return a server's host. Raises Invalid unless that is known to be dead."""
    host = hosts.find(tx, server.host)
    if host is None:
        raise Conflict(f"Instance {server.id} has no host. Nothing was changed.")
    hosts.hold(tx, host)
    if not host.forced_down:
        raise Invalid(
            f"The compute service of host {host.name} is in use: a host that is up, or silent "
            "only, may run its guests, and two guests would write to one volume. Nothing was "
            f"changed. See that it is off (mooring host fence {host.name}), or switch it off and "
            f"say so (openstack compute service set --down {host.name} nova-compute)."
        )
    return host


def _check_volumes(tx: Session, server: Server, source: Host, rows: list[BlockDevice]) -> None:
    """Raise Conflict unless each volume can be given to another host now, and to it alone.

    An earlier move may have left one at another host, too. One that waits at no host counts as one
    of the dead host, and goes along like the others.
    """
    checks.check_volumes(server, rows)
    checks.check_gate(tx, rows, of_dead_host=True)
    for row in rows:
        for place in disk_places.of_device(tx, row.id):
            if place.host not in {source.name, NOWHERE}:
                raise Conflict(
                    f"Volume {row.volume_id} of instance {row.server_id} is still attached at host "
                    f"{place.host}, which did not let it go. Nothing was changed; delete that "
                    "attachment, or reset the server's state, first.",
                    lasts=True,
                )


def _stays_off(server: Server, *, is_left_off: bool) -> bool:
    """Whether the guest is not started: it was off, or who asks wants to look first (2.95)."""
    return server.vm_state == "stopped" or (is_left_off and server.vm_state == "active")
