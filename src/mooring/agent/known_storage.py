"""Which storage a pool's directory is, as its host has kept it beside its own state.

A directory whose file system is not mounted, or another one, looks like an empty pool: deletions
would leave the data, and what is made would come to the wrong disk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import structlog
from msgspec import Struct

from mooring.agent import files, identities
from mooring.agent.identities import RECORDS
from mooring.agent.limits import AGENT_POOL_ANSWER_S
from mooring.agent.pool_threads import PoolThreads, silent
from mooring.errors import Unavailable

log = structlog.get_logger()
T = TypeVar("T")


class PoolPlace(Struct, frozen=True):
    """The directory of a host's pool, and the file in which the host keeps which storage it is."""

    path: Path
    host: str
    known: Path


class OtherStorage(Unavailable):
    """A pool's directory is not the storage that its host knows. Nothing was read or changed."""


class KnownStorage:
    """A pool's directory, used only while it is the storage that its host first used.

    Its file system may be mounted late, or go: what was the pool once is used again once it is
    back, and nothing else in its place. `prepare` makes the pool ready, before its first use.
    """

    def __init__(
        self,
        pool: str,
        place: PoolPlace,
        threads: PoolThreads,
        prepare: Callable[[], Awaitable[None]],
    ) -> None:
        self._pool, self._place, self._threads, self._prepare = pool, place, threads, prepare
        self._records = place.path / RECORDS
        self._word = ""
        """The identity that it had; empty: it is not known yet."""
        self._preparing, self._is_late = asyncio.Lock(), False
        """Late is what its setup has not found in its place."""
        self._begun = 0.0
        """When making it ready was begun, by the monotonic clock in seconds."""

    async def setup(self) -> None:
        """Make the pool ready if its storage is there. Raises Unavailable: it cannot be used."""
        self._is_late = True
        # An operator may have removed what this host knew, to replace the storage on purpose.
        await self._threads.prepare(self._recall, self._place.path)
        try:
            await self._make_ready()
        except OtherStorage as error:
            # The host's other pools and its guests have no part in it: each use looks again.
            log.warning("a pool cannot be used yet", pool=self._pool, reason=str(error))

    async def require(self) -> None:
        """Raise OtherStorage where the pool is not what it was. Makes nothing."""
        await self._threads.run(self._require)

    async def run(self, fn: Callable[[], T]) -> T:
        """Do a piece of blocking work where the pool is what it was.

        Raises Unavailable, OtherStorage, NoCapacity. While its storage hangs in what makes it
        ready, others wait no longer than for a pool that does not answer.
        """
        await self._make_ready()

        def work() -> T:
            self._require()
            return fn()

        return await self._threads.run(work)

    async def _make_ready(self) -> None:
        if not self._is_late:
            return
        await self._take_turn()
        try:
            if self._is_late:
                self._begun = time.monotonic()
                await self.require()
                await self._prepare()
                await self._threads.run(self._learn)
                self._is_late = False
        finally:
            self._preparing.release()

    async def _take_turn(self) -> None:
        left_s = AGENT_POOL_ANSWER_S
        if self._preparing.locked():
            left_s -= time.monotonic() - self._begun
        try:
            async with asyncio.timeout(left_s):
                await self._preparing.acquire()
        except TimeoutError:
            raise silent(self._pool) from None

    def _recall(self) -> None:
        try:
            self._word = self._place.known.read_text("utf-8")
        except FileNotFoundError:
            self._word = ""

    def _require(self) -> None:
        """Raise OtherStorage where the directory is not the known storage. Makes nothing.

        Nothing is wrong while none is known.
        """
        found = identities.find(self._records)
        if self._word in ("", found):
            return
        raise OtherStorage(
            f"Pool {self._pool} is not the storage that it was: its directory has "
            f"{'another identity' if found else 'no identity'}. Nothing was read or changed. Mount "
            "its file system there again, and it goes on by itself; where it was replaced on "
            f"purpose, remove {self._place.known.name} from the state directory of the host's "
            "agent, and start that again.",
            private=f"{self._records} has {found or 'none'}, and {self._place.known} says "
            f"{self._word}",
        )

    def _learn(self) -> None:
        """Remember the identity of a pool that had none known, if it has one."""
        identities.prepare(self._records, self._place.host)
        word = identities.read(self._records, self._place.host)
        if self._word or not word:
            return
        written = self._place.known.with_name(self._place.known.name + files.PARTIAL)
        written.write_text(word, "utf-8")
        files.finish(written, self._place.known)
        self._word = word
