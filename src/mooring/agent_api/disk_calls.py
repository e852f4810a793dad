"""The client's verbs about connected volumes and the disks of guests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from mooring.agent_api.calls import Calls, path_of
from mooring.agent_api.disks import (
    Connected,
    ConnectRequest,
    DiskSize,
    DiskSizeRequest,
    DiskSpec,
    GuestDisk,
)
from mooring.fence.operation import Operation
from mooring.limits import AGENT_LONG_CALL_S


def unplug_path(server_id: str, volume_id: str, attachment_id: str = "") -> str:
    """Return what `unplug_disk` deletes: also what a dead host may owe."""
    path = path_of("servers", server_id, "disks", volume_id)
    return f"{path}?{urlencode({'attachment_id': attachment_id})}" if attachment_id else path


class DiskCalls(Calls):
    """A part of `AgentClient`."""

    async def connect(
        self,
        attachment_id: str,
        volume_id: str,
        connection: Mapping[str, Any],
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> Connected:
        """Connect a volume's backend to the host; `connection` nested or flat."""
        body = ConnectRequest(volume_id=volume_id, connection=dict(connection))
        target = path_of("connections", attachment_id)
        return await self._ask(
            Connected, "PUT", target, body, operation=operation, timeout_s=timeout_s
        )

    async def disconnect(
        self,
        attachment_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Undo `connect`; nothing when it is not connected. Conflict: a guest still uses it."""
        target = path_of("connections", attachment_id)
        await self._ask(None, "DELETE", target, operation=operation, timeout_s=timeout_s)

    async def plug_disk(
        self,
        server_id: str,
        disk: DiskSpec,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> GuestDisk:
        """Connect a volume and give it to a running or stopped guest; answers its device.

        NotFound: no such guest, or the volume is not to be reached; Conflict: the guest has the
        volume by another attachment; NoCapacity: it has no room.
        """
        target = path_of("servers", server_id, "disks", disk.volume_id)
        return await self._ask(
            GuestDisk, "PUT", target, disk, operation=operation, timeout_s=timeout_s
        )

    async def unplug_disk(
        self,
        server_id: str,
        volume_id: str,
        attachment_id: str = "",
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Take a disk away, see that the guest let go, and disconnect its backend.

        Nothing when the guest has none, or has the volume by another attachment; a backend that
        another guest uses stays connected. Without an attachment only the guest's disk goes.
        Conflict: the guest keeps it; everything is as before.
        """
        target = unplug_path(server_id, volume_id, attachment_id)
        answer = await self._exchange("DELETE", target, operation=operation, timeout_s=timeout_s)
        if attachment_id and answer.status == 204:
            # An agent of the release before has not looked at the attachment.
            await self.disconnect(attachment_id, operation=operation, timeout_s=timeout_s)

    async def resize_disk(
        self,
        server_id: str,
        volume_id: str,
        size_bytes: int,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> DiskSize:
        """Grow a volume's file and tell the guest; one so big already is only told.

        Invalid: it is larger than that; NotFound: no such guest or disk; NoCapacity: no room.
        """
        target = path_of("servers", server_id, "disks", volume_id, "size")
        body = DiskSizeRequest(size_bytes)
        return await self._ask(
            DiskSize, "PUT", target, body, operation=operation, timeout_s=timeout_s
        )

    async def forget_resize(
        self,
        server_id: str,
        volume_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """End this operation's `resize_disk`: a late one is 410. It shrinks nothing."""
        target = path_of("servers", server_id, "disks", volume_id, "size")
        await self._ask(None, "DELETE", target, operation=operation, timeout_s=timeout_s)

    async def show_disk_size(self, server_id: str, volume_id: str) -> DiskSize:
        """Return how big a disk is. NotFound: no such guest or disk."""
        return await self._ask(
            DiskSize, "GET", path_of("servers", server_id, "disks", volume_id, "size")
        )
