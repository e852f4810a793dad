"""The client's verbs about connected volumes and the disks of guests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.agent_api import verbs
from mooring.agent_api.calls import Calls
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


class DiskCalls(Calls):
    """A part of `AgentClient`."""

    async def connect(
        self,
        attachment_id: str,
        volume_id: str,
        connection: Mapping[str, Any],
        *,
        server_id: str = "",
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> Connected:
        """Connect a volume's backend to the host, for a guest; `connection` nested or flat."""
        request = ConnectRequest(
            volume_id=volume_id, connection=dict(connection), server_id=server_id
        )
        return await self.ask(
            verbs.CONNECT,
            attachment_id,
            body=request,
            operation=operation,
            timeout_s=timeout_s,
        )

    async def disconnect(
        self,
        attachment_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Undo `connect`; nothing when it is not connected. Conflict: a guest still uses it."""
        await self.ask(verbs.DISCONNECT, attachment_id, operation=operation, timeout_s=timeout_s)

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
        return await self.ask(
            verbs.PLUG_DISK,
            server_id,
            disk.volume_id,
            body=disk,
            operation=operation,
            timeout_s=timeout_s,
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
        Conflict: the guest keeps it; everything is as before. An error with the detail `RELEASED`
        says that the guest has let go, and its backend has not.
        """
        verb = verbs.UNPLUG_DISK
        target = verb.target(server_id, volume_id, attachment_id=attachment_id)
        answer = await self._exchange(verb, target, operation=operation, timeout_s=timeout_s)
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
        return await self.ask(
            verbs.RESIZE_DISK,
            server_id,
            volume_id,
            body=DiskSizeRequest(size_bytes),
            operation=operation,
            timeout_s=timeout_s,
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
        await self.ask(
            verbs.FORGET_RESIZE, server_id, volume_id, operation=operation, timeout_s=timeout_s
        )

    async def show_disk_size(self, server_id: str, volume_id: str) -> DiskSize:
        """Return how big a disk is. NotFound: no such guest or disk.

        An error with the detail `STORAGE_AWAY`: the guest is off, and its files are not there now.
        """
        return await self.ask(verbs.SHOW_DISK_SIZE, server_id, volume_id)
