"""What a migration knows between two steps."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from mooring.volume.migration.copies import Move


class MigrateVolume(Struct, frozen=True, kw_only=True):
    """The notes. `shown` is the status meanwhile; empty where it stays `available`."""

    volume_id: str
    move: Move
    size_gib: int
    shown: str = ""
    type_id: str = ""
    """The type that it is to have; empty where that stays as it is."""
    former_type_id: str = ""
    former_multiattach: bool = False
    format: Literal["", "raw"] = ""
    """The one that the copy's file must have; empty takes the pool's own."""
    switched: bool = False
    """Whether the volume is the copy by now."""
