"""The config drives of libvirt's guests: a file beside the root disk, and what reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import libvirt

from mooring.agent import config_drives
from mooring.agent.libvirt import drive_devices
from mooring.agent.libvirt.devices import INACTIVE
from mooring.agent.libvirt.host import LibvirtHost, find_domain
from mooring.errors import Conflict
from mooring.fence.threads import run_to_end


class LibvirtDrives(LibvirtHost):
    """A part of `LibvirtHypervisor`."""

    async def give_drive(self, server_id: str, image: bytes, operation_key: str) -> None:
        handle, path = self._connection.handle, self._drive_path(server_id)

        def define(domain: Any) -> None:
            xml = domain.XMLDesc(INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
            if (added := drive_devices.add(xml, str(path))) is not None:
                handle.defineXML(added)

        async with self._lock(server_id):
            if not await self._look(server_id, _is_active):
                await run_to_end(lambda: config_drives.lay_down(path.parent, image, operation_key))
            await self._look(server_id, define)

    async def expect_drive(self, server_id: str, image: bytes, operation_key: str) -> None:
        path = self._drive_path(server_id)
        async with self._lock(server_id):
            await self._check_off(server_id, "config drive")
            await run_to_end(lambda: config_drives.lay_down(path.parent, image, operation_key))
            await run_to_end(lambda: self._emulator.give(path))

    async def _check_off(self, server_id: str, file: str) -> None:
        """Raise Conflict when an emulator may have a file of a guest open."""
        handle = self._connection.handle

        def check() -> None:
            domain = find_domain(handle, server_id)
            if domain is not None and domain.isActive():
                raise Conflict(
                    f"An emulator of host {self._settings.name} may have the {file} of server "
                    f"{server_id} open; it was left as it is."
                )

        await self._call(check)

    async def _read_drive(self, path: str) -> bytes:
        """Return a drive as it goes to another host; b"" without one."""
        if not path:
            return b""
        return await run_to_end(lambda: config_drives.pack(Path(path).read_bytes()))

    def _drive_path(self, server_id: str) -> Path:
        return self._files.directory / server_id / config_drives.FILE


def _is_active(domain: Any) -> bool:
    return bool(domain.isActive())
