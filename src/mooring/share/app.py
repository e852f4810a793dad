"""The share service, declared."""

from __future__ import annotations

from mooring.saga.engine import Engine
from mooring.service import Loop, Service, Surroundings, rows_of
from mooring.share.access.api import access
from mooring.share.exports.api import exports
from mooring.share.growth import BOUNDS
from mooring.share.locks.api import locks
from mooring.share.messages.api import messages
from mooring.share.policy import RULES
from mooring.share.quotas.api import quotas
from mooring.share.service import Share
from mooring.share.services import pools
from mooring.share.services.api import absent, operators
from mooring.share.services.loops.watch_pools import POOLS
from mooring.share.shares.api import instances, share_actions, shares
from mooring.share.snapshots.api import snapshots
from mooring.share.tables import (
    ExportRow,
    ReservationRow,
    ResourceLockRow,
    RuleRow,
    ShareRow,
    SnapshotRow,
)
from mooring.share.types import types
from mooring.share.types.api import types as type_routes
from mooring.web import faces, operations


def _open(near: Surroundings) -> Share:
    return Share(
        store=near.store,
        agents=near.agents,
        sealer=near.sealer,
        clock=near.clock,
        outbox=near.outbox,
    )


async def _prepare(share: Share) -> None:
    name, now = share.settings.default_type, share.clock.now()
    await share.store.write(lambda tx: types.ensure_default(tx, name, now))


def _take_sagas(share: Share, engine: Engine[Share]) -> None:
    share.sagas = engine


SERVICE = Service(
    name="share",
    kind="shared-file-system",
    entry="share/v2",
    face=faces.SHARE,
    apis=(
        shares.api,
        share_actions.api,
        instances.api,
        exports.api,
        access.api,
        locks.api,
        snapshots.api,
        type_routes.api,
        quotas.api,
        messages.api,
        operators.api,
        absent.api,
        operations.build_api(Share),
    ),
    rules=RULES,
    open=_open,
    bounds=BOUNDS,
    prepare=_prepare,
    loops=(Loop(POOLS.watch, POOLS.look_once, is_first_look=True),),
    take_sagas=_take_sagas,
    notifies=True,
    hosts_seen=pools.seen,
    host_uses=pools.uses,
    forget_host=pools.forget,
    pages={
        "shares": rows_of(ShareRow),
        "share_exports": rows_of(ExportRow),
        "share_rules": rows_of(RuleRow),
        "share_locks": rows_of(ResourceLockRow),
        "share_snapshots": rows_of(SnapshotRow),
        "share_reservations": rows_of(ReservationRow),
    },
)
