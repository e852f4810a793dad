"""The client's verbs about overlays of the disks of guests."""

from __future__ import annotations

from mooring.agent_api import verbs
from mooring.agent_api.calls import Calls
from mooring.agent_api.overlays import ActiveFile, MergeRequest, OverlayRequest
from mooring.fence.operation import Operation
from mooring.limits import AGENT_LONG_CALL_S, AGENT_MERGE_S


class OverlayCalls(Calls):
    """A part of `AgentClient`."""

    async def snapshot_disk(
        self,
        server_id: str,
        volume_id: str,
        snapshot_id: str,
        new_file: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> ActiveFile:
        """Let a guest write to a new overlay from now on, running or not.

        Invalid: the file is no overlay of the disk's own; Conflict: it lies below already; NotFound
        for guest, disk and file.
        """
        return await self.ask(
            verbs.SNAPSHOT_DISK,
            server_id,
            volume_id,
            snapshot_id,
            body=OverlayRequest(new_file),
            operation=operation,
            timeout_s=timeout_s,
        )

    async def take_back_snapshot(
        self,
        server_id: str,
        volume_id: str,
        snapshot_id: str,
        new_file: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_MERGE_S,
    ) -> None:
        """Undo `snapshot_disk`: what was written since goes down, and the guest writes there again.

        Nothing when the guest, its disk or the overlay is not there.
        """
        await self.ask(
            verbs.TAKE_BACK_SNAPSHOT,
            server_id,
            volume_id,
            snapshot_id,
            operation=operation,
            timeout_s=timeout_s,
            new_file=new_file,
        )

    async def merge_disk(
        self,
        server_id: str,
        volume_id: str,
        snapshot_id: str,
        merge: MergeRequest,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_MERGE_S,
    ) -> ActiveFile:
        """Merge files of a guest's disk, running or not; one that is merged already is fine.

        Invalid: the files are not of the disk, or not so; NotFound; Unavailable: it stopped early.
        """
        return await self.ask(
            verbs.MERGE_DISK,
            server_id,
            volume_id,
            snapshot_id,
            body=merge,
            operation=operation,
            timeout_s=timeout_s,
        )

    async def stop_merge(
        self,
        server_id: str,
        volume_id: str,
        snapshot_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """End this operation's `merge_disk`: a late one is 410. The disk reads as before."""
        await self.ask(
            verbs.STOP_MERGE,
            server_id,
            volume_id,
            snapshot_id,
            operation=operation,
            timeout_s=timeout_s,
        )
