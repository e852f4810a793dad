"""Which volumes go to which pool, and when. Source: facts/block_storage.md 1.6.

Policy is checked by the route. Errors: NotFound for what the caller may not see, Invalid for a
request or a state that forbids it.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.errors import Invalid
from mooring.volume.backends import apart, backends, placing
from mooring.volume.migration import in_use
from mooring.volume.migration.copies import Move
from mooring.volume.migration.sagas.in_use_notes import MigrateInUse
from mooring.volume.migration.sagas.migrate_in_use import MIGRATE_IN_USE
from mooring.volume.migration.sagas.migrate_notes import MigrateVolume
from mooring.volume.migration.sagas.migrate_volume import MIGRATE_VOLUME
from mooring.volume.snapshots import snapshot_rows
from mooring.volume.tables import TypeRow
from mooring.volume.volumes import statuses, volumes

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.attachments.reserving import Asked
    from mooring.volume.tables import VolumeRow


async def migrate(asked: Asked, volume_id: str, pool: str, *, lock: bool) -> None:
    """Start to bring a volume to a pool, named in full; `lock` keeps its users off meanwhile."""
    volume = asked.volume

    def begin(tx: Session) -> None:
        row = volumes.visible(tx, asked.who, volume_id)
        in_use.require_one_place(tx, row)
        found = backends.find(tx, pool, volume.settings, volume.clock.now())
        if row.backend == pool:
            raise Invalid(
                f"Invalid input received: Volume {row.id} is in {pool} already; the destination "
                "host must be different than the current host. Nothing was changed.",
            )
        if row.backend:
            _require_apart(tx, asked, row.backend, found.name)
        of_type = tx.get_one(TypeRow, row.volume_type_id)
        wanted = want(row, of_type, multiattach=row.multiattach)
        start(tx, asked, row, replace(wanted, pool=pool), shown="maintenance" if lock else "")

    await volume.sagas.submit(begin)


def want(row: VolumeRow, of_type: TypeRow, *, multiattach: bool) -> backends.Wanted:
    """Return what a volume wants of a pool when it is of a type."""
    return backends.Wanted(
        size_gib=row.size_gib,
        zone=row.zone,
        multiattach=multiattach,
        extra_specs=of_type.extra_specs,
    )


def start(
    tx: Session,
    asked: Asked,
    row: VolumeRow,
    wanted: backends.Wanted,
    *,
    shown: str,
    new_type: TypeRow | None = None,
) -> None:
    """Choose the pool, and start to bring a volume there; `shown` is its status meanwhile.

    One in use is kept from nobody, so that nothing shows it as `maintenance`.
    """
    volume = asked.volume
    source = _require_free(tx, row)
    user = in_use.find_user(tx, row) if row.status == "in-use" else None
    wanted = replace(wanted, comes_from=source, reached_by=user.host if user else "")
    move = Move(str(uuid.uuid4()), source, _choose(tx, asked, row, wanted))
    if user is not None:
        moving = MigrateInUse(
            volume_id=row.id,
            server_id=user.server_id,
            move=move,
            size_gib=row.size_gib,
            shown=shown if new_type else "",
            type_id=new_type.id if new_type else "",
        )
        volume.sagas.start(tx, MIGRATE_IN_USE, moving, who=asked.who)
        return
    notes = MigrateVolume(
        volume_id=row.id, move=move, size_gib=row.size_gib, shown=shown, format=wanted.format
    )
    if new_type is not None:
        notes = replace(
            notes,
            type_id=new_type.id,
            former_type_id=row.volume_type_id,
            former_multiattach=row.multiattach,
        )
    volume.sagas.start(tx, MIGRATE_VOLUME, notes, who=asked.who)


def _choose(tx: Session, asked: Asked, row: VolumeRow, wanted: backends.Wanted) -> str:
    """Return the name of the pool that takes a volume. Raises Invalid when none does."""
    volume = asked.volume
    choice = placing.find(tx, wanted, volume.settings, volume.clock.now())
    if choice.best is None:
        who = f"{wanted.pool} cannot" if wanted.pool else "No pool can"
        raise Invalid(
            f"Invalid input received: {who} take volume {row.id} with its {wanted.size_gib} GiB. "
            f"Nothing was changed. {choice.explain()}"
        )
    return choice.best.row.name


def _require_apart(tx: Session, asked: Asked, source: str, target: str) -> None:
    """Raise Invalid unless two pools are two storages, as far as their hosts have told."""
    settings = asked.volume.settings
    rows = [room.row for room in backends.find_rooms(tx, settings)]
    are_apart = apart.of_rows(rows, down_s=settings.pool_down_s).are_apart(source, target)
    if are_apart:
        return
    why = (
        "are of two hosts of which one has the storage of both"
        if are_apart is False
        else "cannot be told apart: a pool of their hosts does not say what storage it is"
    )
    raise Invalid(
        f"Invalid input received: {source} and {target} {why}. Nothing was changed; choose another "
        "pool of the volume's host, or a host that does not have its storage."
    )


def _require_free(tx: Session, row: VolumeRow) -> str:
    """Return where a volume lies that can be moved now. Raises Invalid."""
    if (
        row.status not in ("available", "in-use")
        or row.backend is None
        or row.copy_id is not None
        or volumes.is_migrating(row)
    ):
        on_its_way = f" and its migration {row.migration_status}" if row.migration_status else ""
        left = f"; its copy {row.copy_id} is still there" if row.copy_id else ""
        raise Invalid(
            f"Invalid volume: Volume {row.id} status must be available or in-use, and it must not "
            f"be migrating, to come to another pool; it is {row.status}{on_its_way}{left}. Nothing "
            "was changed; an administrator's reset of its status ends what is left of a migration."
            f"{statuses.way_out(row.status)}"
        )
    if snapshot_rows.of_volume(tx, row.id):
        raise Invalid(
            f"Invalid volume: Volume {row.id} has snapshots, which would stay behind. Nothing was "
            "changed; delete them first."
        )
    return row.backend
