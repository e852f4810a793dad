"""The client's verbs about a volume of a guest that is copied to another, and replaced by it."""

from __future__ import annotations

from mooring.agent_api import verbs
from mooring.agent_api.calls import Calls
from mooring.agent_api.disks import DiskSpec, GuestDisk
from mooring.agent_api.mirrors import Mirroring, SwitchRequest
from mooring.fence.operation import Operation
from mooring.limits import AGENT_LONG_CALL_S


class MirrorCalls(Calls):
    """A part of `AgentClient`."""

    async def mirror_disk(
        self,
        server_id: str,
        volume_id: str,
        new: DiskSpec,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Connect another volume, and begin to copy a running guest's volume to it.

        NotFound: no such guest, or it has no such volume. Conflict: it does not run, or something
        else is done to the disk. Invalid: the other volume is smaller, or has files below it.
        """
        await self.ask(
            verbs.MIRROR_DISK,
            server_id,
            volume_id,
            body=new,
            operation=operation,
            timeout_s=timeout_s,
        )

    async def mirroring(self, server_id: str, volume_id: str) -> Mirroring:
        """Return how far the copy is. Conflict: it ended before its time, as with its guest."""
        return await self.ask(verbs.SHOW_MIRRORING, server_id, volume_id)

    async def stop_mirror(
        self,
        server_id: str,
        volume_id: str,
        attachment_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """End a copy and disconnect the new volume, which `attachment_id` names.

        Nothing when there is none. Conflict with the detail `SWITCHED`: the guest writes to the new
        volume already.
        """
        await self.ask(
            verbs.STOP_MIRROR,
            server_id,
            volume_id,
            operation=operation,
            timeout_s=timeout_s,
            attachment_id=attachment_id,
        )

    async def switch_disk(
        self,
        server_id: str,
        volume_id: str,
        new: SwitchRequest,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> GuestDisk:
        """Let the guest write to the new volume, which is in step, and to it alone.

        A guest that does so already, or will at its next start, is left so. Conflict: there is no
        copy in step, and the guest has the old volume as before.
        """
        return await self.ask(
            verbs.SWITCH_DISK,
            server_id,
            volume_id,
            body=new,
            operation=operation,
            timeout_s=timeout_s,
        )
