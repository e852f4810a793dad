"""Which volumes get which other type, and when. Source: facts/block_storage.md 1.6.

Policy is checked by the route. Errors: NotFound for what the caller may not see, Forbidden, Invalid
for a request or a state that forbids it, OverQuota.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from mooring.errors import Forbidden, Invalid
from mooring.volume.backends import backends
from mooring.volume.migration import in_use, migrating
from mooring.volume.migration.sagas import arriving
from mooring.volume.quotas import quota
from mooring.volume.snapshots import snapshot_rows
from mooring.volume.types import types
from mooring.volume.volumes import notices, statuses, volumes

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.attachments.reserving import Asked
    from mooring.volume.tables import TypeRow, VolumeRow

Policy = Literal["never", "on-demand"]
RETYPING = "retyping"
_RETYPED = ("available", "in-use")


class Retype(Struct, frozen=True, kw_only=True):
    """What is asked for, its form already checked."""

    new_type: str
    policy: Policy = "never"
    """Whether the volume may be copied to another pool."""
    may_multiattach: bool = True
    """Whether policy lets the caller have volumes that several servers share."""


async def retype(asked: Asked, volume_id: str, wanted: Retype) -> None:
    """Give a volume another type: at once where its pool has what that wants, or by migrating it.

    What can be changed at once is one transaction, so that nobody sees the volume `retyping`.
    """
    volume = asked.volume

    def begin(tx: Session) -> None:
        row = volumes.visible(tx, asked.who, volume_id)
        new_type = types.named(tx, asked.who, wanted.new_type)
        in_use.require_one_place(tx, row)
        _check(row, new_type, wanted)
        _check_snapshots(tx, row, new_type)
        quota.claim_type(tx, row, new_type)
        multiattach = types.is_multiattach(new_type)
        of_pool = migrating.want(row, new_type, multiattach=multiattach)
        if row.backend and backends.has_what(tx, row.backend, of_pool, volume.settings):
            _change(tx, asked, row, new_type)
            return
        if wanted.policy == "never":
            raise Invalid(
                f"Invalid volume: Volume {row.id} lies in {row.backend}, which does not have what "
                f"volume type {new_type.name} wants. Nothing was changed; the migration policy "
                "on-demand lets it come to another pool."
            )
        migrating.start(tx, asked, row, of_pool, shown=RETYPING, new_type=new_type)

    await volume.sagas.submit(begin)


def _check(row: VolumeRow, new_type: TypeRow, wanted: Retype) -> None:
    """Raise Invalid unless a volume may be of a type, whatever room there is."""
    multiattach = types.is_multiattach(new_type)
    if multiattach != row.multiattach and row.status != "available":
        raise Invalid(
            f"Invalid input received: Whether volume {row.id} may be attached to several servers "
            f"changes only while it is available, and it is {row.status}. Nothing was changed; "
            "detach it first, or choose another type."
        )
    if row.status not in _RETYPED or volumes.is_migrating(row) or row.backend is None:
        raise Invalid(
            f"Invalid volume: Volume {row.id} status must be available or in-use, and it must not "
            f"be migrating, to be retyped, but it is {row.status}. Nothing was changed."
        )
    if row.volume_type_id == new_type.id:
        raise Invalid(
            f"Invalid input received: Volume {row.id} is of volume type {new_type.name} already. "
            "Choose another one."
        )
    if multiattach and not row.multiattach and not wanted.may_multiattach:
        raise Forbidden("Policy doesn't allow volume:multiattach to be performed.")
    types.check_size(new_type, row.size_gib)


def _check_snapshots(tx: Session, row: VolumeRow, new_type: TypeRow) -> None:
    """Raise Invalid where behind its snapshots one server alone could write to a shared volume."""
    if types.is_multiattach(new_type) and snapshot_rows.of_volume(tx, row.id):
        raise Invalid(
            f"Invalid volume: Volume {row.id} has snapshots, so that one server alone can write to "
            f"it, and volumes of type {new_type.name} may be attached to several. Nothing was "
            "changed; delete the snapshots first, or choose another type."
        )


def _change(tx: Session, asked: Asked, row: VolumeRow, new_type: TypeRow) -> None:
    values, now = arriving.of_type(new_type), asked.volume.clock.now()
    if not statuses.change(tx, row.id, allowed=(row.status,), now=now, **values):
        raise Invalid(
            f"Invalid volume: Volume {row.id} is no longer {row.status}. Nothing was changed; ask "
            "again."
        )
    notices.send(tx, asked.volume, row.id, "retype")
