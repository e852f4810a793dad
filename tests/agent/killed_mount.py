"""One mount or unmount of a share in a process of its own, which ends itself at one of its points.

Argument: a file with JSON of `Orders`. Points are what is done to the host: programs, before they
start, while they run and after they end, and notes of who needs a share, before and after. Ends
with 0 when the call comes to its end before.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from mooring.agent.run import Budget, Notes, Output, Runner
from mooring.agent.settings import AgentSettings, MountSettings
from mooring.agent.share_mounts.base import ShareMounter
from mooring.agent.share_mounts.cephfs import CephfsMounts
from mooring.agent.share_mounts.keeping import GuestShares
from mooring.agent.share_mounts.nfs import NfsMounts
from mooring.agent.share_mounts.users import ShareUse, ShareUsers
from mooring.agent.simulated import SimulatedHypervisor
from mooring.agent_api.guest_shares import MountRequest
from mooring.agent_api.shares import Protocol
from mooring.fence.journal import Journal, Process

TIMEOUT_S = 30.0


class Orders(Struct):
    """What the process is to do, and at which point it ends; -1: at none."""

    directory: str
    address: str
    server_id: str
    share_id: str
    request: MountRequest
    mounts: bool
    at: int


class Points:
    """Counts the points that are passed, and ends the process at one of them."""

    def __init__(self, at: int) -> None:
        self._left = at

    def pass_by(self) -> None:
        """End here if this is the place."""
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


class _Notes:
    """Notes programs, which is done while they run."""

    def __init__(self, notes: Notes, points: Points) -> None:
        self._notes, self._points = notes, points

    async def note_process(self, pid: int, start_time: float, operation_key: str) -> None:
        await self._notes.note_process(pid, start_time, operation_key)
        self._points.pass_by()

    async def forget_process(self, pid: int) -> None:
        await self._notes.forget_process(pid)

    async def processes(self) -> list[Process]:
        return await self._notes.processes()


class _Runner(Runner):
    def __init__(self, notes: Notes, mark: str, points: Points) -> None:
        super().__init__(_Notes(notes, points), mark)
        self._points = points

    async def run(
        self, argv: Sequence[str], budget: Budget | None = None, *, operation_key: str = ""
    ) -> Output:
        self._points.pass_by()
        output = await super().run(argv, budget, operation_key=operation_key)
        self._points.pass_by()
        return output


class _Users(ShareUsers):
    def __init__(self, directory: Path, points: Points) -> None:
        super().__init__(directory)
        self._points = points

    def note(self, use: ShareUse) -> None:
        self._points.pass_by()
        super().note(use)
        self._points.pass_by()

    def strike(self, use: ShareUse) -> None:
        self._points.pass_by()
        super().strike(use)
        self._points.pass_by()


def open_shares(
    directory: Path, journal: Journal, address: str, points: Points | None = None
) -> GuestShares:
    """Return what keeps the shares of a host without guests, whose state is in a directory."""
    counted, mark = points or Points(-1), str(directory)
    runner = _Runner(journal, mark, counted)
    settings, base = MountSettings(timeout_s=TIMEOUT_S), directory.resolve() / "mounted"
    mounters: dict[Protocol, ShareMounter] = {
        "NFS": NfsMounts(base / "nfs", settings, runner),
        "CEPHFS": CephfsMounts(base / "cephfs", settings, runner, directory / "clients"),
    }
    agent = AgentSettings(name="host-1", state_dir=directory, hypervisor="simulated")
    users = _Users(directory / "share-users", counted)
    return GuestShares("host-1", address, SimulatedHypervisor(agent), mounters, users)


async def _main(orders: Orders) -> None:
    directory = Path(orders.directory)
    journal = Journal(directory / "killed.sqlite")
    shares = open_shares(directory, journal, orders.address, Points(orders.at))
    await shares.setup()
    if orders.mounts:
        await shares.mount(orders.server_id, orders.share_id, orders.request, "op")
    else:
        await shares.unmount(orders.server_id, orders.share_id)
    await journal.close()


if __name__ == "__main__":
    asyncio.run(_main(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Orders)))
