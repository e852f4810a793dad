"""What becomes of a saga, for those who wait for it in the process that advances it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.saga.journal import Bookmark


class Watch:
    """What somebody who waits for a saga has not seen yet of it."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self._mark: Bookmark | None = None

    def show(self, mark: Bookmark) -> None:
        """Show a bookmark as it was saved."""
        self._mark = mark
        self.changed.set()

    def take(self) -> Bookmark | None:
        """Return the bookmark shown last; None when there was none since the last look."""
        mark, self._mark = self._mark, None
        self.changed.clear()
        return mark
