"""Volumes that take the place of others under simulated guests: by the rules that QEMU has."""

from __future__ import annotations

import errno

from mooring.agent import simulated_copy_starts as copy_starts
from mooring.agent import simulated_overlays as overlays
from mooring.agent import simulated_pool
from mooring.agent.guest_mirrors import (
    check_equal,
    copy_ended,
    guest_is_off,
    is_shared,
    is_switched,
)
from mooring.agent.hypervisor import DiskPlan, Tell
from mooring.agent.settings import AgentSettings
from mooring.agent.simulated_captures import SimulatedCaptures
from mooring.agent.simulated_standstill import read_image
from mooring.agent.sources import FileSource, file_of
from mooring.agent.storage_failures import disk_failure_told
from mooring.agent.world import (
    RUNNING,
    SimulatedDisk,
    SimulatedGuest,
    SimulatedMirror,
    show_disk,
)
from mooring.agent_api.disks import GuestDisk
from mooring.agent_api.mirrors import Mirroring
from mooring.errors import Conflict, NotFound
from mooring.probe import Passing, passing_in


class SimulatedMirrors(SimulatedCaptures):
    """A part of `SimulatedHypervisor`.

    `knobs` points: mirror_disk, mirroring, stop_mirror, switch_disk. A copy is in step at once,
    unless `lagging` names its new volume. `away` names volumes whose files are not there, as those
    of a share after a reboot: a guest that is on has them open, of one that is off they are read.
    """

    def __init__(self, settings: AgentSettings, tell: Tell) -> None:
        super().__init__(settings, tell)
        self.lagging: set[str] = set()
        self.away: set[str] = set()

    async def mirror_disk(self, server_id: str, volume_id: str, new: DiskPlan) -> None:
        await self.knobs.at("mirror_disk")
        passing = passing_in(self.probe, "mirror_disk")
        await self.emulators.ask(
            server_id, lambda: self._mirror_to(server_id, volume_id, new, passing)
        )

    async def mirroring(self, server_id: str, volume_id: str) -> Mirroring:
        await self.knobs.at("mirroring")
        return await self.emulators.ask(server_id, lambda: self._show(server_id, volume_id))

    async def stop_mirror(self, server_id: str, volume_id: str, attachment_id: str) -> None:
        await self.knobs.at("stop_mirror")
        await self.emulators.ask(
            server_id, lambda: self._stop_mirror(server_id, volume_id, attachment_id)
        )

    async def switch_disk(self, server_id: str, volume_id: str, new: DiskPlan) -> GuestDisk:
        await self.knobs.at("switch_disk")
        return await self.emulators.ask(server_id, lambda: self._switch(server_id, volume_id, new))

    def _read_files(self, disk: SimulatedDisk) -> None:
        """Do as where the files of a guest that is off are read. Raises Unavailable."""
        with disk_failure_told(disk.volume_id):
            if disk.volume_id in self.away and not disk.live:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", disk.path)

    def break_mirrors(self, server_id: str) -> None:
        """Let the storage that a guest's volumes are copied to fail, or be full."""
        guest = self._get(server_id)
        for disk in guest.disks:
            disk.mirror = None
        self._world.save(guest)

    def _mirror_to(self, server_id: str, volume_id: str, new: DiskPlan, passing: Passing) -> None:
        guest, disk = self._find_live(server_id, volume_id)
        copy_starts.settle(self._world, guest)
        if disk.shareable:
            raise is_shared(server_id, volume_id)
        file_of(disk.source, "a swap")
        file = file_of(new.source, "a swap")
        if disk.mirror is not None:
            if disk.mirror.attachment_id == new.attachment_id:
                return
            raise Conflict(
                f"Volume {volume_id} of server {server_id} is copied already. It was not swapped; "
                "ask again when that is over.",
                busy=True,
            )
        coming = _as_disk(disk, new, file)
        check_equal(new.volume_id, read_image(coming), read_image(disk))
        self._check_lock(guest, coming)
        if simulated_pool.is_path(file.path):
            simulated_pool.note_opener(file.path, self._world.path)
        mirror = SimulatedMirror(
            volume_id=new.volume_id,
            attachment_id=new.attachment_id,
            path=file.path,
            format=file.format,
            begun=False,
        )
        copy_starts.begin(self._world, guest, disk, mirror, passing)

    def _show(self, server_id: str, volume_id: str) -> Mirroring:
        _, disk = self._find_live(server_id, volume_id)
        if disk.mirror is None:
            raise copy_ended(server_id, volume_id)
        size_bytes, in_step = read_image(disk), disk.mirror.volume_id not in self.lagging
        copied_bytes = size_bytes if in_step else size_bytes // 2
        return Mirroring(copied_bytes=copied_bytes, size_bytes=size_bytes, in_step=in_step)

    def _stop_mirror(self, server_id: str, volume_id: str, attachment_id: str) -> None:
        guest = self._world.find(server_id)
        if guest is None:
            return
        if any(disk.attachment_id == attachment_id for disk in guest.disks):
            raise is_switched(server_id, volume_id)
        self._end_mirrors(guest, volume_id)

    def _end_mirrors(self, guest: SimulatedGuest, volume_id: str, attachment_id: str = "") -> None:
        """End every copy from or to a volume, by that attachment if one is named."""
        copy_starts.settle(self._world, guest)
        for disk in guest.disks:
            if disk.mirror is not None and (
                _is(disk, volume_id, attachment_id) or _is(disk.mirror, volume_id, attachment_id)
            ):
                disk.mirror = None
        self._world.save(guest)

    def _leave_mirrors(self, guest: SimulatedGuest, volume_id: str, attachment_id: str) -> None:
        """End copies from or to a volume that is to go; one that is in step goes to its end.

        Without an attachment both go, where the volume is copied to another file of its own.
        """
        for disk in guest.disks:
            mirror = disk.mirror
            leaves = mirror is not None and _is(disk, volume_id, attachment_id)
            if mirror is not None and leaves and not self._lags(mirror):
                _take_over(disk, mirror)
        self._end_mirrors(guest, volume_id, attachment_id)

    def _switch(self, server_id: str, volume_id: str, new: DiskPlan) -> GuestDisk:
        guest = self._get(server_id)
        known = next((one for one in guest.disks if one.attachment_id == new.attachment_id), None)
        if known is not None:
            return show_disk(known)
        try:
            disk = overlays.find(guest, volume_id)
        except NotFound as error:
            raise copy_ended(server_id, volume_id) from error
        mirror = disk.mirror
        if mirror is None or mirror.attachment_id != new.attachment_id or self._lags(mirror):
            self._end_mirrors(guest, volume_id)
            raise copy_ended(server_id, volume_id)
        _take_over(disk, mirror)
        self._world.save(guest)
        return show_disk(disk)

    def _lags(self, mirror: SimulatedMirror) -> bool:
        return mirror.volume_id in self.lagging

    def _find_live(self, server_id: str, volume_id: str) -> tuple[SimulatedGuest, SimulatedDisk]:
        guest = self._get(server_id)
        if guest.state not in RUNNING:
            raise guest_is_off(server_id, volume_id)
        return guest, overlays.find_seen(guest, volume_id)


def _is(disk: SimulatedDisk | SimulatedMirror, volume_id: str, attachment_id: str) -> bool:
    return disk.volume_id == volume_id and attachment_id in {"", disk.attachment_id}


def _take_over(disk: SimulatedDisk, mirror: SimulatedMirror) -> None:
    """Let a disk be the volume that it was copied to."""
    # A guest knows its disk by the serial number that it had at its start.
    disk.serial = disk.serial or disk.volume_id
    disk.volume_id, disk.attachment_id = mirror.volume_id, mirror.attachment_id
    disk.path, disk.format, disk.below, disk.mirror = mirror.path, mirror.format, [], None


def _as_disk(disk: SimulatedDisk, new: DiskPlan, file: FileSource) -> SimulatedDisk:
    """Return the new volume as a disk of the guest."""
    return SimulatedDisk(
        volume_id=new.volume_id,
        attachment_id=new.attachment_id,
        device=disk.device,
        path=file.path,
        format=file.format,
        size_bytes=new.size_bytes,
        bus=disk.bus,
    )
