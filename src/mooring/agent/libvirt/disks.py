"""The disks of libvirt's guests on their host: root disks are copied from host to host.

A root disk is a layer over the image that it was made from, and both are copied; the image's file
comes from the other host's cache where that has it. One that stands alone is one file. What comes
is looked at before QEMU opens it: a header that named any other file would have QEMU open that.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mooring.agent import swap_disks
from mooring.agent.guest_files import BASE, ROOT, stands_alone
from mooring.agent.hypervisor import RootPlan
from mooring.agent.libvirt import states
from mooring.agent.libvirt.moves import LibvirtMoves
from mooring.agent.local_disks import LocalDisk, check_off
from mooring.agent.swap_disks import SwapPlan
from mooring.fence.threads import run_to_end


class LibvirtDisks(LibvirtMoves):
    """A part of `LibvirtHypervisor`."""

    @property
    def guest_directory(self) -> Path:
        return self._files.directory

    @property
    def local_kinds(self) -> tuple[tuple[str, ...], ...]:
        return (BASE, ROOT), (ROOT,)

    async def local_disks(self, server_id: str) -> list[LocalDisk]:
        guest = await self._look(server_id, states.show)
        check_off(server_id, guest.state)
        if not guest.image_id:
            return []
        own = self._files.directory / server_id
        root = LocalDisk(name=ROOT, path=own / ROOT)
        if await run_to_end(lambda: stands_alone(root.path)):
            return [root]
        base = LocalDisk(name=BASE, path=own / BASE, image_id=guest.image_id, is_written=False)
        return [base, root]

    async def take_in(self, server_id: str, brought: Sequence[Path]) -> None:
        async with self._lock(server_id):
            await self._files.take_in(brought)

    async def find_root(
        self, server_id: str, image_id: str, size_bytes: int, operation_key: str
    ) -> RootPlan:
        async with self._lock(server_id):
            return await self._files.find_root(server_id, image_id, size_bytes, operation_key)

    async def make_swap(self, server_id: str, size_bytes: int, operation_key: str) -> SwapPlan:
        own = self._files.directory / server_id
        async with self._lock(server_id):
            return await run_to_end(lambda: swap_disks.make(own, size_bytes, operation_key))

    async def drop_swap(self, server_id: str) -> None:
        async with self._lock(server_id):
            await run_to_end(lambda: swap_disks.drop(self._files.directory / server_id))
