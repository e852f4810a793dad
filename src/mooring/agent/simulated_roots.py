"""The disks of simulated guests, as files on their host.

A simulated guest writes to no disk, so the file of its root disk is made when it is first asked
for: as large as it should be, and almost all of it a hole.
"""

from __future__ import annotations

import os
from pathlib import Path

from mooring.agent import files, swap_disks
from mooring.agent.blocks import copy_now
from mooring.agent.hypervisor import SECTOR_BYTES, RootPlan, Tell
from mooring.agent.knobs import Knobs
from mooring.agent.settings import AgentSettings
from mooring.agent.simulated_emulators import Emulators
from mooring.agent.simulated_qcow2 import read_image_into
from mooring.agent.world import FILE, SimulatedGuest, World
from mooring.agent_api.images import CachedImage
from mooring.agent_api.moves import LocalSwap
from mooring.errors import Unavailable
from mooring.fence.threads import run_to_end

ROOT, ALONE = "root", "alone"
"""A root disk, and what lies beside one that stands alone."""


class SimulatedRoots:
    """A part of `SimulatedHypervisor`, with what all of its parts work with."""

    def __init__(self, settings: AgentSettings, tell: Tell) -> None:
        self._settings, self._tell = settings, tell
        self._world = World(settings.state_dir / FILE)
        self.knobs, self.emulators = Knobs(), Emulators(settings.guest_answer_s)
        self.guest_directory.mkdir(mode=0o711, exist_ok=True)

    @property
    def guest_directory(self) -> Path:
        return self._settings.state_dir / "guests"

    def _root_path(self, server_id: str) -> Path:
        return self.guest_directory / server_id / ROOT

    async def make_root(
        self, server_id: str, image: CachedImage, source: Path, size_bytes: int, operation_key: str
    ) -> RootPlan:
        await self.knobs.at("make_root")
        path = self._root_path(server_id)
        return RootPlan(path=path, format="raw", image_id=image.image_id, size_bytes=size_bytes)

    async def fill_root(
        self, server_id: str, image: CachedImage, source: Path, size_bytes: int, operation_key: str
    ) -> RootPlan:
        await self.knobs.at("make_root")
        path = self._root_path(server_id)
        if not path.exists():
            self._mark(server_id, alone=True)
            written = files.partial(path, operation_key)
            await run_to_end(lambda: read_image_into(written, source, image.disk_format))
            os.truncate(written, size_bytes)
            written.replace(path)
        return RootPlan(path=path, format="raw", image_id=image.image_id, size_bytes=size_bytes)

    def _mark(self, server_id: str, *, alone: bool) -> None:
        """Note whether a root disk stands alone, before it is made."""
        mark = self.guest_directory / server_id / ALONE
        mark.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
        if alone:
            mark.write_text("no image below")
        else:
            mark.unlink(missing_ok=True)

    def _stands_alone(self, server_id: str) -> bool:
        return (self.guest_directory / server_id / ALONE).exists()

    def _lay_down(self, guest: SimulatedGuest) -> Path:
        """Return the root disk of a guest that has one, made if nobody has asked for it yet."""
        path = self._root_path(guest.server_id)
        # It may stand beside its name, between two steps of who exchanges it for another one.
        if not path.exists() and not any(path.parent.glob(f"{ROOT}.*")):
            path.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
            path.write_bytes(f"root of {guest.server_id}, from {guest.image_id}".encode())
            os.truncate(path, guest.root_bytes)
        return path

    def _mirror(self, guest: SimulatedGuest, there: Path) -> None:
        """Bring what a guest has written to the disk that another host has made for it.

        Raises Unavailable where there is none, or one of another size, as an emulator does.
        """
        if guest.image_id:
            _bring(self._lay_down(guest), there, guest.server_id, "root")

    def _swap_path(self, server_id: str) -> Path:
        return self.guest_directory / server_id / swap_disks.FILE

    def _measure_swap(self, guest: SimulatedGuest) -> LocalSwap | None:
        if not guest.swap_bytes:
            return None
        found = self._swap_path(guest.server_id).stat()
        data_bytes = found.st_blocks * SECTOR_BYTES
        return LocalSwap(size_bytes=found.st_size, data_bytes=data_bytes)

    def _mirror_swap(self, guest: SimulatedGuest, there: Path) -> None:
        """Do the same with the swap disk of a guest that has one."""
        if guest.swap_bytes:
            _bring(self._swap_path(guest.server_id), there, guest.server_id, "swap")

    def _remove(self, server_id: str) -> None:
        self._world.remove(server_id)
        files.remove_tree(self.guest_directory / server_id)


def _bring(own: Path, there: Path, server_id: str, what: str) -> None:
    if not there.exists() or there.stat().st_size != own.stat().st_size:
        raise Unavailable(
            f"The host that the guest of server {server_id} is to go to has no {what} disk as "
            "large as the guest's. The guest stays."
        )
    written = files.partial(there, "mirror")
    copy_now(own, written)
    written.replace(there)
