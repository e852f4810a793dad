"""What keeps the tables of the image service from growing without end."""

from __future__ import annotations

from mooring.image.service import Image
from mooring.image.tables import (
    FormerImageRow,
    ImageRow,
    MemberRow,
    PropertyRow,
    TagRow,
    UploadRow,
)
from mooring.store.growth import Bound

BOUNDS: tuple[Bound[Image], ...] = (
    Bound(ImageRow, "gone with the image"),
    Bound(TagRow, "`IMAGE_TAGS` of an image"),
    Bound(PropertyRow, "`IMAGE_PROPERTIES` of an image"),
    Bound(MemberRow, "`IMAGE_MEMBERS` of an image"),
    Bound(UploadRow, "while the upload lasts; of a process that died for `IMAGE_LEASE_S`"),
    Bound(FormerImageRow, "for good, as an id never comes back (OSSN-0075): 40 bytes each"),
)
