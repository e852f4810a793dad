"""What keeps the tables of the compute service from growing without end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, exists, literal
from sqlalchemy.orm import Session

from mooring.compute.moves import migrations
from mooring.compute.service import Compute
from mooring.compute.tables import (
    Aggregate,
    AggregateHost,
    BlockDevice,
    ConsoleToken,
    DiskPlace,
    Fault,
    Flavor,
    FlavorAccess,
    Host,
    HostDrain,
    HostFencing,
    InstanceAction,
    InstanceActionEvent,
    Keypair,
    Migration,
    QuotaDefault,
    QuotaLimit,
    QuotaLock,
    Server,
    ServerGroup,
    ServerGroupMember,
    ServerMetadata,
    ServerTag,
    ShareMapping,
    SharePlace,
)
from mooring.saga.tables import LockRow
from mooring.store import limits
from mooring.store.growth import Aged, Bound, Newest

_is_held = exists().where(LockRow.key == literal("server:") + Server.id)
_has_volumes = exists().where(
    BlockDevice.server_id == Server.id, BlockDevice.destination_type == "volume"
)
_has_shares = exists().where(ShareMapping.server_id == Server.id)
_lasts = exists().where(
    InstanceActionEvent.action_id == InstanceAction.id, InstanceActionEvent.finished_at.is_(None)
)


class _Deleted(Aged[Compute]):
    """Takes away servers that were deleted long ago, each with all that was remembered of it.

    None whose volumes or shares somebody still owes, and none that an operation is at work on.
    """

    def __init__(self) -> None:
        super().__init__(
            Server,
            "deleted_at",
            lambda compute: compute.settings.deleted_servers_s,
            most=limits.COMPUTE_DELETED_ROWS,
            least_s=limits.COMPUTE_DELETED_LEAST_S,
            only=[~_is_held, ~_has_volumes, ~_has_shares],
        )

    def drop(self, tx: Session, found: Sequence[Any]) -> int:
        ids = [server_id for server_id, _ in found]
        for row in (BlockDevice, Fault, InstanceAction, Migration):
            tx.execute(delete(row).where(row.server_id.in_(ids)))
        return super().drop(tx, found)


_WITH_SERVER = "gone with the server's row"


def actions(most: int) -> Bound[Any]:
    """Return the bound of actions, of which a server keeps so many beside those that last."""
    rule = Newest(InstanceAction, "server_id", most, only=[~_lasts])
    return Bound(InstanceAction, f"the newest `COMPUTE_ACTIONS` of a server; {_WITH_SERVER}", rule)


BOUNDS: tuple[Bound[Compute], ...] = (
    Bound(Flavor, "made by administrators alone"),
    Bound(FlavorAccess, "made by administrators alone"),
    Bound(
        Server,
        "the quota `instances`; deleted ones for `deleted_servers_days`, beyond "
        "`COMPUTE_DELETED_ROWS` for `COMPUTE_DELETED_LEAST_S`",
        _Deleted(),
    ),
    Bound(ServerMetadata, f"the quota `metadata_items`; {_WITH_SERVER}"),
    Bound(ServerTag, f"`COMPUTE_TAGS`; {_WITH_SERVER}"),
    Bound(BlockDevice, f"its local disks, and its volumes; {_WITH_SERVER}"),
    Bound(DiskPlace, "gone with the volume's device"),
    actions(limits.COMPUTE_ACTIONS),
    Bound(InstanceActionEvent, "gone with their action"),
    Bound(
        Fault,
        f"the newest `COMPUTE_FAULTS` of a server; {_WITH_SERVER}",
        Newest(Fault, "server_id", limits.COMPUTE_FAULTS),
    ),
    Bound(
        Migration,
        f"the newest `COMPUTE_MOVES` of a server; {_WITH_SERVER}",
        Newest(Migration, "server_id", limits.COMPUTE_MOVES, only=[~migrations.unfinished()]),
    ),
    Bound(
        ConsoleToken,
        "the newest `COMPUTE_CONSOLE_TOKENS` of a server; for `console_token_s`, beyond "
        "`COMPUTE_CONSOLE_ROWS` shorter",
        # When they expire is ahead, by a day at most.
        Aged(ConsoleToken, "expires_at", 0.0, most=limits.COMPUTE_CONSOLE_ROWS, least_s=-86400.0),
    ),
    Bound(Keypair, "the quota `key_pairs`"),
    Bound(Host, "one for each host"),
    Bound(HostDrain, "the last one of each host"),
    Bound(HostFencing, "the last one of each host"),
    Bound(ServerGroup, "the quota `server_groups`"),
    Bound(ServerGroupMember, "gone with the server"),
    Bound(Aggregate, "made by administrators alone"),
    Bound(AggregateHost, "made by administrators alone"),
    Bound(QuotaLimit, "set by administrators alone"),
    Bound(QuotaDefault, "set by administrators alone"),
    Bound(QuotaLock, "one for each project, and for each user that made a key pair"),
    Bound(ShareMapping, "gone when the server has let go of the share"),
    Bound(SharePlace, "one for each host that is let in to it"),
)
