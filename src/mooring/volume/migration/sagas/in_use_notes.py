"""What the migration of a volume in use knows between two steps."""

from __future__ import annotations

from msgspec import Struct

from mooring.volume.migration.copies import Move


class MigrateInUse(Struct, frozen=True, kw_only=True):
    """The notes. `shown` is the status meanwhile; empty where it stays `in-use`."""

    volume_id: str
    server_id: str
    move: Move
    size_gib: int
    shown: str = ""
    type_id: str = ""
    """The type that it is to have; empty where that stays as it is."""
    switched: bool = False
    """Whether the guest has the copy, which is the volume by now."""
