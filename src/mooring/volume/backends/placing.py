"""Which pool gets a volume, and what speaks against the others.

Source: facts/block_storage.md 11.3.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from mooring import pool_choice
from mooring.errors import NoCapacity
from mooring.pool_choice import Choice, Reason
from mooring.volume.backends import apart, backends
from mooring.volume.backends.backends import Room, Wanted
from mooring.volume.backends.extra_specs import find_unmet

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.orm import Session

    from mooring.volume.service import VolumeSettings
    from mooring.volume.tables import BackendRow

_OTHER = Reason("other than the one that it must lie in")
_HERE = Reason("where it lies already")
_UNFIT = pool_choice.unfit("volume")
_UNSHARED = Reason(
    "whose volumes one server alone can have", "Ask for a volume type without multiattach."
)
_UNREACHED = Reason(
    "not reached by the server's host", "An administrator can let that host reach them."
)
_NOT_APART = Reason(
    "where one host has, or may have, the storage of both",
    "Another pool of the volume's host may do, or a host that does not have its storage.",
)
_ONE = Reason("in the directory or share that the volume is in")
_ZONE = pool_choice.other_zone("volume")
_ROOM = pool_choice.without_room("volume")


def find(tx: Session, wanted: Wanted, settings: VolumeSettings, now: datetime) -> Choice[Room]:
    """Choose the pool with the most room among those that suit; nobody gives it away meanwhile."""
    rooms = backends.find_rooms(tx, settings, hold=True)
    seen = apart.of_rows([room.row for room in rooms], down_s=settings.pool_down_s)

    def find_reason(room: Room) -> Reason | None:
        return (
            _of_place(room.row, wanted)
            or _of_state(room.row, settings, now)
            or _of_storage(room.row, wanted, seen)
            or _of_type(room, wanted, settings)
            or (_ROOM if room.left_gib < wanted.size_gib else None)
        )

    return pool_choice.choose(rooms, find_reason)


def choose(tx: Session, wanted: Wanted, settings: VolumeSettings, now: datetime) -> BackendRow:
    """Return the pool with the most room among those that suit.

    Raises NoCapacity, which counts the pools by what speaks against them.
    """
    choice = find(tx, wanted, settings, now)
    if choice.best is None:
        raise NoCapacity(
            f"No storage pool can take a volume of {wanted.size_gib} GiB. {choice.explain()}"
        )
    return choice.best.row


def find_lacks(tx: Session, name: str, wanted: Wanted, settings: VolumeSettings) -> list[str]:
    """Return what a pool lacks of what a type's volumes want, whatever room there is in it.

    Each as the type's extra spec says it, `thin_provisioning_support=<is> True`.
    """
    [room] = [room for room in backends.find_rooms(tx, settings) if room.row.name == name]
    unshared = wanted.multiattach and not room.row.multiattach
    return (["multiattach=<is> True"] if unshared else []) + _find_unmet(room, wanted, settings)


def _of_place(row: BackendRow, wanted: Wanted) -> Reason | None:
    return pool_choice.first(
        (
            (wanted.pool not in {"", row.name}, _OTHER),
            (row.name == wanted.comes_from, _HERE),
            (row.zone != wanted.zone, _ZONE),
        )
    )


def _of_state(row: BackendRow, settings: VolumeSettings, now: datetime) -> Reason | None:
    is_silent = now - row.seen_at > timedelta(seconds=settings.pool_down_s)
    return pool_choice.first(
        (
            (row.disabled, pool_choice.DISABLED),
            (is_silent, pool_choice.SILENT),
            (bool(row.problem), pool_choice.BROKEN),
        )
    )


def _of_storage(row: BackendRow, wanted: Wanted, seen: apart.Seen) -> Reason | None:
    """Return whether it is storage that a server, or a volume that comes, could have there."""
    if wanted.reached_by and row.hosts is not None and wanted.reached_by not in row.hosts:
        return _UNREACHED
    if not wanted.comes_from:
        return None
    if not seen.are_apart(wanted.comes_from, row.name):
        return _NOT_APART
    # The guest of one in use has the copy under the volume's own name from the start.
    is_one = bool(wanted.reached_by) and seen.are_one(wanted.comes_from, row.name)
    return _ONE if is_one else None


def _of_type(room: Room, wanted: Wanted, settings: VolumeSettings) -> Reason | None:
    if wanted.multiattach and not room.row.multiattach:
        return _UNSHARED
    return _UNFIT if _find_unmet(room, wanted, settings) else None


def _find_unmet(room: Room, wanted: Wanted, settings: VolumeSettings) -> list[str]:
    has = backends.capabilities(room, settings, room.row.seen_at)
    return find_unmet(has, wanted.extra_specs)
