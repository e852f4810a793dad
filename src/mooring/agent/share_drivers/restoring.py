"""Shares that are given away again after a start, beside all else that a host does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import structlog

from mooring.agent.limits import AGENT_SHARE_RETRY_S
from mooring.errors import MooringError

log = structlog.get_logger()
_BEGUN = "It is given away again after its host's start. Wait a moment."


class Restoring:
    """The shares of one pool that are still to be restored, each tried until it is.

    `check` raises Unavailable while the server that gives them away does not answer: then none is
    tried, as each would keep its callers waiting for as long.
    """

    def __init__(
        self,
        pool: str,
        check: Callable[[], Awaitable[None]],
        restore: Callable[[str], Awaitable[None]],
    ) -> None:
        self._pool, self._check, self._restore = pool, check, restore
        self._left: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None

    async def begin(self, share_ids: Iterable[str]) -> None:
        """Begin with these, and with no others any more."""
        await self.end()
        self._left = dict.fromkeys(share_ids, _BEGUN)
        if self._left:
            self._task = asyncio.create_task(self._work())
            self._task.add_done_callback(_tell_end)

    async def end(self) -> None:
        """Leave off; the next start begins with all."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def is_left(self, share_id: str) -> bool:
        """Return whether a share is still to be restored."""
        return share_id in self._left

    def problem(self, share_id: str) -> str:
        """Return why a share is not restored yet, "" when it is."""
        return self._left.get(share_id, "")

    def settle(self, share_id: str) -> None:
        """Note that a share is given away, or is to be no more."""
        self._left.pop(share_id, None)

    async def _work(self) -> None:
        while self._left:
            await self._try_all()
            if self._left:
                await asyncio.sleep(AGENT_SHARE_RETRY_S)
        log.info("all shares are given away", pool=self._pool)

    async def _try_all(self) -> None:
        if not await self._is_answered():
            return
        for share_id in list(self._left):
            try:
                await self._restore(share_id)
            except MooringError as error:
                self._note(share_id, error)
                # Its server may have stopped to answer, which would be waited for once for each.
                if not await self._is_answered():
                    return
            else:
                self.settle(share_id)

    async def _is_answered(self) -> bool:
        try:
            await self._check()
        except MooringError as error:
            for share_id in self._left:
                self._note(share_id, error)
            return False
        return True

    def _note(self, share_id: str, error: MooringError) -> None:
        """Keep why a share is not given away, and log it when that is news."""
        if self._left.get(share_id, error.public) != error.public:
            self._left[share_id] = error.public
            about = {"pool": self._pool, "share": share_id}
            log.warning("a share is not given away", **about, reason=str(error))


def _tell_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("shares are not given away again", exc_info=error)
