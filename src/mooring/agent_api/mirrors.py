"""Mirrors: a volume of a running guest that is copied to another, which is to take its place."""

from __future__ import annotations

from msgspec import Struct

SWITCHED = "switched"
"""In the detail of an error: the guest writes to the new volume already."""


class Mirroring(Struct, frozen=True, kw_only=True):
    """How far a copy is. In step, the new volume gets whatever the guest writes at once."""

    copied_bytes: int
    size_bytes: int
    in_step: bool

    @property
    def percent(self) -> int:
        """Return how much of it is copied."""
        return min(100, self.copied_bytes * 100 // max(1, self.size_bytes))


class SwitchRequest(Struct, frozen=True, kw_only=True):
    """Body of `PUT /servers/{server_id}/disks/{volume_id}/mirror/switch`: the new volume."""

    volume_id: str
    attachment_id: str
