"""Moving servers that run: who may, when, and what may be asked of a move that lasts.

Source: facts/compute.md 1.5, 4.8; specs 001.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from mooring.compute.actions import actions, notices
from mooring.compute.hosts import hosts
from mooring.compute.moves import checks, migrations
from mooring.compute.moves.describing import describe
from mooring.compute.moves.migrations import New
from mooring.compute.moves.sagas.live_migrate import LIVE_MIGRATE
from mooring.compute.moves.sagas.move_notes import LiveMigrate
from mooring.compute.servers import servers, states
from mooring.compute.shares import blocked
from mooring.compute.volumes import devices
from mooring.compute.volumes.moving_disks import moving
from mooring.errors import Conflict, Invalid, NotFound

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.compute.tables import Migration
    from mooring.who import Who

_ACTION = "os-migrateLive"
_FROM = frozenset({"active", "paused"})
_EARLY = frozenset({"queued", "preparing"})
_ABORTABLE = frozenset({"running"})


async def live_migrate(
    compute: Compute,
    who: Who,
    server_id: str,
    *,
    host: str | None,
    block_migration: bool | Literal["auto"],
) -> None:
    """Begin to move a running server, to a host or to any other one.

    Raises NotFound, Conflict: locked, wrong state, host down; Invalid: the host is the server's
    own, unknown or down, or the server's disks are others than `block_migration` says.
    """
    attached, reached = await checks.look_at_volumes(compute, who, server_id)

    def begin(tx: Session) -> None:
        server = servers.visible(tx, who, server_id)
        blocked.refuse_live_migration(tx, server_id)
        now, saga_id = compute.clock.now(), str(uuid.uuid4())
        states.require(server, who, _ACTION, _FROM)
        source = hosts.require_up(tx, server.host, now, compute.settings.host_down_s)
        checks.check_wish(tx, compute, source, host)
        checks.check_reach(tx, source.name, host, reached)
        checks.check_block_migration(server, wanted=block_migration)
        checks.check_copied(tx, server, source, host)
        rows = [row for row in devices.of_server(tx, server_id) if row.volume_id]
        checks.check_volumes(server, rows)
        checks.check_gate(tx, rows)
        states.begin(tx, server, _ACTION, "migrating", now)
        move_id = str(uuid.uuid4())
        row = migrations.add(tx, server, who, now, New(uuid=move_id, saga_id=saga_id))
        begun = actions.begin(tx, server.id, "live-migration", who, now, saga_id=saga_id)
        notes = replace(
            describe(LiveMigrate, tx, server, row, begun),
            wished_host=host,
            disks=[moving(one) for one in rows],
            hypervisor=source.hypervisor if server.image_id else "",
            known=attached,
        )
        compute.sagas.start(tx, LIVE_MIGRATE, notes, who=who, saga_id=saga_id)

    await servers.submit(compute, _ACTION, server_id, begin)


async def abort(compute: Compute, who: Who, server_id: str, move: str, *, early: bool) -> None:
    """Have a move end where it began, also an `early` one, whose guest is not on its way yet.

    Raises NotFound; Invalid: it is over, or too far.
    """

    def ask(tx: Session) -> None:
        row = _find_live(tx, who, server_id, move)
        states.require_unlocked(servers.visible(tx, who, server_id), who)
        if row.status in _EARLY and not early:
            raise Invalid(
                f"Migration {move} of instance {server_id} is {row.status}; before its guest is on "
                "its way it can be aborted from microversion 2.65 on. Nothing was changed; ask "
                "again with that, or once it is running."
            )
        if row.status not in _ABORTABLE | _EARLY:
            raise Invalid(
                f"Migration {move} of instance {server_id} is {row.status}; it can be aborted only "
                "until the guest has arrived."
            )
        now = compute.clock.now()
        migrations.change(tx, row.id, now, asked=migrations.ABORT)
        action, event = "live_migration_cancel", "live_migration_abort"
        _record(tx, compute, who, server_id, action=action, event=event)
        try:
            compute.sagas.abort(tx, row.saga_id)
        except Conflict:
            # The guest is on its way: who looks after it reads what is asked.
            compute.sagas.signal(tx, migrations.signal_of(row.id))

    await compute.store.write(ask)


async def force_complete(compute: Compute, who: Who, server_id: str, move: str) -> None:
    """Have the guest stand still until it has arrived. Raises NotFound, Conflict, Invalid."""

    def ask(tx: Session) -> None:
        server = servers.visible(tx, who, server_id)
        states.require(server, who, "force_complete", _FROM, {"migrating"})
        row = _find_live(tx, who, server_id, move)
        if row.status != "running" or row.asked == migrations.ABORT:
            state = "being aborted" if row.asked == migrations.ABORT else row.status
            raise Invalid(
                f"Migration {move} of instance {server_id} is {state}; only one that runs can be "
                "forced to its end."
            )
        now = compute.clock.now()
        migrations.change(tx, row.id, now, asked=migrations.FORCE_COMPLETE)
        what = "live_migration_force_complete"
        _record(tx, compute, who, server_id, action=what, event=what)
        compute.sagas.signal(tx, migrations.signal_of(row.id))

    await compute.store.write(ask)


def _record(
    tx: Session, compute: Compute, who: Who, server_id: str, *, action: str, event: str
) -> None:
    """Write down, and tell, that something was asked of a move."""
    now = compute.clock.now()
    action_id = actions.record_done(tx, server_id, action, who, now, event=f"compute_{event}")
    for phase in ("start", "end"):
        notices.send(tx, compute, server_id, f"{event}.{phase}", action_id=action_id)


def find(tx: Session, who: Who, server_id: str, move: str) -> Migration:
    """Return a move of a server by its number, or its uuid. Raises NotFound.

    The lists show both, and users, like Tempest's project manager, ask by either.
    """
    servers.visible(tx, who, server_id)
    of_server = migrations.of_server(tx, server_id)
    row = next((one for one in of_server if move in {str(one.id), one.uuid}), None)
    if row is None:
        raise NotFound(f"Migration {move} for server {server_id} could not be found.")
    return row


def _find_live(tx: Session, who: Who, server_id: str, move: str) -> Migration:
    row = find(tx, who, server_id, move)
    if row.type != migrations.LIVE:
        raise Invalid(f"Migration {move} of instance {server_id} is no live migration.")
    return row
