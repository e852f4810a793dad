"""Captures: a disk as it was at one moment, as one file that stands alone."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

DiskFormat = Literal["raw", "qcow2"]
"""What a capture may be, as the image service calls it."""
CAPTURE_FORMAT: DiskFormat = "qcow2"
"""What every capture of a root disk is."""


class CaptureRequest(Struct, frozen=True):
    """Body of `PUT /volumes/{volume_id}/captures/{image_id}`: what it is to be.

    With a `snapshot_id` the volume is captured as it was then, whoever has it now.
    """

    disk_format: DiskFormat
    snapshot_id: str = ""


class Capture(Struct, frozen=True, kw_only=True):
    """A capture that is made, or being made: then it has so many bytes by now, and no digest."""

    image_id: str
    size_bytes: int
    sha256: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether it may be read."""
        return bool(self.sha256)
