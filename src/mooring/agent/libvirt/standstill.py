"""Guests of libvirt that stand still and go on: libvirt keeps the memory of suspended ones."""

from __future__ import annotations

import libvirt

from mooring.agent.libvirt import domain_xml, memory
from mooring.agent.libvirt.disks import LibvirtDisks
from mooring.agent.limits import AGENT_GUEST_MEMORY_S

_STALE = (
    libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE
    | libvirt.VIR_CONNECT_LIST_DOMAINS_PERSISTENT
    | libvirt.VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE
)


class LibvirtStandstill(LibvirtDisks):
    """A part of `LibvirtHypervisor`."""

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
            await self._with(
                server_id, lambda domain: memory.save(domain, directory), AGENT_GUEST_MEMORY_S
            )

    async def resume(self, server_id: str) -> None:
        async with self._lock(server_id):
            await self._give_files(server_id)
            await self._with(server_id, memory.restore, AGENT_GUEST_MEMORY_S)

    async def drop_stale_memory(self) -> None:
        """Forget the memory of guests that run: an agent that died may have left it behind.

        It would be taken for that of a guest which was suspended, once the guest is off.
        """
        handle = self._connection.handle

        def drop() -> None:
            for domain in handle.listAllDomains(_STALE):
                if domain.name().startswith(domain_xml.NAME_PREFIX):
                    memory.drop(domain)

        await self._call(drop)
