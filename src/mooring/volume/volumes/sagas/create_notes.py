"""What the making of a volume knows between two steps."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from mooring.agent_api.images import ImageSpec
from mooring.agent_api.volumes import SnapshotName


class CreateVolume(Struct, frozen=True, kw_only=True):
    """The notes. `image` is what fills the volume, and `image_metadata` what it shows of it."""

    volume_id: str
    size_gib: int
    image_id: str = ""
    image: ImageSpec | None = None
    image_metadata: dict[str, str] = {}
    snapshot: SnapshotName | None = None
    """What fills it instead of an image; then `backend` is where that lies."""
    source_volume: str = ""
    """The same: a volume that nobody has, nor gets while it is copied."""
    asker: str = ""
    """The operation of another service that waits for the volume, if one does."""
    reached_by: str = ""
    """The host that must reach its pool, of the server that it is made for; empty is any."""
    backend: str = ""
    host: str = ""
    pool: str = ""
    format: Literal["", "raw"] = ""
    """The one that its file must have; empty takes the pool's own."""
