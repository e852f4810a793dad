"""Moving servers that are off meanwhile, and giving them another size: who may, and when.

What was moved waits for its user's word: confirmed, or taken back. Source: facts/compute.md 1.3,
1.4, 4.9; specs 001.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mooring import typed
from mooring.compute.actions import actions
from mooring.compute.flavors import flavors, sizes
from mooring.compute.flavors.sizes import Size
from mooring.compute.groups import affinity
from mooring.compute.hosts import hosts
from mooring.compute.moves import checks, migrations, share_checks
from mooring.compute.moves.migrations import New
from mooring.compute.moves.sagas import sharing, verifying
from mooring.compute.moves.sagas.cold_migrate import COLD_MIGRATE
from mooring.compute.moves.sagas.confirm_resize import CONFIRM_RESIZE
from mooring.compute.moves.sagas.move_notes import ColdMove
from mooring.compute.moves.sagas.revert_resize import REVERT_RESIZE
from mooring.compute.quotas import quota
from mooring.compute.quotas.quota import Usage
from mooring.compute.servers import servers, states
from mooring.compute.tables import Server
from mooring.compute.volumes import devices, disk_places
from mooring.compute.volumes.moving_disks import MovingDisk, moving, of_place
from mooring.errors import Conflict, Invalid, NotFound

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.compute.tables import Flavor, Host, Migration
    from mooring.who import Who

_STOPPED = frozenset({"stopped"})
_FROM = _STOPPED | {"active"}
_RESIZED = frozenset({"resized"})


class NewSize(Struct, frozen=True, kw_only=True):
    """What is asked for by a resize; `with_shares` if its version moves servers with shares."""

    flavor_id: str
    disk_config: str | None = None
    with_shares: bool = True


async def migrate(
    compute: Compute,
    who: Who,
    server_id: str,
    host: str | None,
    *,
    with_shares: bool = True,
    by_drain: bool = False,
) -> None:
    """Begin to move a server to a host, or to any other one than its own.

    A drain, which no user has asked to take the server down, moves it only while it is stopped.
    Raises NotFound, Conflict: locked, wrong state, host down, shares and not `with_shares`;
    Invalid: the host will not do, or a disk of the server's cannot be copied.
    """
    attached, reached = await checks.look_at_volumes(compute, who, server_id)

    def begin(tx: Session) -> None:
        server = servers.visible(tx, who, server_id)
        share_checks.check(tx, server, is_asked_for=with_shares)
        vm_states = _STOPPED if by_drain else _FROM
        source = _require(tx, compute, who, server, "migrate", vm_states=vm_states)
        checks.check_wish(tx, compute, source, host)
        checks.check_copied(tx, server, source, host)
        checks.check_reach(tx, source.name, host, reached)
        share_checks.check_bases(tx, server, source, host)
        notes = _begin(tx, compute, who, server, sizes.of_server(server))
        if by_drain:
            migrations.change(tx, notes.migration_id, compute.clock.now(), by_drain=True)
        _start(tx, compute, who, replace(notes, known=attached, wished_host=host))

    await servers.submit(compute, "migrate", server_id, begin)


async def resize(compute: Compute, who: Who, server_id: str, wanted: NewSize) -> None:
    """Begin to give a server another size, on its host or on another one.

    Raises as `migrate` does; Invalid for the flavor, OverQuota.
    """
    attached, _ = await checks.look_at_volumes(compute, who, server_id)

    def begin(tx: Session) -> None:
        server = servers.visible(tx, who, server_id)
        share_checks.check(tx, server, is_asked_for=wanted.with_shares)
        source = _require(tx, compute, who, server, "resize")
        checks.check_copied(tx, server, source, None)
        size = sizes.of_flavor(_find_flavor(tx, who, server, wanted.flavor_id))
        extra = verifying.held_besides(server, size)
        more = Usage(0, extra["held_vcpus"], extra["held_memory_mib"])
        quota.check(tx, server.project_id, more)
        given = {"disk_config": wanted.disk_config} if wanted.disk_config else {}
        states.change(tx, server_id, compute.clock.now(), **extra, **given)
        tx.refresh(server)
        notes = _begin(tx, compute, who, server, size)
        _start(tx, compute, who, replace(notes, known=attached))

    await servers.submit(compute, "resize", server_id, begin)


async def confirm(compute: Compute, who: Who, server_id: str, *, only: int | None = None) -> None:
    """Let the server stay as it is now, or `only` after the move of this id.

    Raises NotFound, Conflict, Invalid: nothing to confirm.
    """

    def begin(tx: Session) -> None:
        server, row = _find_resized(tx, who, server_id, "confirmResize")
        if only is not None and row.id != only:
            raise Conflict(
                f"Instance {server_id} has moved once more (migration {row.id}) since migration "
                f"{only}. Nothing was confirmed: that is its user's to say."
            )
        _require_answer(tx, compute, row.source)
        notes = _plan(tx, compute, who, row, "confirmResize")
        sure = replace(
            notes,
            vm_state=row.old_vm_state,
            source=row.source,
            destination=server.host or "",
            kept=server.host or "",
            disks=_left_at(tx, server, row.source),
            shares=sharing.at(tx, server.id, row.source),
        )
        compute.sagas.start(tx, CONFIRM_RESIZE, sure, who=who, saga_id=row.saga_id)

    await servers.submit(compute, "confirmResize", server_id, begin)


async def revert(compute: Compute, who: Who, server_id: str) -> None:
    """Begin to bring a server back to its former host and size.

    Raises NotFound, Conflict: wrong state, one of the hosts is down; Invalid: nothing to revert, or
    a volume that it got since is out of the former host's reach.
    """
    attached, reached = await checks.look_at_volumes(compute, who, server_id)

    def begin(tx: Session) -> None:
        server, row = _find_resized(tx, who, server_id, "revertResize")
        now = compute.clock.now()
        hosts.require_up(tx, row.source, now, compute.settings.host_down_s)
        if row.source != server.host:
            checks.check_reach(tx, server.host, row.source, reached)
        _require_answer(tx, compute, server.host or "")
        rows = devices.of_server(tx, server_id)
        checks.check_volumes(server, [row for row in rows if row.volume_id])
        states.begin(tx, server, "revertResize", "resize_reverting", now)
        notes = _plan(tx, compute, who, row, "revertResize")
        moved = _both(tx, server, row.source)
        back = replace(
            notes,
            destination=row.source,
            size=typed.convert(row.old_size, Size),
            reverted=row.old_vm_state,
            known=attached,
            disks=moved,
            to_make=[disk.block_device_id for disk in moved if not disk.made],
            shares=sharing.at(tx, server.id, server.host or ""),
        )
        compute.sagas.start(tx, REVERT_RESIZE, back, who=who, saga_id=row.saga_id)

    await servers.submit(compute, "revertResize", server_id, begin)


# -- checks ------------------------------------------------------------------------------------


def _require(
    tx: Session,
    compute: Compute,
    who: Who,
    server: Server,
    action: str,
    *,
    vm_states: frozenset[str] = _FROM,
) -> Host:
    """Raise Conflict unless a server can move now; return its host."""
    states.require(server, who, action, vm_states)
    return hosts.require_up(tx, server.host, compute.clock.now(), compute.settings.host_down_s)


def _find_flavor(tx: Session, who: Who, server: Server, flavor_id: str) -> Flavor:
    """Return the flavor that a server may be resized to. Raises Invalid."""
    try:
        flavor = flavors.visible(tx, who, flavor_id)
    except NotFound as error:
        raise Invalid("Unable to locate requested flavor.", private=error.public) from error
    if flavor.id == server.flavor_id:
        raise Invalid("Resize requires a flavor change.")
    if flavor.disabled:
        raise Invalid(f"Flavor {flavor.id} is disabled. Nothing was changed.")
    if flavor.ephemeral_gib:
        raise Invalid(
            f"Flavor {flavor.name} has ephemeral disks, which are not built. Nothing was changed; "
            "choose a flavor without them."
        )
    if server.image_id and flavor.disk_gib == 0:
        raise Invalid(
            "Resize to zero disk flavor is not allowed: the server's root disk is on its host."
        )
    return flavor


def _find_resized(tx: Session, who: Who, server_id: str, action: str) -> tuple[Server, Migration]:
    """Return a server and the move that waits for its user's word."""
    server = servers.visible(tx, who, server_id)
    states.require(server, who, action, _RESIZED)
    row = migrations.to_verify(tx, server_id)
    if row is None:
        raise Invalid(f"Instance {server_id} has not been resized.")
    return server, row


def _require_answer(tx: Session, compute: Compute, name: str) -> None:
    """Raise Conflict while a host may have what it is to let go, and does not answer."""
    host = hosts.look(tx, name)
    if host is not None and not host.forced_down:
        hosts.require_up(tx, name, compute.clock.now(), compute.settings.host_down_s)


# -- notes -------------------------------------------------------------------------------------


def _begin(tx: Session, compute: Compute, who: Who, server: Server, size: Size) -> ColdMove:
    """Write down that a server is to move, perhaps to another size."""
    action = "migrate" if size.flavor_id == server.flavor_id else "resize"
    now = compute.clock.now()
    rows = [row for row in devices.of_server(tx, server.id) if row.volume_id]
    checks.check_volumes(server, rows)
    checks.check_gate(tx, rows)
    states.begin(tx, server, action, "resize_prep", now)
    new = New(
        uuid=str(uuid.uuid4()),
        saga_id=str(uuid.uuid4()),
        type=migrations.COLD if action == "migrate" else migrations.RESIZE,
        status="pre-migrating",
        size=size,
    )
    row = migrations.add(tx, server, who, now, new)
    disks = [moving(one) for one in rows]
    shares = sharing.at(tx, server.id, server.host or "")
    return replace(
        _describe(tx, who, row, action, now),
        size=size,
        disks=disks,
        to_make=[disk.block_device_id for disk in disks],
        shares=shares,
        to_share=[share.mapping_id for share in shares],
    )


def _start(tx: Session, compute: Compute, who: Who, notes: ColdMove) -> None:
    row = migrations.find(tx, notes.migration_id)
    saga_id = row.saga_id if row else None
    compute.sagas.start(tx, COLD_MIGRATE, notes, who=who, saga_id=saga_id)


def _plan(tx: Session, compute: Compute, who: Who, row: Migration, action: str) -> ColdMove:
    """Return the notes of the operation that ends a move, which has the record from now on."""
    now = compute.clock.now()
    migrations.change(tx, row.id, now, saga_id=str(uuid.uuid4()))
    return _describe(tx, who, row, action, now)


def _describe(tx: Session, who: Who, row: Migration, action: str, now: datetime) -> ColdMove:
    server = tx.get_one(Server, row.server_id)
    size, host = sizes.of_server(server), hosts.look(tx, server.host)
    return ColdMove(
        server_id=server.id,
        action_id=actions.begin(tx, server.id, action, who, now, saga_id=row.saga_id),
        action=action,
        migration_id=row.id,
        migration_uuid=row.uuid,
        project_id=server.project_id,
        user_id=server.user_id,
        vm_state=server.vm_state,
        source=server.host or "",
        group_id=affinity.group_of(tx, server.id),
        former=size,
        size=size,
        is_local=bool(server.image_id),
        hypervisor=host.hypervisor if server.image_id and host else "",
    )


def _both(tx: Session, server: Server, host: str) -> list[MovingDisk]:
    """Return the volumes of a server, with what there is of them at the host it goes back to."""
    if host == server.host:
        return []
    found: list[MovingDisk] = []
    for row in devices.of_server(tx, server.id):
        places = disk_places.of_device(tx, row.id)
        made = of_place(next((one for one in places if one.host == host), None))
        if row.volume_id:
            found.append(replace(moving(row), made=made))
    return found


def _left_at(tx: Session, server: Server, host: str) -> list[MovingDisk]:
    """Return the volumes of a server that are at the host it left, each by its attachment there."""
    return [
        replace(disk, attachment_id=disk.made, made=disk.attachment_id)
        for disk in _both(tx, server, host)
        if disk.made
    ]
