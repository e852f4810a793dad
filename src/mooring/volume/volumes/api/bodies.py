"""Bodies that volumes and snapshots take alike: names, and metadata whole or one item at a time."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from mooring.errors import Invalid
from mooring.volume.wire.api.values import Metadata, Name


class NamesBody(Struct, frozen=True):
    """What PUT changes, under the names of old and new clients."""

    name: Name | UnsetType | None = UNSET
    description: Name | UnsetType | None = UNSET
    display_name: Name | UnsetType | None = UNSET
    display_description: Name | UnsetType | None = UNSET


def require_only(meta: Metadata, key: str) -> None:
    """Raise Invalid unless the body of one item has the URL's key alone."""
    if list(meta) != [key]:
        raise Invalid("Invalid input received: The body must have the key of the URL and no other.")
