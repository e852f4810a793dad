"""The client's verbs about volumes in the pools of a host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.agent_api import verbs
from mooring.agent_api.calls import Calls
from mooring.agent_api.volumes import (
    AdoptRequest,
    ContentRequest,
    Copying,
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
        return await self.find(verbs.SHOW_VOLUME, volume_id)

    async def put_volume(
        self,
        volume_id: str,
        spec: VolumeSpec,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> VolumeFile:
        """Make a volume. NoCapacity: the pool is full; NotFound: no such pool or cached image."""
        return await self.ask(
            verbs.PUT_VOLUME, volume_id, body=spec, operation=operation, timeout_s=timeout_s
        )

    async def delete_volume(
        self,
        volume_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Remove a volume; nothing when there is none. Conflict: it is exported."""
        await self.ask(verbs.DELETE_VOLUME, volume_id, operation=operation, timeout_s=timeout_s)

    async def claim_volume(
        self,
        volume_id: str,
        *,
        operation: Operation,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Wait for what acts on a volume, and let no call of an older lock make or remove it.

        Nothing is changed, and there need be none. An agent of the release before keeps none off.
        """
        await self.claim(verbs.CLAIM_VOLUME, volume_id, operation, timeout_s)

    async def export_volume(
        self,
        volume_id: str,
        attachment_id: str,
        connector: Mapping[str, Any],
        *,
        operation: Operation | None = None,
    ) -> dict[str, Any]:
        """Let a host reach a volume; returns connection_info. Invalid: not a host for this pool."""
        body = ExportRequest(dict(connector))
        names = volume_id, attachment_id
        answer = await self.ask(verbs.EXPORT_VOLUME, *names, body=body, operation=operation)
        return answer.connection_info

    async def unexport_volume(
        self, volume_id: str, attachment_id: str, *, operation: Operation | None = None
    ) -> None:
        """Undo `export_volume`; nothing when there is no such export."""
        await self.ask(verbs.UNEXPORT_VOLUME, volume_id, attachment_id, operation=operation)

    async def show_holders(self, volume_id: str) -> Holders:
        """Return who has a volume's image open. NotFound: no such volume."""
        return await self.ask(verbs.SHOW_HOLDERS, volume_id)

    async def fence_holder(
        self, volume_id: str, attachment_id: str, *, operation: Operation | None = None
    ) -> None:
        """Take a volume's image from one attachment, whoever has it open there.

        Invalid: the storage cannot; NotFound: no such volume.
        """
        await self.ask(verbs.FENCE_HOLDER, volume_id, attachment_id, operation=operation)

    async def lift_fence(
        self, volume_id: str, attachment_id: str, *, operation: Operation | None = None
    ) -> None:
        """Undo `fence_holder`; nothing when there is no such fence."""
        await self.ask(verbs.LIFT_FENCE, volume_id, attachment_id, operation=operation)

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
        return await self.ask(
            verbs.EXTEND_VOLUME,
            volume_id,
            body=SizeRequest(size_gib),
            operation=operation,
            timeout_s=timeout_s,
        )

    async def forget_extend(
        self,
        volume_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """End this operation's `extend_volume`: a late one is 410. It shrinks nothing."""
        await self.ask(verbs.FORGET_EXTEND, volume_id, operation=operation, timeout_s=timeout_s)

    async def replace_content(
        self,
        volume_id: str,
        image_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> VolumeFile:
        """Give a volume the content of a cached image, and none of what it had: all or nothing.

        Its snapshots stay. Raises Conflict while it is exported or one of them has not ended,
        NoCapacity, NotFound, Invalid.
        """
        return await self.ask(
            verbs.REPLACE_CONTENT,
            volume_id,
            body=ContentRequest(image_id),
            operation=operation,
            timeout_s=timeout_s,
        )

    async def forget_content(
        self,
        volume_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """End this operation's `replace_content`: a late one is 410. What it replaced stays so."""
        await self.ask(verbs.FORGET_CONTENT, volume_id, operation=operation, timeout_s=timeout_s)

    async def adopt_copy(
        self,
        volume_id: str,
        copy_id: str,
        wanted: AdoptRequest,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> VolumeFile:
        """Let a copy be the volume from now on, and remove what that was; or find it so.

        NotFound: there is neither. Conflict: what it was is exported; nothing was changed.
        """
        return await self.ask(
            verbs.ADOPT_COPY,
            volume_id,
            copy_id,
            body=wanted,
            operation=operation,
            timeout_s=timeout_s,
        )

    async def show_copying(self, volume_id: str) -> Copying:
        """Return how far a volume's content has been written by `put_volume` or this."""
        return await self.ask(verbs.SHOW_COPYING, volume_id)
