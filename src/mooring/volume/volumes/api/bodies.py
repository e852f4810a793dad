"""Bodies that volumes and snapshots take alike."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from mooring.volume.wire.api.values import Name


class NamesBody(Struct, frozen=True):
    """What PUT changes, under the names of old and new clients."""

    name: Name | UnsetType | None = UNSET
    description: Name | UnsetType | None = UNSET
    display_name: Name | UnsetType | None = UNSET
    display_description: Name | UnsetType | None = UNSET
