"""Captures: the root disk of a guest as it was at one moment, as one file that stands alone."""

from __future__ import annotations

from msgspec import Struct

CAPTURE_FORMAT = "qcow2"
"""What every capture is, as the image service calls it."""


class Capture(Struct, frozen=True, kw_only=True):
    """A capture that is made, or being made: then it has so many bytes by now, and no digest."""

    image_id: str
    size_bytes: int
    sha256: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether it may be read."""
        return bool(self.sha256)
