"""One call of the driver nfs in a process of its own, which ends itself at one of its programs.

Argument: JSON with directory, bus, address, verb, arguments, at (which program, from 0), and when:
before it, while it runs, or after it. Ends with 0 when the call comes to its end before.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from mooring.agent.run import Budget, Notes, Output, Runner
from mooring.agent.settings import SharePoolSettings
from mooring.agent.share_drivers.base import Grant
from mooring.agent.share_drivers.nfs import NfsShares
from mooring.agent.share_drivers.options import NfsShareOptions
from mooring.agent_api.shares import ShareSnapshotName
from mooring.fence.journal import Journal, Process
from tests.agent.places import place

When = Literal["before", "during", "after"]


class Orders(Struct):
    """What the process is to do, and where it ends."""

    directory: str
    bus: str
    address: str
    verb: str
    arguments: list[Any]
    at: int
    when: When


class KillingRunner(Runner):
    """Ends its own process at one of the programs that it runs."""

    def __init__(self, notes: Notes, orders: Orders) -> None:
        super().__init__(_Noting(notes, self), str(Path(orders.directory).parent))
        self._orders = orders
        self._count = -1

    async def run(
        self, argv: Sequence[str], budget: Budget | None = None, *, operation_key: str = ""
    ) -> Output:
        """Run a program, or not."""
        self._count += 1
        self.pass_by("before")
        output = await super().run(argv, budget, operation_key=operation_key)
        self.pass_by("after")
        return output

    def pass_by(self, when: When) -> None:
        """End here if this is the place."""
        if (self._count, when) == (self._orders.at, self._orders.when):
            os.kill(os.getpid(), signal.SIGKILL)


class _Noting:
    """Notes programs, which is done while they run."""

    def __init__(self, notes: Notes, runner: KillingRunner) -> None:
        self._notes, self._runner = notes, runner

    async def note_process(self, pid: int, start_time: float, operation_key: str) -> None:
        await self._notes.note_process(pid, start_time, operation_key)
        self._runner.pass_by("during")

    async def forget_process(self, pid: int) -> None:
        await self._notes.forget_process(pid)

    async def processes(self) -> list[Process]:
        return await self._notes.processes()


async def act(driver: NfsShares, verb: str, arguments: Sequence[Any]) -> None:
    """Call one method of a driver, its arguments as JSON has them."""
    given = list(arguments)
    if verb == "create" and given[2] is not None:
        given[2] = msgspec.convert(given[2], ShareSnapshotName)
    if verb == "grant":
        given[1] = msgspec.convert(given[1], Grant)
    await getattr(driver, verb)(*given)


async def _main(orders: Orders) -> None:
    directory = Path(orders.directory)
    journal = Journal(directory.parent / "killed.sqlite")
    options = NfsShareOptions(address=orders.address, bus=orders.bus)
    pool = SharePoolSettings(driver="nfs", nfs=options)
    driver = NfsShares(pool, options, place(directory), KillingRunner(journal, orders))
    await act(driver, orders.verb, orders.arguments)
    await journal.close()


if __name__ == "__main__":
    asyncio.run(_main(msgspec.json.decode(sys.argv[1], type=Orders)))
