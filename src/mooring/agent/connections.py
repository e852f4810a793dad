"""Volumes that this host has connected: how each kind is reached, and a record of each.

The record names what doctor and a late disconnect need: volume, path, guest. Connection data never
comes into it. Kinds that mount or log in come with os-brick; until then they are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mooring.agent import files
from mooring.agent.hypervisor import DiskPlan
from mooring.agent.qemu_img import FORMATS
from mooring.agent_api.disks import Connected, DiskSpec, read_connection
from mooring.errors import Invalid, NotFound

_SIMULATED = re.compile(r"^simulated:[\w.-]+/[\w.-]+$")


class ConnectionRecord(Struct, frozen=True, kw_only=True):
    """One connected volume, and the guest that was last given it."""

    connected: Connected
    server_id: str = ""


class Connections:
    """The connected volumes of one host, a small file for each attachment."""

    def __init__(self, directory: Path, *, simulated: bool) -> None:
        self._directory, self._simulated = directory, simulated

    def prepare(self) -> None:
        """Make the directory."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def connect(
        self,
        attachment_id: str,
        volume_id: str,
        connection: Mapping[str, Any],
        *,
        server_id: str = "",
    ) -> Connected:
        """See that a volume can be reached from here. Raises Invalid, NotFound."""
        path, disk_format = self._reach(volume_id, connection)
        connected = Connected(
            attachment_id=attachment_id, volume_id=volume_id, path=path, format=disk_format
        )
        known = self.find(attachment_id)
        record = ConnectionRecord(
            connected=connected, server_id=server_id or (known.server_id if known else "")
        )
        if record != known:
            files.write_record(self._path(attachment_id), record)
        return connected

    def plan(self, server_id: str, spec: DiskSpec) -> DiskPlan:
        """Connect a disk for a guest, and return what its definition needs."""
        connected = self.connect(
            spec.attachment_id, spec.volume_id, spec.connection, server_id=server_id
        )
        size_bytes = read_connection(spec.connection).data.get("size_bytes", 0)
        return DiskPlan(
            volume_id=spec.volume_id,
            attachment_id=spec.attachment_id,
            path=connected.path,
            format=connected.format,
            device=spec.device,
            boot_index=spec.boot_index,
            read_only=spec.read_only,
            shareable=spec.shareable,
            size_bytes=size_bytes if isinstance(size_bytes, int) else 0,
        )

    def disconnect(self, attachment_id: str) -> None:
        """Let go of a volume. Files of this host need nothing more than to be forgotten."""
        self._path(attachment_id).unlink(missing_ok=True)

    def find(self, attachment_id: str) -> ConnectionRecord | None:
        """Return a connected volume, or None."""
        return files.read_record(self._path(attachment_id), ConnectionRecord)

    def release(self, server_id: str) -> None:
        """Note that a guest is gone; its volumes stay connected."""
        for record in self._records():
            if record.server_id == server_id:
                path = self._path(record.connected.attachment_id)
                files.write_record(path, replace(record, server_id=""))

    def connected(self) -> list[Connected]:
        """Return all connected volumes."""
        return [record.connected for record in self._records()]

    def _records(self) -> list[ConnectionRecord]:
        found = (self.find(path.stem) for path in sorted(self._directory.glob("*.json")))
        return [record for record in found if record is not None]

    def _path(self, attachment_id: str) -> Path:
        return self._directory / f"{attachment_id}.json"

    def _reach(self, volume_id: str, info: Mapping[str, Any]) -> tuple[str, str]:
        connection = read_connection(info)
        path = connection.data.get("device_path")
        disk_format = connection.data.get("format") or "raw"
        if not isinstance(path, str) or disk_format not in FORMATS:
            raise Invalid(
                f"The connection of volume {volume_id} names no usable device_path and format."
            )
        kind = connection.driver_volume_type
        if kind == "simulated" and self._simulated and _SIMULATED.match(path):
            return path, disk_format
        if kind != "local":
            raise Invalid(
                f"This host cannot connect volumes of type {kind}; it knows local"
                f"{' and simulated' if self._simulated else ''}. Use another volume type."
            )
        if not Path(path).is_absolute():
            raise Invalid(f"The device_path of volume {volume_id} is not absolute.")
        if not Path(path).exists():
            raise NotFound(f"The file of volume {volume_id} is missing on this host.", private=path)
        return path, disk_format
