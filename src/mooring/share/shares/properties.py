"""What a client may change of a share without touching its storage.

Policy is checked by the route. Errors: NotFound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from msgspec import UNSET, Struct, UnsetType
from sqlalchemy.orm import Session

from mooring import labels
from mooring.errors import Invalid
from mooring.share.shares import share_rows
from mooring.share.tables import ShareRow

if TYPE_CHECKING:
    from mooring.share.service import Asked

T = TypeVar("T")


class Changes(Struct, frozen=True, kw_only=True):
    """What PUT /shares/{id} may change."""

    name: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    is_public: bool | UnsetType = UNSET


async def update(asked: Asked, share_id: str, changes: Changes) -> None:
    """Change name, description, or who may see it."""

    def change(row: ShareRow) -> None:
        if changes.name is not UNSET:
            row.name = changes.name
        if changes.description is not UNSET:
            row.description = changes.description
        if changes.is_public is not UNSET:
            row.is_public = changes.is_public

    await _change(asked, share_id, change)


async def set_metadata(
    asked: Asked, share_id: str, items: Mapping[str, str], *, whole: bool
) -> dict[str, str]:
    """Merge metadata into a share's, or put it in its place; return what it has now."""

    def change(row: ShareRow) -> dict[str, str]:
        row.labels = labels.merge(row.labels, items, whole=whole)
        return row.labels

    return await _change(asked, share_id, change)


async def delete_metadata(asked: Asked, share_id: str, key: str) -> None:
    """Remove one item. Raises NotFound when there is none."""

    def change(row: ShareRow) -> None:
        row.labels = labels.without(row.labels, key, f"Share {share_id}")

    await _change(asked, share_id, change)


async def reset_task_state(asked: Asked, share_id: str, state: str | None) -> None:
    """Forget the state of a migration between pools, of which there is none. Raises Invalid."""

    def change(row: ShareRow) -> None:
        if state is not None:
            raise Invalid(
                f"Invalid input received: The task state {state[:64]} belongs to migrations "
                f"between pools, which are not built here. Share {row.id} was not changed; only "
                "null can be set.",
            )

    await _change(asked, share_id, change)


async def _change(asked: Asked, share_id: str, change: Callable[[ShareRow], T]) -> T:
    def apply(tx: Session) -> T:
        row = share_rows.visible_to_change(tx, asked.who, share_id)
        answer = change(row)
        row.updated_at = asked.share.clock.now()
        return answer

    return await asked.share.store.write(apply)
