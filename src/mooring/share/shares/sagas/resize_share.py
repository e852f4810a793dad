"""Make a share larger or smaller, while its clients use it.

A growth is reserved in the quota, and the share has its new size when the storage has. Once storage
was asked there is no way back: what it has then decides. A share is never made smaller than what is
in it: the storage refuses that, and nothing has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring import limits
from mooring.agent_api.shares import IN_USE_SPACE
from mooring.errors import MooringError, NoCapacity
from mooring.saga.define import Run, Saga, Step, exclusive
from mooring.share.quotas import quota
from mooring.share.services import pools
from mooring.share.shares import statuses
from mooring.share.shares.story import Message, tell
from mooring.share.tables import ShareRow

if TYPE_CHECKING:
    from mooring.share.service import Share

Way = Literal["extend", "shrink"]
_AT_WORK = ("extending", "shrinking")


class ResizeShare(Struct, frozen=True, kw_only=True):
    """The notes. Sizes in GiB; `pool` is where the share lies."""

    share_id: str
    way: Way
    old_gib: int
    new_gib: int
    pool: str
    found_gib: int | None = None
    """In a bad end: how big the storage was found to have it; None when nobody could tell."""


async def check_room(notes: ResizeShare, run: Run[Share]) -> None:
    """See that the pool works and has room; the request was answered already."""
    delta, settings = notes.new_gib - notes.old_gib, run.service.settings
    if delta > 0:
        growth = pools.Growth(notes.share_id, notes.pool, delta)
        await run.service.store.read(lambda tx: pools.check_growth(tx, growth, settings, run.now()))


def give_back(tx: Session, notes: ResizeShare, run: Run[Share]) -> None:
    """Give the share its former status and the project its quota back."""
    quota.settle(tx, notes.share_id)
    statuses.change(tx, notes.share_id, allowed=_AT_WORK, now=run.now(), status="available")


async def ask_storage(notes: ResizeShare, run: Run[Share]) -> None:
    """Have the storage make it so big."""
    agent = await pools.agent_of(run, notes.pool)
    pool = pools.split(notes.pool)[2]
    await agent.resize_share(notes.share_id, pool, notes.new_gib, operation=run.operation)


def finish(tx: Session, notes: ResizeShare, run: Run[Share]) -> None:
    """Give the share its new size and its status; what was reserved is used up."""
    _settle(tx, notes, run, notes.new_gib, "available")


async def look_at_storage(notes: ResizeShare, run: Run[Share]) -> ResizeShare | None:
    """Ask the storage how big the share is now, when it will not change any more."""
    try:
        found = await _find_size(notes, run)
    except MooringError:
        if run.attempt >= limits.VOLUME_LOOK_ATTEMPTS:
            return None
        raise
    return replace(notes, found_gib=found)


async def _find_size(notes: ResizeShare, run: Run[Share]) -> int | None:
    agent = await pools.agent_of(run, notes.pool)
    asked = run.operation.of_step("ask_storage")
    await agent.forget_share_size(notes.share_id, pools.split(notes.pool)[2], operation=asked)
    found = await agent.show_share(notes.share_id)
    return None if found is None else found.size_gb


def show_outcome(tx: Session, notes: ResizeShare, run: Run[Share]) -> None:
    """Show how it ended, by what the storage has: a share that has its new size is available.

    One that the storage would not make smaller because of what is in it is as it was. Any other has
    `extending_error` or `shrinking_error`, and its old size unless another one was found.
    """
    found = notes.old_gib if notes.found_gib is None else notes.found_gib
    is_kept = found == notes.old_gib and _is_in_use(run.error)
    is_well = found == notes.new_gib or is_kept
    _settle(tx, notes, run, found, "available" if is_well else f"{_noun(notes.way)}_error")


def _settle(tx: Session, notes: ResizeShare, run: Run[Share], size_gib: int, status: str) -> None:
    quota.settle(tx, notes.share_id)
    now = run.now()
    statuses.change(tx, notes.share_id, allowed=_AT_WORK, now=now, status=status)
    statuses.change(tx, notes.share_id, allowed=None, now=now, size_gib=size_gib)


def _noun(way: Way) -> str:
    return "extending" if way == "extend" else "shrinking"


def _is_in_use(error: MooringError | None) -> bool:
    return error is not None and error.detail.get("code") == IN_USE_SPACE


def _explain(row: ShareRow, notes: ResizeShare, run: Run[Share]) -> Message | None:
    if row.status == "deleting" or row.size_gib == notes.new_gib:
        return None
    if isinstance(run.error, NoCapacity):
        return notes.way, "no_pool"
    if notes.way == "extend":
        return "extend", "extend"
    return ("shrink", "refused_shrink") if _is_in_use(run.error) else ("shrink", "shrink")


def _define(way: Way) -> Saga[ResizeShare]:
    return Saga(
        f"share.{way}_share",
        ResizeShare,
        Step("check_room", check_room, undo=give_back),
        Step("ask_storage", ask_storage, deadline_s=900.0),
        Step("finish", finish),
        locks=lambda notes: (exclusive(f"share:{notes.share_id}"),),
        mode="wait",
        visible_after="finish",
        pivot="ask_storage",
        failed_end=[
            Step("look_at_storage", look_at_storage, may_be_forgone=True),
            Step("show_outcome", show_outcome),
        ],
        residue=("messages",),
        story=tell(begun=f"{way}.start", ended=f"{way}.end", explain=_explain),
    )


EXTEND_SHARE = _define("extend")
SHRINK_SHARE = _define("shrink")
