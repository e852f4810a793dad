"""Disks that guests let go of too late: each gets back what its definition has.

A detach that was refused left the disk attached, as everybody was told; the guest has it again
within moments, as a disk that was plugged in. After the agent's start all guests are looked at:
nobody heard what they did before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import structlog

from mooring.agent.connections import Connections
from mooring.agent.hypervisor import Hypervisor, News
from mooring.agent_api.servers import Guest
from mooring.errors import MooringError

log = structlog.get_logger()
_ALIVE = frozenset({"running", "paused"})


class LateDisks:
    """What gives them back, on one host."""

    def __init__(self, hypervisor: Hypervisor, connections: Connections) -> None:
        self._hypervisor, self._connections = hypervisor, connections
        self._tasks: set[asyncio.Task[None]] = set()

    def look_at_all(self) -> None:
        """Begin to look at every guest."""
        self._begin(self._settle_all())

    def look(self, news: News) -> None:
        """Begin to look at the guest that is told of."""
        self._begin(self._settle(news.server_id))

    async def close(self) -> None:
        """End what is at work; the next agent looks at all guests."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._leave)

    def _leave(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a guest was not looked at", exc_info=error)

    async def _settle_all(self) -> None:
        try:
            guests = await self._hypervisor.guests()
        except MooringError as error:
            log.warning("the guests cannot be looked at", reason=str(error))
            return
        for guest in guests:
            await self._give_back(guest)

    async def _settle(self, server_id: str) -> None:
        try:
            guest = await self._hypervisor.guest(server_id)
        except MooringError as error:
            log.warning("a guest cannot be looked at", server_id=server_id, reason=str(error))
            return
        if guest is not None:
            await self._give_back(guest)

    async def _give_back(self, guest: Guest) -> None:
        server_id = guest.server_id
        for disk in guest.disks if guest.state in _ALIVE else ():
            is_lost = disk.persistent and not disk.live
            # What is not connected may be anybody's by now.
            if not is_lost or server_id not in self._connections.servers(disk.attachment_id):
                continue
            about = {"server_id": server_id, "volume_id": disk.volume_id}
            try:
                if await self._hypervisor.plug_back(server_id, disk.volume_id):
                    log.warning("a guest let go of a disk that it was to keep, and has it", **about)
            except MooringError as error:
                log.warning("a guest lacks a disk that it is to have", **about, reason=str(error))
