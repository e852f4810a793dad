"""The disks of simulated guests on their host: root disks are copied from host to host."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from mooring.agent import config_drives, files, swap_disks
from mooring.agent.hypervisor import RootPlan
from mooring.agent.local_disks import LocalDisk, check_growth, check_off, no_copy
from mooring.agent.qemu_img import InUse
from mooring.agent.simulated_moves import SimulatedMoves
from mooring.agent.simulated_roots import ALONE, ROOT
from mooring.agent.swap_disks import SwapPlan
from mooring.agent.world import SimulatedGuest, say_disk
from mooring.errors import Unavailable

_HAS_OPEN = frozenset({"running", "paused", "prelaunched"})


class SimulatedDisks(SimulatedMoves):
    """A part of `SimulatedHypervisor`.

    `knobs` points: local_disks, take_in, find_root, make_swap, drop_swap.
    """

    @property
    def local_kinds(self) -> tuple[tuple[str, ...], ...]:
        return (ROOT,), (ALONE, ROOT)

    async def leftovers(self) -> list[str]:
        there = {guest.server_id for guest in self._world.guests()}
        found = self.guest_directory.glob("*")
        return sorted(str(path) for path in found if path.name not in there)

    async def local_disks(self, server_id: str) -> list[LocalDisk]:
        await self.knobs.at("local_disks")
        guest = self._get(server_id)
        check_off(server_id, guest.state)
        if not guest.image_id:
            return []
        root = LocalDisk(name=ROOT, path=self._lay_down(guest))
        mark = LocalDisk(name=ALONE, path=root.path.with_name(ALONE), is_written=False)
        return [mark, root] if self._stands_alone(server_id) else [root]

    async def take_in(self, server_id: str, brought: Sequence[Path]) -> None:
        await self.knobs.at("take_in")
        for coming in brought:
            files.take(coming)

    async def find_root(
        self, server_id: str, image_id: str, size_bytes: int, operation_key: str
    ) -> RootPlan:
        await self.knobs.at("find_root")
        path, guest = self._root_path(server_id), self._world.find(server_id)
        if guest is not None and guest.image_id:
            self._lay_down(guest)
        if not path.exists():
            raise no_copy(server_id)
        has_bytes = path.stat().st_size
        size_bytes = check_growth(server_id, has_bytes, size_bytes)
        if size_bytes > has_bytes:
            if guest is not None and guest.state in _HAS_OPEN:
                raise InUse(f"The root disk of server {server_id} is open in its emulator.")
            os.truncate(path, size_bytes)
        return RootPlan(path=path, format="raw", image_id=image_id, size_bytes=size_bytes)

    async def make_swap(self, server_id: str, size_bytes: int, operation_key: str) -> SwapPlan:
        await self.knobs.at("make_swap")
        return swap_disks.make(self.guest_directory / server_id, size_bytes, operation_key)

    async def drop_swap(self, server_id: str) -> None:
        await self.knobs.at("drop_swap")
        swap_disks.drop(self.guest_directory / server_id)

    def _find_swap(self, guest: SimulatedGuest) -> None:
        """Let a guest that starts find its swap disk. Raises Unavailable without it, as QEMU."""
        if not guest.swap_bytes:
            return
        if not self._swap_path(guest.server_id).exists():
            raise Unavailable(
                f"The swap disk of server {guest.server_id} is gone, and its guest was not "
                "started. Rebuild the server, or give it another size: that makes the disk anew."
            )
        say_disk(guest, guest.swap_device, guest.swap_bytes, "")

    def _forget(self, server_id: str) -> None:
        guest = self._world.find(server_id)
        if guest is not None and guest.image_id:
            self._lay_down(guest)
        config_drives.take_up(self.guest_directory / server_id)
        swap_disks.drop(self.guest_directory / server_id)
        self._world.remove(server_id)
