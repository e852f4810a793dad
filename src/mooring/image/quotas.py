"""How many images a project has, and how large: Glance's limits of the same names.

A project may have what its limit at identity says, or else what is registered there, or else what
the settings say for every project. Identity is asked before the transaction that counts and writes.
Source: facts/identity_image_placement.md 4.2 and 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import func, select

from mooring.clients.unified_limits import ANY
from mooring.errors import OverQuota
from mooring.image.tables import ImageRow
from mooring.store.turns import take_turn

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.image.service import Image

_MIB = 1 << 20


class Quota(Struct, frozen=True, kw_only=True):
    """What the images of one project (`owner`) may be at most; None: any number or amount."""

    owner: str | None
    count_total: int | None
    total_bytes: int | None
    count_uploading: int | None


class Used(Struct, frozen=True):
    """What a project has of something, and what it may have: -1 for any."""

    usage: int
    limit: int


async def find(service: Image, owner: str | None) -> Quota:
    """Return what a project may have now. Raises Unavailable when identity does not tell."""
    limits, settings = await service.limits.find(owner or ""), service.settings
    size = limits.get("image_size_total")
    if size is not None and size != ANY:
        size *= _MIB
    return Quota(
        owner=owner,
        count_total=_most(limits.get("image_count_total"), settings.count_total),
        total_bytes=_most(size, settings.total_bytes),
        count_uploading=_most(limits.get("image_count_uploading"), settings.count_uploading),
    )


def _most(limit: int | None, setting: int) -> int | None:
    """Return what holds: a limit, where there is one, of which 0 is none; else the setting."""
    if limit is None:
        return setting or None
    return None if limit == ANY else limit


def check_count(tx: Session, quota: Quota) -> None:
    """Raise OverQuota when a project has as many images as it may have."""
    if quota.count_total is None:
        return
    take_turn(tx, f"images.{quota.owner}")
    has = tx.scalar(select(func.count()).where(ImageRow.owner == quota.owner)) or 0
    if has >= quota.count_total:
        raise OverQuota(
            f"Project {quota.owner} is over a limit for image_count_total: it has {has} images, "
            f"and may have {quota.count_total}. Nothing was made; delete images first."
        )


def room_bytes(tx: Session, quota: Quota) -> int | None:
    """Return how much more data a project's images may have, None for any amount."""
    if quota.total_bytes is None:
        return None
    take_turn(tx, f"images.{quota.owner}")
    size = func.coalesce(func.sum(ImageRow.size_bytes), 0)
    has = tx.scalar(select(size).where(ImageRow.owner == quota.owner))
    return max(0, quota.total_bytes - int(has or 0))


def check_uploading(tx: Session, quota: Quota) -> None:
    """Raise OverQuota when a project has more uploads under way than it may, the new one too."""
    if quota.count_uploading is None:
        return
    take_turn(tx, f"images.{quota.owner}")
    if _uploading(tx, quota.owner) > quota.count_uploading:
        raise OverQuota(
            f"Project {quota.owner} is over a limit for image_count_uploading: it may have "
            f"{quota.count_uploading} uploads at a time. The image is queued again; upload it "
            "when another upload has ended."
        )


def find_usage(tx: Session, quota: Quota) -> dict[str, Used]:
    """Return what a project has and may have, under the names of Glance's limits.

    Sizes in MiB. Nothing is staged here, and nothing can
    be. Source: facts/identity_image_placement.md 6 and 8.3.
    """
    query = select(func.count(), func.coalesce(func.sum(ImageRow.size_bytes), 0))
    count, size_bytes = tx.execute(query.where(ImageRow.owner == quota.owner)).one()
    total = quota.total_bytes
    return {
        "image_size_total": Used(
            -(-int(size_bytes or 0) // _MIB), _shown(None if total is None else total // _MIB)
        ),
        "image_stage_total": Used(0, 0),
        "image_count_total": Used(count, _shown(quota.count_total)),
        "image_count_uploading": Used(_uploading(tx, quota.owner), _shown(quota.count_uploading)),
    }


def _shown(most: int | None) -> int:
    """Return a bound as unified limits write it: -1 for none."""
    return ANY if most is None else most


def _uploading(tx: Session, owner: str | None) -> int:
    query = select(func.count()).where(ImageRow.owner == owner, ImageRow.status == "saving")
    return tx.scalar(query) or 0


def over(quota: Quota) -> OverQuota:
    """Return the error for data that a project may not have."""
    return OverQuota(
        f"Project {quota.owner} is over a limit for image_size_total: its images may have "
        f"{(quota.total_bytes or 0) // _MIB} MiB in all. The image is queued again; delete "
        "images first."
    )
