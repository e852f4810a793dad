"""Where the blocking work of one pool's driver is done, and what its storage's failures mean."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from mooring.agent.limits import AGENT_POOL_ANSWER_S, AGENT_POOL_THREADS
from mooring.agent.storage_failures import as_told
from mooring.errors import Unavailable
from mooring.fence.threads import run_to_end

T = TypeVar("T")


class PoolThreads:
    """The threads of one pool, which no other pool and nothing else of the host waits for.

    In a hard mount whose server is gone a thread stays in the kernel until that is back.
    """

    def __init__(self, pool: str) -> None:
        self._pool = pool
        self._executor = self._make()
        self._begun: dict[object, float] = {}
        """When each call was begun that has not ended."""

    async def run(self, fn: Callable[[], T]) -> T:
        """Run `fn` as `run_to_end` does. Raises Unavailable, NoCapacity: as `failure_told` has.

        Also Unavailable, at once, while all threads hang.
        """
        self._refuse_hanging()
        call = object()

        def work() -> T:
            self._begun[call] = time.monotonic()
            try:
                return fn()
            finally:
                del self._begun[call]

        with failure_told(self._pool):
            return await run_to_end(work, self._executor)

    def close(self) -> None:
        """Let threads end that have nothing to do. A pool may be opened again."""
        self._executor.shutdown(wait=False)
        self._executor = self._make()

    def _make(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(AGENT_POOL_THREADS, f"pool-{self._pool}")

    def _refuse_hanging(self) -> None:
        late = time.monotonic() - AGENT_POOL_ANSWER_S
        hanging = [begun for begun in list(self._begun.values()) if begun < late]
        if len(hanging) >= AGENT_POOL_THREADS:
            raise silent(self._pool)

    async def prepare(self, fn: Callable[[], T], directory: Path) -> T:
        """Run what makes a pool's directory ready. Raises Unavailable."""
        try:
            return await run_to_end(fn, self._executor)
        except OSError as error:
            raise Unavailable(
                f"Pool {self._pool} cannot use {directory}: {error.strerror}. See to the directory "
                "and start the agent again.",
                private=str(error),
            ) from error


def silent(pool: str) -> Unavailable:
    """Return what a call is told that was not begun, since those before it hang."""
    return Unavailable(
        f"The storage of pool {pool} does not answer. Nothing was begun; see to its server and the "
        "network between, and ask again."
    )


@contextmanager
def failure_told(pool: str) -> Generator[None]:
    """Turn a failure of a pool's storage into Unavailable, a full disk into NoCapacity."""
    try:
        yield
    except OSError as error:
        raise as_told(
            error,
            full=f"The storage of pool {pool} is full. Make room and ask again.",
            failed=(
                f"The storage of pool {pool} failed, and what was asked for may be done in part. "
                "It is asked again; see to the storage if that goes on."
            ),
        ) from error
