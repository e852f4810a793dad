"""Create a share: find a pool, make it there, write down where clients mount it from.

The request was answered when the row was written; a failure leaves the share in `error`, with a
message for its owner, and nothing in the storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring.agent_api.shares import Protocol, ShareSnapshotName, ShareSpec
from mooring.errors import NoCapacity
from mooring.saga.define import Lock, Mode, Run, Saga, Step, Together, exclusive, shared
from mooring.saga.ownership import require_lease
from mooring.share.exports import exports
from mooring.share.services import matching, pools
from mooring.share.shares import statuses
from mooring.share.shares.story import Message, tell
from mooring.share.tables import PoolRow, ShareRow, TypeRow

if TYPE_CHECKING:
    from mooring.share.service import Share

_SUPPORTS = ("snapshot_support", "create_share_from_snapshot_support")


class CreateShare(Struct, frozen=True, kw_only=True):
    """The notes. `snapshot` is what fills the share, and then `pool` is where that lies."""

    share_id: str
    size_gib: int
    protocol: str
    zone: str = ""
    snapshot: ShareSnapshotName | None = None
    pool: str = ""
    """By its full name; with a snapshot the only one that will do."""


async def schedule(notes: CreateShare, run: Run[Share]) -> CreateShare:
    """Give the share a pool; from now on it counts there. Raises NoCapacity.

    Not in the transaction of the request, which is answered whether there is room or not.
    """
    return replace(notes, pool=await run.service.store.write(lambda tx: _choose(tx, notes, run)))


def _choose(tx: Session, notes: CreateShare, run: Run[Share]) -> str:
    # One whose creation has failed by now lies nowhere, and is to stay so.
    require_lease(tx, run)
    row = tx.get_one(ShareRow, notes.share_id)
    if row.pool is not None:
        return row.pool
    share_type = tx.get_one(TypeRow, row.share_type_id)
    wanted = pools.Wanted(
        size_gib=notes.size_gib,
        protocol=notes.protocol,
        zone=notes.zone,
        extra_specs=share_type.extra_specs,
        pool=notes.pool,
    )
    chosen = pools.choose(tx, wanted, run.service.settings, run.now())
    row.pool, row.zone = chosen.name, chosen.zone
    row.snapshot_support, row.from_snapshot_support = _find_supports(share_type, chosen)
    return chosen.name


def _find_supports(share_type: TypeRow, pool: PoolRow) -> list[bool]:
    """Return what can be done with the share: what its type says, or else what its pool can."""
    can = dict(zip(_SUPPORTS, (pool.has_snapshots, pool.from_snapshot), strict=True))
    specs = share_type.extra_specs
    return [can[name] and matching.is_true(specs.get(name, "True")) for name in _SUPPORTS]


def show_error(tx: Session, notes: CreateShare, run: Run[Share]) -> None:
    """Put the share into `error`, which lies nowhere any more."""
    values: dict[str, Any] = {"status": "error", "pool": None, "zone": notes.zone or None}
    values |= {"snapshot_support": False, "from_snapshot_support": False}
    statuses.change(tx, notes.share_id, allowed=("creating",), now=run.now(), **values)


async def make_share(notes: CreateShare, run: Run[Share]) -> Together:
    """Make it in its pool, empty or filled; one that is there already is fine."""
    agent = await pools.agent_of(run, notes.pool)
    spec = ShareSpec(
        pool=pools.split(notes.pool)[2],
        protocol=cast("Protocol", notes.protocol),
        size_gb=notes.size_gib,
        snapshot=notes.snapshot,
    )
    made = await agent.put_share(notes.share_id, spec, operation=run.operation)
    return Together(lambda tx: exports.put(tx, notes.share_id, made.exports, run.now()))


async def remove_share(notes: CreateShare, run: Run[Share]) -> Together:
    """Remove what was made of it."""
    agent = await pools.agent_of(run, notes.pool)
    pool = pools.split(notes.pool)[2]
    await agent.delete_share(notes.share_id, pool, operation=run.operation)
    return Together(lambda tx: exports.forget(tx, notes.share_id))


def show_available(tx: Session, notes: CreateShare, run: Run[Share]) -> None:
    """Tell that the share is ready."""
    now = run.now()
    values: dict[str, Any] = {"status": "available", "launched_at": now}
    statuses.change(tx, notes.share_id, allowed=("creating",), now=now, **values)


def _explain(row: ShareRow, notes: CreateShare, run: Run[Share]) -> Message:
    is_full = isinstance(run.error, NoCapacity)
    return ("allocate", "no_pool") if is_full else ("create", "unknown")


def _locks(notes: CreateShare) -> Sequence[Lock]:
    mine = exclusive(f"share:{notes.share_id}")
    # The snapshot stays as it is while it is read.
    return (mine, shared(f"share:{notes.snapshot.share}")) if notes.snapshot else (mine,)


def _define(name: str, mode: Mode) -> Saga[CreateShare]:
    return Saga(
        name,
        CreateShare,
        Step("schedule", schedule, undo=show_error),
        Step("make_share", make_share, undo=remove_share, deadline_s=3600.0),
        Step("show_available", show_available),
        locks=_locks,
        mode=mode,
        visible_after="show_available",
        residue=("shares", "messages"),
        story=tell(begun="create.start", ended="create.end", explain=_explain),
    )


CREATE_SHARE = _define("share.create_share", "refuse")
# Another snapshot of the same share may be on its way: the new share waits for it.
CREATE_SHARE_FROM_SNAPSHOT = _define("share.create_share_from_snapshot", "wait")
