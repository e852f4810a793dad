"""Rescuing a server and taking it back: who may, and when (facts/compute.md 1.4)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from mooring.compute.actions import actions
from mooring.compute.hosts import hosts
from mooring.compute.rescue import rescue_requests
from mooring.compute.rescue.sagas.rescue_notes import ChangeRescue, RescueServer
from mooring.compute.rescue.sagas.rescue_server import RESCUE_SERVER
from mooring.compute.rescue.sagas.unrescue_server import UNRESCUE_SERVER
from mooring.compute.servers import servers, states
from mooring.compute.volumes import devices

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.compute.tables import Host, Server
    from mooring.who import Who

_RESCUE, _UNRESCUE = "rescue", "unrescue"
_FROM = frozenset({"active", "stopped", "error"})
_RESCUED = frozenset({"rescued"})


async def rescue(
    compute: Compute,
    who: Who,
    server_id: str,
    *,
    image_id: str | None,
    may_boot_from_volume: bool,
) -> None:
    """Boot it from an image, by default its own. Raises NotFound, Conflict, Invalid."""

    def look(tx: Session) -> tuple[Server, Host]:
        server = servers.visible(tx, who, server_id)
        states.require(server, who, _RESCUE, _FROM)
        rescue_requests.check_version(server, may_boot_from_volume=may_boot_from_volume)
        return server, _host(tx, compute, server)

    def look_whole(tx: Session) -> rescue_requests.Place:
        server, host = look(tx)
        return rescue_requests.Place(server, host, list(devices.of_server(tx, server_id)))

    place = await compute.store.read(look_whole)
    plan = await rescue_requests.gather(compute, who, image_id, place)

    def begin(tx: Session) -> None:
        server, host = look(tx)
        now, saga_id = compute.clock.now(), str(uuid.uuid4())
        states.begin(tx, server, _RESCUE, "rescuing", now)
        notes = RescueServer(
            server_id=server_id,
            host=host.name,
            action_id=actions.begin(tx, server_id, _RESCUE, who, now, saga_id=saga_id),
            task_state="rescuing",
            image_id=plan.image_id,
            device=plan.device,
            bus=plan.bus,
            is_stable=plan.is_stable,
        )
        compute.sagas.start(tx, RESCUE_SERVER, notes, who=who, saga_id=saga_id)

    await servers.submit(compute, _RESCUE, server_id, begin)


async def unrescue(compute: Compute, who: Who, server_id: str) -> None:
    """Boot it from its own disks again. Raises NotFound, Conflict."""

    def begin(tx: Session) -> None:
        server = servers.visible(tx, who, server_id)
        states.require(server, who, _UNRESCUE, _RESCUED)
        host = _host(tx, compute, server)
        now, saga_id = compute.clock.now(), str(uuid.uuid4())
        states.begin(tx, server, _UNRESCUE, "unrescuing", now)
        notes = ChangeRescue(
            server_id=server_id,
            host=host.name,
            action_id=actions.begin(tx, server_id, _UNRESCUE, who, now, saga_id=saga_id),
            task_state="unrescuing",
        )
        compute.sagas.start(tx, UNRESCUE_SERVER, notes, who=who, saga_id=saga_id)

    await servers.submit(compute, _UNRESCUE, server_id, begin)


def _host(tx: Session, compute: Compute, server: Server) -> Host:
    """Return the host of a server. Raises Conflict when it is not up."""
    return hosts.require_up(tx, server.host, compute.clock.now(), compute.settings.host_down_s)
