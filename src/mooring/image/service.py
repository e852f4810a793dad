"""The image service: what it owns. It asks identity alone, for what projects may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring import limits
from mooring.probe import NoProbe

if TYPE_CHECKING:
    from pathlib import Path

    from mooring.clients.unified_limits import UnifiedLimits
    from mooring.clock import Clock
    from mooring.probe import Probe
    from mooring.store.base import Store


class ImageSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operator may choose."""

    size_bytes: int = limits.IMAGE_BYTES
    """The largest image that may be uploaded."""
    count_total: int = 0
    """Most images of a project where no limit says otherwise, as of the next two; 0: any."""
    total_bytes: int = 0
    """Most data of a project's images in all; 0: any."""
    count_uploading: int = 0
    """Most uploads of a project at a time; 0: any."""
    reserve_bytes: int = 0
    """How much of the file system uploads leave free: databases may be on it."""


class Image:
    """Everything that the rules of the image service work with.

    `directory` holds the data; processes that share a database share it too. `owner` names this
    process among them. `uploads` are the ids of the uploads that this process is receiving now.
    """

    def __init__(
        self,
        *,
        store: Store,
        directory: Path,
        clock: Clock,
        owner: str,
        limits: UnifiedLimits,
        probe: Probe | None = None,
        settings: ImageSettings | None = None,
    ) -> None:
        self.store, self.directory, self.clock, self.owner = store, directory, clock, owner
        self.limits = limits
        self.probe: Probe = probe or NoProbe()
        self.settings = settings or ImageSettings()
        self.uploads: set[str] = set()
