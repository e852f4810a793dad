"""The client's verbs about snapshots of volumes."""

from __future__ import annotations

from mooring.agent_api import verbs
from mooring.agent_api.calls import Calls
from mooring.agent_api.snapshots import SnapshotFile, SnapshotSpec
from mooring.agent_api.volumes import VolumeFile
from mooring.fence.operation import Operation
from mooring.limits import AGENT_LONG_CALL_S


class SnapshotCalls(Calls):
    """A part of `AgentClient`."""

    async def show_snapshot(self, volume_id: str, snapshot_id: str) -> SnapshotFile | None:
        """Return a snapshot, taken, copied or prepared, or None."""
        return await self.find(verbs.SHOW_SNAPSHOT, volume_id, snapshot_id)

    async def put_snapshot(
        self,
        volume_id: str,
        snapshot_id: str,
        spec: SnapshotSpec,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> SnapshotFile:
        """Take, copy or prepare a snapshot.

        Conflict: the volume is in use, or has been written to meanwhile; NoCapacity, NotFound.
        """
        return await self.ask(
            verbs.PUT_SNAPSHOT,
            volume_id,
            snapshot_id,
            body=spec,
            operation=operation,
            timeout_s=timeout_s,
        )

    async def delete_snapshot(
        self,
        volume_id: str,
        snapshot_id: str,
        *,
        released: bool = False,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Merge the files of a snapshot, or remove what is a copy, or was only prepared.

        `released`: the hypervisor has said that its guest does not have what was prepared, which
        counts where the storage cannot tell. Conflict: the volume is in use, or may be, and only
        its hypervisor could.
        """
        more = {"released": "true"} if released else {}
        await self.ask(
            verbs.DELETE_SNAPSHOT,
            volume_id,
            snapshot_id,
            operation=operation,
            timeout_s=timeout_s,
            **more,
        )

    async def revert_volume(
        self,
        volume_id: str,
        snapshot_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> VolumeFile:
        """Give a volume the content of its newest snapshot: all of it or nothing.

        Raises Conflict while it is exported, or has newer snapshots; NotFound, NoCapacity.
        """
        return await self.ask(
            verbs.REVERT_VOLUME, volume_id, snapshot_id, operation=operation, timeout_s=timeout_s
        )

    async def forget_revert(
        self,
        volume_id: str,
        snapshot_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """End this operation's `revert_volume`: a late one is 410. What it reverted stays so."""
        await self.ask(
            verbs.FORGET_REVERT, volume_id, snapshot_id, operation=operation, timeout_s=timeout_s
        )

    async def record_merge(
        self,
        volume_id: str,
        snapshot_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Record that a hypervisor has merged the files; nothing without the snapshot.

        Conflict: the files say that it has not.
        """
        await self.ask(
            verbs.RECORD_MERGE, volume_id, snapshot_id, operation=operation, timeout_s=timeout_s
        )
