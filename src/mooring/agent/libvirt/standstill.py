"""Guests of libvirt that stand still and go on: libvirt keeps the memory of suspended ones."""

from __future__ import annotations

import libvirt
import structlog

from mooring.agent.libvirt import copy_ends, copy_starts, domain_xml, memory
from mooring.agent.libvirt.disks import LibvirtDisks
from mooring.agent.limits import AGENT_GUEST_MEMORY_S
from mooring.errors import MooringError
from mooring.probe import NoProbe, Probe

log = structlog.get_logger()
_STALE = (
    libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE
    | libvirt.VIR_CONNECT_LIST_DOMAINS_PERSISTENT
    | libvirt.VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE
)


class LibvirtStandstill(LibvirtDisks):
    """A part of `LibvirtHypervisor`."""

    probe: Probe = NoProbe()

    async def pause(self, server_id: str) -> None:
        async with self._lock(server_id):
            await self._with(server_id, memory.pause)

    async def unpause(self, server_id: str) -> None:
        async with self._lock(server_id):
            await self._with(server_id, memory.unpause)

    async def suspend(self, server_id: str) -> None:
        directory = self._connection.memory_directory
        async with self._lock(server_id):
            await self._with(server_id, lambda domain: memory.prepare(domain, directory))
            await self._with(server_id, copy_ends.end_all)
            await self._with(
                server_id, lambda domain: memory.save(domain, directory), AGENT_GUEST_MEMORY_S
            )

    async def resume(self, server_id: str) -> None:
        async with self._lock(server_id):
            await self._give_files(server_id)
            await self._with(server_id, memory.restore, AGENT_GUEST_MEMORY_S)

    async def settle_standstills(self) -> None:
        """End what an agent that died may have left behind of guests that stood still.

        The memory of one that runs would be taken for that of a guest which was suspended, once it
        is off. One that stood still for the start of a copy goes on.
        """
        handle = self._connection.handle

        def settle() -> None:
            for domain in handle.listAllDomains(_STALE):
                if domain.name().startswith(domain_xml.NAME_PREFIX):
                    memory.drop(domain)

        await self._call(settle)
        for server_id in await self._call(lambda: copy_starts.find_standing(handle)):
            try:
                await self._with(server_id, copy_starts.settle)
            except MooringError as error:
                # Whoever asked for the copy asks again, or takes it back: both settle it, too.
                log.warning("a guest stands still", server=server_id, reason=error.public)
