"""The client's verbs about volumes in the pools of a host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.agent_api.calls import Calls, path_of
from mooring.agent_api.volumes import (
    ContentRequest,
    Copying,
    Export,
    ExportRequest,
    Extended,
    Holders,
    SizeRequest,
    VolumeFile,
    VolumeSpec,
)
from mooring.fence.operation import Operation
from mooring.limits import AGENT_LONG_CALL_S


class VolumeCalls(Calls):
    """A part of `AgentClient`."""

    async def show_volume(self, volume_id: str) -> VolumeFile | None:
        """Return a volume of the host's pools, or None."""
        return await self._find(VolumeFile, path_of("volumes", volume_id))

    async def put_volume(
        self,
        volume_id: str,
        spec: VolumeSpec,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> VolumeFile:
        """Make a volume. NoCapacity: the pool is full; NotFound: no such pool or cached image."""
        target = path_of("volumes", volume_id)
        return await self._ask(
            VolumeFile, "PUT", target, spec, operation=operation, timeout_s=timeout_s
        )

    async def delete_volume(
        self,
        volume_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Remove a volume; nothing when there is none. Conflict: it is exported."""
        target = path_of("volumes", volume_id)
        await self._ask(None, "DELETE", target, operation=operation, timeout_s=timeout_s)

    async def export_volume(
        self,
        volume_id: str,
        attachment_id: str,
        connector: Mapping[str, Any],
        *,
        operation: Operation | None = None,
    ) -> dict[str, Any]:
        """Let a host reach a volume; returns connection_info. Invalid: not a host for this pool."""
        target = path_of("volumes", volume_id, "exports", attachment_id)
        body = ExportRequest(dict(connector))
        return (await self._ask(Export, "PUT", target, body, operation=operation)).connection_info

    async def unexport_volume(
        self, volume_id: str, attachment_id: str, *, operation: Operation | None = None
    ) -> None:
        """Undo `export_volume`; nothing when there is no such export."""
        target = path_of("volumes", volume_id, "exports", attachment_id)
        await self._ask(None, "DELETE", target, operation=operation)

    async def show_holders(self, volume_id: str) -> Holders:
        """Return who has a volume's image open. NotFound: no such volume."""
        return await self._ask(Holders, "GET", path_of("volumes", volume_id, "holders"))

    async def fence_holder(
        self, volume_id: str, attachment_id: str, *, operation: Operation | None = None
    ) -> None:
        """Take a volume's image from one attachment, whoever has it open there.

        Invalid: the storage cannot; NotFound: no such volume.
        """
        target = path_of("volumes", volume_id, "fences", attachment_id)
        await self._ask(None, "PUT", target, operation=operation)

    async def lift_fence(
        self, volume_id: str, attachment_id: str, *, operation: Operation | None = None
    ) -> None:
        """Undo `fence_holder`; nothing when there is no such fence."""
        target = path_of("volumes", volume_id, "fences", attachment_id)
        await self._ask(None, "DELETE", target, operation=operation)

    async def extend_volume(
        self,
        volume_id: str,
        size_gib: int,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> Extended:
        """Grow a volume, or find it so big; `needs_compute`: QEMU has it, nothing was changed.

        Raises NoCapacity, NotFound, Invalid.
        """
        target = path_of("volumes", volume_id, "size")
        body = SizeRequest(size_gib)
        return await self._ask(
            Extended, "PUT", target, body, operation=operation, timeout_s=timeout_s
        )

    async def forget_extend(
        self,
        volume_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """End this operation's `extend_volume`: a late one is 410. It shrinks nothing."""
        target = path_of("volumes", volume_id, "size")
        await self._ask(None, "DELETE", target, operation=operation, timeout_s=timeout_s)

    async def replace_content(
        self,
        volume_id: str,
        image_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> VolumeFile:
        """Give a volume the content of a cached image, and none of what it had: all or nothing.

        Raises Conflict while it is exported or has snapshots, NoCapacity, NotFound, Invalid.
        """
        target = path_of("volumes", volume_id, "content")
        body = ContentRequest(image_id)
        return await self._ask(
            VolumeFile, "PUT", target, body, operation=operation, timeout_s=timeout_s
        )

    async def forget_content(
        self,
        volume_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """End this operation's `replace_content`: a late one is 410. What it replaced stays so."""
        target = path_of("volumes", volume_id, "content")
        await self._ask(None, "DELETE", target, operation=operation, timeout_s=timeout_s)

    async def show_copying(self, volume_id: str) -> Copying:
        """Return how far a volume's content has been written by `put_volume` or this."""
        return await self._ask(Copying, "GET", path_of("volumes", volume_id, "content"))
