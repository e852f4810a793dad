"""Simulated guests that stand still and go on. Whether one kept its memory its console tells."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from mooring.agent import simulated_copy_starts as copy_starts
from mooring.agent import simulated_pool
from mooring.agent.guest_power import no_standstill, not_in_definition
from mooring.agent.hypervisor import News, Tell
from mooring.agent.image_locks import image_in_use
from mooring.agent.qemu_img import read_own_bytes
from mooring.agent.simulated_guest_shares import SimulatedGuestShares
from mooring.agent.simulated_moves import let_go_on
from mooring.agent.storage_failures import disk_failure_told
from mooring.agent.world import RUNNING, SimulatedDisk, SimulatedGuest, say_disk
from mooring.probe import NoProbe, Probe

Ended = Literal["stopped", "crashed", "suspended"]


class SimulatedStandstill(SimulatedGuestShares):
    """A part of `SimulatedHypervisor`. `knobs` points: pause, unpause, suspend, resume."""

    probe: Probe = NoProbe()

    def _watch(self, tell: Tell) -> None:
        """Tell what guests do from now on; those that a dead agent left standing still go on."""
        self._tell = tell
        for guest in self._world.guests():
            copy_starts.settle(self._world, guest)
            let_go_on(self._world, guest)

    async def pause(self, server_id: str) -> None:
        await self.knobs.at("pause")
        await self.emulators.ask(server_id, lambda: self._stand(server_id, "paused"))

    async def unpause(self, server_id: str) -> None:
        await self.knobs.at("unpause")
        await self.emulators.ask(server_id, lambda: self._stand(server_id, "running"))

    async def suspend(self, server_id: str) -> None:
        await self.knobs.at("suspend")
        await self.emulators.ask(server_id, lambda: self._save_memory(server_id))

    async def resume(self, server_id: str) -> None:
        await self.knobs.at("resume")
        await self.emulators.ask(server_id, lambda: self._restore_memory(server_id))

    def _stand(self, server_id: str, state: Literal["paused", "running"]) -> None:
        guest = self._get(server_id)
        copy_starts.settle(self._world, guest)
        let_go_on(self._world, guest)
        if guest.state not in RUNNING:
            what = "paused" if state == "paused" else "unpaused"
            raise no_standstill(server_id, guest.state, what)
        guest.state = state
        self._world.save(guest)

    def _save_memory(self, server_id: str) -> None:
        guest = self._get(server_id)
        if guest.state == "suspended":
            return
        if guest.state not in RUNNING:
            raise no_standstill(server_id, guest.state, "suspended")
        self._halt(guest, "suspended", "saved")

    def _restore_memory(self, server_id: str) -> None:
        guest = self._get(server_id)
        if guest.state in RUNNING:
            self._stand(server_id, "running")
            return
        if guest.state != "suspended":
            raise no_standstill(server_id, guest.state, "resumed")
        has = {disk.volume_id: disk for disk in guest.disks}
        memory = list(has) if guest.memory is None else guest.memory
        if lost := sorted(set(memory) - has.keys()):
            raise not_in_definition(server_id, lost)
        disks = [has[volume_id] for volume_id in memory]
        for disk in disks:
            self._check_lock(guest, disk)
        guest.state, guest.live_shares, guest.memory = "running", guest.shares, None
        for disk in disks:
            disk.live, size_bytes = True, read_image(disk)
            if disk.size_bytes != size_bytes:
                disk.size_bytes = size_bytes
                say_disk(guest, disk.device, size_bytes, disk.serial or disk.volume_id)
        self._world.save(guest)
        self._tell(News(kind="guest_started", server_id=server_id))

    def _halt(self, guest: SimulatedGuest, state: Ended, reason: str) -> None:
        guest.state, guest.stands_for_move = state, False
        live = [disk.volume_id for disk in guest.disks if disk.live]
        guest.memory = live if state == "suspended" else None
        guest.disks = [disk for disk in guest.disks if disk.persistent]
        for disk in guest.disks:
            disk.live, disk.mirror = False, None
        guest.live_shares = []
        self._world.save(guest)
        kind = "guest_crashed" if state == "crashed" else "guest_stopped"
        self._tell(News(kind=kind, server_id=guest.server_id, reason=reason))

    def _check_lock(self, guest: SimulatedGuest, disk: SimulatedDisk) -> None:
        """Raise Conflict when another emulator has the image of a disk, as QEMU's lock would."""
        if self._is_open_elsewhere(guest, disk):
            raise image_in_use(f"volume {disk.volume_id}")

    def _is_open_elsewhere(self, guest: SimulatedGuest, disk: SimulatedDisk) -> bool:
        if disk.network is not None or not simulated_pool.is_path(disk.path):
            return False
        mine = self._world.path, guest.server_id
        return simulated_pool.is_held(disk.path, mine, shareable=disk.shareable)


def read_image(disk: SimulatedDisk) -> int:
    """Return how big the volume is. A connection of an earlier release names no file to look at."""
    if disk.network is not None:
        return disk.size_bytes
    if simulated_pool.is_path(disk.path):
        return simulated_pool.read_virtual_bytes(disk.path)
    if disk.path.startswith("simulated:"):
        return disk.size_bytes
    with disk_failure_told(disk.volume_id):
        return read_own_bytes(Path(disk.path), disk.format)
