"""The client's verbs about shares that a host mounts for its guests."""

from __future__ import annotations

from mooring.agent_api import verbs
from mooring.agent_api.calls import Calls
from mooring.agent_api.guest_shares import Mounted, MountRequest
from mooring.fence.operation import Operation
from mooring.limits import AGENT_LONG_CALL_S


class GuestShareCalls(Calls):
    """A part of `AgentClient`."""

    async def mount_share(
        self,
        server_id: str,
        share_id: str,
        request: MountRequest,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> Mounted:
        """Mount a share for a server, or find it mounted; servers of one host share a mount.

        Invalid: no export that can be mounted here; NotFound: its server has no such export;
        Forbidden: it lets this host in by no rule; Conflict: it is mounted here with another id.
        Unavailable: its server does not answer in time; nothing is left mounted.
        """
        return await self.ask(
            verbs.MOUNT_SHARE,
            server_id,
            share_id,
            body=request,
            operation=operation,
            timeout_s=timeout_s,
        )

    async def unmount_share(
        self,
        server_id: str,
        share_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Note that a server needs a share no more, and unmount it unless another one does.

        A guest that is off loses it from its definition. Conflict: the guest runs with it.
        """
        await self.ask(
            verbs.UNMOUNT_SHARE, server_id, share_id, operation=operation, timeout_s=timeout_s
        )
