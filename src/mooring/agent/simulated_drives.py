"""The config drives of simulated guests: the very files that real guests read."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mooring.agent import config_drives, iso9660
from mooring.agent.simulated_roots import SimulatedRoots
from mooring.agent.world import RUNNING, SimulatedGuest, say
from mooring.errors import Conflict, NotFound, Unavailable

_HAS_OPEN = RUNNING | {"prelaunched"}


class SimulatedDrives(SimulatedRoots):
    """A part of `SimulatedHypervisor`. `knobs` points: give_drive, expect_drive."""

    async def give_drive(self, server_id: str, image: bytes, operation_key: str) -> None:
        await self.knobs.at("give_drive")
        guest = self._world.find(server_id)
        if guest is None:
            raise NotFound(f"Host {self._settings.name} has no guest {server_id}.")
        if guest.state not in _HAS_OPEN:
            config_drives.lay_down(self.guest_directory / server_id, image, operation_key)
        guest.has_drive = True
        self._world.save(guest)

    async def expect_drive(self, server_id: str, image: bytes, operation_key: str) -> None:
        await self.knobs.at("expect_drive")
        self._check_shut(server_id, "config drive")
        config_drives.lay_down(self.guest_directory / server_id, image, operation_key)

    def _check_shut(self, server_id: str, file: str) -> None:
        """Raise Conflict when an emulator may have a file of a guest open."""
        guest = self._world.find(server_id)
        if guest is not None and guest.state in _HAS_OPEN:
            raise Conflict(
                f"An emulator of host {self._settings.name} may have the {file} of server "
                f"{server_id} open; it was left as it is."
            )

    def _drive_path(self, server_id: str) -> Path:
        return self.guest_directory / server_id / config_drives.FILE

    def _read_drive(self, guest: SimulatedGuest) -> bytes:
        """Return the drive of a guest as it goes to another host; b"" without one."""
        if not guest.has_drive:
            return b""
        return config_drives.pack(self._drive_path(guest.server_id).read_bytes())

    def _insert_drive(self, guest: SimulatedGuest) -> None:
        """Let a guest that starts read its drive. Raises Unavailable without it, as QEMU does."""
        if not guest.has_drive:
            return
        path = self._drive_path(guest.server_id)
        if not path.exists():
            raise Unavailable(
                f"The config drive of server {guest.server_id} is gone, and its guest was not "
                "started. Reboot the server hard: that makes the drive anew."
            )
        image = path.read_bytes()
        told = msgspec.json.decode(iso9660.read(image, config_drives.META_DATA) or b"{}")
        del told["random_seed"]
        say(guest, f"drive {msgspec.json.encode(told).decode()}")
        if (given := iso9660.read(image, config_drives.USER_DATA)) is not None:
            say(guest, f"drive has {len(given)} bytes of user data")
