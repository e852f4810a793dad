"""How many images a project has, and how large: Glance's limits of the same names.

Source: facts/identity_image_placement.md 6. A setting holds for every project.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import func, select

from mooring.errors import OverQuota
from mooring.image.tables import ImageRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.image.service import ImageSettings

_MIB = 1 << 20


class Used(Struct, frozen=True):
    """What a project has of something, and what it may have: -1 for any."""

    usage: int
    limit: int


def check_count(tx: Session, settings: ImageSettings, owner: str | None) -> None:
    """Raise OverQuota when a project has as many images as it may have."""
    if not settings.count_total:
        return
    _take_turn(tx, owner)
    has = tx.scalar(select(func.count()).where(ImageRow.owner == owner)) or 0
    if has >= settings.count_total:
        raise OverQuota(
            f"Project {owner} is over a limit for image_count_total: it has {has} images, and may "
            f"have {settings.count_total}. Nothing was made; delete images first."
        )


def room_bytes(tx: Session, settings: ImageSettings, owner: str | None) -> int | None:
    """Return how much more data a project's images may have, None for any amount."""
    if not settings.total_bytes:
        return None
    _take_turn(tx, owner)
    query = select(func.coalesce(func.sum(ImageRow.size_bytes), 0)).where(ImageRow.owner == owner)
    return max(0, settings.total_bytes - int(tx.scalar(query) or 0))


def check_uploading(tx: Session, settings: ImageSettings, owner: str | None) -> None:
    """Raise OverQuota when a project has more uploads under way than it may, the new one too."""
    if not settings.count_uploading:
        return
    _take_turn(tx, owner)
    if _uploading(tx, owner) > settings.count_uploading:
        raise OverQuota(
            f"Project {owner} is over a limit for image_count_uploading: it may have "
            f"{settings.count_uploading} uploads at a time. The image is queued again; upload it "
            "when another upload has ended."
        )


def find_usage(tx: Session, settings: ImageSettings, owner: str) -> dict[str, Used]:
    """Return what a project has and may have, under the names of Glance's limits.

    Sizes in MiB. Nothing is staged here, and nothing can
    be. Source: facts/identity_image_placement.md 6 and 8.3.
    """
    query = select(func.count(), func.coalesce(func.sum(ImageRow.size_bytes), 0))
    count, size_bytes = tx.execute(query.where(ImageRow.owner == owner)).one()
    return {
        "image_size_total": Used(
            -(-int(size_bytes or 0) // _MIB), _shown(settings.total_bytes // _MIB)
        ),
        "image_stage_total": Used(0, 0),
        "image_count_total": Used(count, _shown(settings.count_total)),
        "image_count_uploading": Used(_uploading(tx, owner), _shown(settings.count_uploading)),
    }


def _shown(limit: int) -> int:
    """Return a limit as unified limits write it: -1 for any."""
    return limit or -1


def _uploading(tx: Session, owner: str | None) -> int:
    query = select(func.count()).where(ImageRow.owner == owner, ImageRow.status == "saving")
    return tx.scalar(query) or 0


def _take_turn(tx: Session, owner: str | None) -> None:
    """Let nobody else count the same project's images until the end of the transaction.

    SQLite has one writer anyway.
    """
    if tx.get_bind().dialect.name == "postgresql":
        key = zlib.crc32(f"mooring.images.{owner}".encode())
        tx.execute(select(func.pg_advisory_xact_lock(key)))


def over(settings: ImageSettings, owner: str | None) -> OverQuota:
    """Return the error for data that a project may not have."""
    return OverQuota(
        f"Project {owner} is over a limit for image_size_total: its images may have "
        f"{settings.total_bytes // _MIB} MiB in all. The image is queued again; delete "
        "images first."
    )
