"""Which volumes get which other type, and when. Source: facts/block_storage.md 1.6.

Policy is checked by the route. Errors: NotFound for what the caller may not see, Forbidden, Invalid
for a request or a state that forbids it, OverQuota.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from mooring.errors import Forbidden, Invalid, Unavailable
from mooring.volume.backends import backends, placing
from mooring.volume.migration import in_use, migrating
from mooring.volume.migration.sagas import arriving
from mooring.volume.quotas import quota
from mooring.volume.snapshots import snapshot_rows
from mooring.volume.types import types
from mooring.volume.volumes import notices, statuses, volumes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

    from mooring.volume.attachments.reserving import Asked
    from mooring.volume.tables import TypeRow, VolumeRow

Policy = Literal["never", "on-demand"]
RETYPING = "retyping"
_RETYPED = ("available", "in-use")
_ADVICE = " A new volume of that type that is made of this one needs no other pool."


class Retype(Struct, frozen=True, kw_only=True):
    """What is asked for, its form already checked."""

    new_type: str
    policy: Policy = "never"
    """Whether the volume may be copied to another pool."""
    may_multiattach: bool = True
    """Whether policy lets the caller have volumes that several servers share."""


class File(Struct, frozen=True):
    """In which pool a volume was seen to be a file, and of which format; None: nobody looked."""

    backend: str | None
    format: str = ""


async def retype(asked: Asked, volume_id: str, wanted: Retype) -> None:
    """Give a volume another type: at once where its pool has what that wants, or by migrating it.

    What can be changed at once is one transaction, so that nobody sees the volume `retyping`.
    """
    volume = asked.volume
    file = await _read_file(asked, volume_id, wanted)

    def begin(tx: Session) -> None:
        row = volumes.visible(tx, asked.who, volume_id)
        new_type = types.named(tx, asked.who, wanted.new_type)
        in_use.require_one_place(tx, row)
        _check(row, new_type, wanted)
        _check_snapshots(tx, row, new_type)
        quota.claim_type(tx, row, new_type)
        multiattach = types.is_multiattach(new_type)
        of_pool = migrating.want(row, new_type, multiattach=multiattach)
        fits = row.multiattach or not multiattach or file == File(row.backend, "raw")
        lacks = placing.find_lacks(tx, row.backend or "", of_pool, volume.settings)
        if fits and not lacks:
            _change(tx, asked, row, new_type)
            return
        if wanted.policy == "never":
            raise _needs_copy(tx, asked, row, new_type, lacks if fits else [])
        try:
            migrating.start(tx, asked, row, of_pool, shown=RETYPING, new_type=new_type)
        except Invalid as error:
            if fits:
                raise
            raise Invalid(f"{error.public}{_ADVICE}", private=error.private) from error

    await volume.sagas.submit(begin)


async def _read_file(asked: Asked, volume_id: str, wanted: Retype) -> File:
    """Return what file a volume is that several servers are to have; ask its host only then.

    Raises Unavailable while the host does not answer.
    """
    volume = asked.volume

    def find(tx: Session) -> str | None:
        row = volumes.visible(tx, asked.who, volume_id)
        is_new = types.is_multiattach(types.named(tx, asked.who, wanted.new_type))
        return row.backend if is_new and not row.multiattach and row.status == "available" else None

    if (backend := await volume.store.read(find)) is None:
        return File(None)
    try:
        found = await volume.agents[backends.split(backend)[0]].show_volume(volume_id)
    except Unavailable as error:
        raise Unavailable(
            f"Whether several servers can have volume {volume_id} its host alone can tell. Nothing "
            f"was changed. {error.public}",
            private=error.private,
        ) from error
    return File(backend, found.format if found else "")


def _needs_copy(
    tx: Session, asked: Asked, row: VolumeRow, new_type: TypeRow, lacks: Sequence[str]
) -> Invalid:
    """Return why a volume has a type only as a copy: its pool lacks something, or its file is not.

    To copy it is advised where a pool would have it. Only administrators see what types ask for.
    """
    multiattach = types.is_multiattach(new_type)
    if lacks:
        what = f": {', '.join(lacks)}" if asked.who.is_admin else ""
        why = f"that does not have what volume type {new_type.name} wants{what}"
    else:
        why = "where its file is not raw, so that one server alone can write to it, and volumes "
        why += f"of type {new_type.name} may be attached to several"
    wanted = replace(
        migrating.want(row, new_type, multiattach=multiattach), comes_from=row.backend or ""
    )
    choice = placing.find(tx, wanted, asked.volume.settings, asked.volume.clock.now())
    copying = "the migration policy on-demand lets it come to another pool."
    if choice.best is None:
        copying = f"no other pool could take it either. {choice.explain()}"
    advice = "" if lacks else _ADVICE
    return Invalid(
        f"Invalid volume: Volume {row.id} lies in a pool {why}. Nothing was changed; "
        f"{copying}{advice}",
        private=f"It is {row.backend}.",
    )


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
            f"{statuses.way_out(row.status)}"
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
    """Raise Invalid where behind its snapshots one server alone could write to a shared volume.

    Those of a volume that is shared already are copies.
    """
    becomes_shared = types.is_multiattach(new_type) and not row.multiattach
    if becomes_shared and snapshot_rows.of_volume(tx, row.id):
        raise Invalid(
            f"Invalid volume: Volume {row.id} has snapshots, behind which one server alone can "
            f"write to it, and volumes of type {new_type.name} may be attached to several. Nothing "
            "was changed; delete the snapshots first, or choose another type."
        )


def _change(tx: Session, asked: Asked, row: VolumeRow, new_type: TypeRow) -> None:
    values, now = arriving.of_type(new_type), asked.volume.clock.now()
    if not statuses.change(tx, row.id, allowed=(row.status,), now=now, **values):
        raise Invalid(
            f"Invalid volume: Volume {row.id} is no longer {row.status}. Nothing was changed; ask "
            "again."
        )
    notices.send(tx, asked.volume, row.id, "retype")
