"""Disks taken from simulated guests, which let go at once, or, where a test says so, late."""

from __future__ import annotations

from mooring.agent.disk_checks import check_hot
from mooring.agent.hypervisor import News, Tell
from mooring.agent.settings import AgentSettings
from mooring.agent.simulated_mirrors import SimulatedMirrors
from mooring.agent.simulated_standstill import read_image
from mooring.agent.unplugging import LET_GO, keeps_disk, stands_still
from mooring.agent.world import RUNNING, say, say_disk


class SimulatedUnplugging(SimulatedMirrors):
    """A part of `SimulatedHypervisor`.

    `knobs` point: unplug. `stubborn` names volumes that no guest lets go of when it is asked.
    """

    def __init__(self, settings: AgentSettings, tell: Tell) -> None:
        super().__init__(settings, tell)
        self.stubborn: set[str] = set()

    async def unplug(self, server_id: str, volume_id: str, attachment_id: str = "") -> None:
        await self.knobs.at("unplug")
        await self.emulators.ask(
            server_id, lambda: self._unplug(server_id, volume_id, attachment_id)
        )

    async def plug_back(self, server_id: str, volume_id: str) -> bool:
        return await self.emulators.ask(server_id, lambda: self._plug_back(server_id, volume_id))

    def let_go(self, server_id: str, volume_id: str) -> None:
        """Let a guest do late what it was asked for and refused: it has that disk no more."""
        guest = self._get(server_id)
        disk = next(one for one in guest.disks if one.volume_id == volume_id)
        disk.live, disk.mirror = False, None
        say(guest, f"disk {disk.device.removeprefix('/dev/')} gone")
        self._world.save(guest)
        self._tell(News(kind=LET_GO, server_id=server_id, volume_id=volume_id))

    def _unplug(self, server_id: str, volume_id: str, attachment_id: str) -> None:
        guest = self._world.find(server_id)
        if guest is not None:
            self._leave_mirrors(guest, volume_id, attachment_id)
        known = guest and next((one for one in guest.disks if one.volume_id == volume_id), None)
        if guest is None or known is None or attachment_id not in {"", known.attachment_id}:
            return
        if known.live and guest.state == "paused":
            raise stands_still(server_id, volume_id)
        if known.live and volume_id in self.stubborn:
            raise keeps_disk(server_id, volume_id)
        if known.live:
            check_hot(server_id, volume_id, known.bus)
        guest.disks.remove(known)
        if known.live:
            say(guest, f"disk {known.device.removeprefix('/dev/')} gone")
        self._world.save(guest)

    def _plug_back(self, server_id: str, volume_id: str) -> bool:
        guest = self._world.find(server_id)
        if guest is None or guest.state not in RUNNING:
            return False
        disk = next((one for one in guest.disks if one.volume_id == volume_id), None)
        if disk is None or disk.live or not disk.persistent:
            return False
        self._check_lock(guest, disk)
        disk.live, disk.size_bytes, disk.serial = True, read_image(disk), ""
        say_disk(guest, disk.device, disk.size_bytes, volume_id)
        self._world.save(guest)
        return True
