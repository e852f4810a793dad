"""Disks taken from libvirt's guests, which are asked for them: QEMU never forgets that it asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from mooring.agent.hypervisor import News, Tell
from mooring.agent.hypervisor_memory import Way
from mooring.agent.libvirt import copy_starts, devices, states, swapped
from mooring.agent.libvirt.mirrors import LibvirtMirrors
from mooring.agent.limits import AGENT_UNPLUG_ASK_S, AGENT_UNPLUG_S
from mooring.agent.run import Runner
from mooring.agent.settings import AgentSettings
from mooring.agent.unplugging import LET_GO, Unplugging, keeps_disk, stands_still
from mooring.agent.waiting import until_told
from mooring.errors import NotFound


class LibvirtUnplugging(LibvirtMirrors):
    """A part of `LibvirtHypervisor`."""

    def __init__(self, settings: AgentSettings, runner: Runner, way: Way = "") -> None:
        super().__init__(settings, runner, way)
        self._unplugging = Unplugging()
        self._tell: Tell = _tell_nobody

    async def unplug(self, server_id: str, volume_id: str, attachment_id: str = "") -> None:
        try:
            with self._unplugging.at_work(server_id, volume_id):
                await self._take(server_id, volume_id, attachment_id)
        except NotFound:
            return
        except TimeoutError:
            # It may have let go since it was last looked at, and nobody has heeded that.
            self._tell(News(kind=LET_GO, server_id=server_id, volume_id=volume_id))
            raise keeps_disk(server_id, volume_id) from None

    async def plug_back(self, server_id: str, volume_id: str) -> bool:
        async with self._lock(server_id):
            if self._unplugging.takes(server_id, volume_id):
                return False
            try:
                return await self._with(server_id, lambda one: devices.give_back(one, volume_id))
            except NotFound:
                return False

    async def _take(self, server_id: str, volume_id: str, attachment_id: str) -> None:
        """Take a disk from a guest and its definition. Raises TimeoutError when it keeps it."""

        def forget(domain: Any) -> None:
            devices.forget(domain, volume_id, attachment_id)
            swapped.prune(domain)

        await self._end_mirrors(server_id, volume_id, attachment_id)
        # Without the guest's lock: a guest that keeps one disk must not hold up the others.
        if not await self._let_go(server_id, volume_id, attachment_id):
            raise TimeoutError
        async with self._lock(server_id):
            await self._with(server_id, forget)

    async def _let_go(self, server_id: str, volume_id: str, attachment_id: str) -> bool:
        """Ask the guest, wait, and ask again; return whether it let go."""

        def ask(domain: Any) -> bool:
            if devices.is_gone(domain, volume_id, attachment_id):
                return True
            copy_starts.settle(domain)
            if states.state_of(domain) == "paused":
                raise stands_still(server_id, volume_id)
            return devices.ask_to_let_go(domain, volume_id, attachment_id)

        def is_gone(domain: Any) -> bool:
            return devices.is_gone(domain, volume_id, attachment_id)

        deadline = time.monotonic() + AGENT_UNPLUG_S
        while time.monotonic() < deadline:
            # With it, for that long: one that stands still for a copy's start is not paused.
            async with self._lock(server_id):
                if await self._with(server_id, ask):
                    return True
            if await self._until(server_id, is_gone, AGENT_UNPLUG_ASK_S):
                return True
        return False

    async def _until(self, server_id: str, holds: Callable[[Any], bool], timeout_s: float) -> bool:
        return await until_told(lambda: self._with(server_id, holds), timeout_s)


def _tell_nobody(news: News) -> None:
    del news
