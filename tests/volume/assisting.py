"""A compute service that takes snapshots for the volume service, or refuses to."""

from __future__ import annotations

from typing import Any, cast

from mooring.agent.simulated_overlays import merge
from mooring.agent.world import SimulatedDisk
from mooring.agent_api.overlays import MergeRequest
from mooring.clients.session import Caller, Session
from mooring.errors import MooringError
from mooring.fence.operation import Operation
from tests.volume.cloud import Compute, VolumeCloud
from tests.volume.test_snapshots import act

_MERGED = {"status": "deleting"}


class Buried:
    """The part of a session that ends operations."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.knows = True
        """Whether the service knows operations, as a real Nova does not."""

    async def bury(self, operation: Operation) -> list[str] | None:
        self.keys.append(operation.key)
        return [] if self.knows else None


class Assisting(Compute):
    """A compute service that answers `says` when it is asked, or refuses."""

    def __init__(self, cloud: VolumeCloud) -> None:
        super().__init__()
        self.cloud, self.buried = cloud, Buried()
        self.session = cast("Session", self.buried)
        self.says: dict[str, str] | None = None
        self.refusal: MooringError | None = None
        self.calls: list[tuple[Any, ...]] = []

    async def create_assisted_snapshot(
        self,
        caller: Caller,
        volume_id: str,
        snapshot_id: str,
        new_file: str,
        *,
        operation: Operation | None = None,
    ) -> None:
        await self._answer(snapshot_id, new_file)

    async def delete_assisted_snapshot(
        self,
        caller: Caller,
        volume_id: str,
        snapshot_id: str,
        files: tuple[str | None, str | None],
        *,
        operation: Operation | None = None,
    ) -> None:
        if self.refusal is None and self.says == _MERGED:
            self.merge(volume_id, *files)
        await self._answer(snapshot_id, *files)

    def merge(self, volume_id: str, file: str | None, into: str | None) -> None:
        """Do what a guest's hypervisor does to the files."""
        path = self.cloud.storage.device_path(volume_id)
        disk = SimulatedDisk(
            volume_id=volume_id,
            attachment_id="",
            device="/dev/vdb",
            path=path,
            format="qcow2",
            size_bytes=0,
        )
        merge(disk, MergeRequest(file_to_merge=file, merge_target_file=into))

    async def _answer(self, snapshot_id: str, *files: str | None) -> None:
        self.calls.append(files)
        if self.refusal is not None:
            raise self.refusal
        if self.says is not None:
            answer = await tell(self.cloud, snapshot_id, **self.says)
            assert answer == 202


async def tell(cloud: VolumeCloud, snapshot_id: str, status: str, progress: str = "90%") -> int:
    value = {"status": status, "progress": progress}
    answer = await act(cloud, snapshot_id, "os-update_snapshot_status", value, user="compute")
    return answer.status
