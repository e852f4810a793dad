"""The client's verbs about captures: of the root disks of guests, and of volumes."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

import structlog

from mooring.agent_api import verbs
from mooring.agent_api.calls import Calls
from mooring.agent_api.captures import Capture, CaptureRequest, DiskFormat
from mooring.agent_api.transport import Request
from mooring.agent_api.verbs import Verb
from mooring.errors import NotFound, Unavailable
from mooring.fence.operation import Operation
from mooring.limits import AGENT_CALL_S, AGENT_CAPTURE_S, AGENT_LONG_CALL_S, CAPTURE_PIECE_BYTES

log = structlog.get_logger()


class CaptureCalls(Calls):
    """A part of `AgentClient`."""

    async def put_capture(
        self,
        server_id: str,
        image_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_CAPTURE_S,
    ) -> Capture:
        """Have a host copy a guest's root disk, whatever the guest does, or find it copied.

        NotFound: no such guest, or it boots from a volume. NoCapacity: no room, and nothing is
        left. Conflict: something else is done to the disk. The guest goes on as before.
        """
        return await self.ask(
            verbs.PUT_CAPTURE, server_id, image_id, operation=operation, timeout_s=timeout_s
        )

    async def show_capture(self, server_id: str, image_id: str) -> Capture | None:
        """Return a capture, or None where none was begun."""
        return await self.find(verbs.SHOW_CAPTURE, server_id, image_id)

    def read_capture(self, server_id: str, capture: Capture) -> AsyncIterator[bytes]:
        """Yield the data of a capture that is whole, piece by piece.

        Unavailable where the host does not answer, and at the end for data that differ from what
        was captured: whoever uploads them has not sent them to their end by then. NotFound.
        """
        return self._read_whole(verbs.READ_CAPTURE, server_id, capture)

    async def delete_capture(
        self,
        server_id: str,
        image_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """End a capture that is made, and remove it; nothing when there is none."""
        await self.ask(
            verbs.DELETE_CAPTURE, server_id, image_id, operation=operation, timeout_s=timeout_s
        )

    async def put_volume_capture(
        self,
        volume_id: str,
        image_id: str,
        disk_format: DiskFormat,
        *,
        snapshot_id: str = "",
        operation: Operation | None = None,
        timeout_s: float = AGENT_CAPTURE_S,
    ) -> Capture:
        """Have a host copy a volume that nobody has, or a snapshot of it, or find it copied.

        NotFound: no such volume, or snapshot. Conflict: the volume, and no snapshot of it, is to be
        copied, and is exported. NoCapacity: no room; nothing is left.
        """
        return await self.ask(
            verbs.PUT_VOLUME_CAPTURE,
            volume_id,
            image_id,
            body=CaptureRequest(disk_format, snapshot_id),
            operation=operation,
            timeout_s=timeout_s,
        )

    async def show_volume_capture(self, volume_id: str, image_id: str) -> Capture | None:
        """Return a capture, or None where none was begun."""
        return await self.find(verbs.SHOW_VOLUME_CAPTURE, volume_id, image_id)

    def read_volume_capture(
        self, volume_id: str, capture: Capture, *, begins_at: int = 0
    ) -> AsyncIterator[bytes]:
        """Yield the data of a capture, as `read_capture` does, or what follows so many bytes.

        Whether those that came before and these are sound together, who has both has to see.
        """
        verb = verbs.READ_VOLUME_CAPTURE
        if begins_at:
            return self._read_rest(verb, volume_id, capture, begins_at)
        return self._read_whole(verb, volume_id, capture)

    async def delete_volume_capture(
        self,
        volume_id: str,
        image_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """End a capture that is made, and remove it; nothing when there is none."""
        try:
            await self.ask(
                verbs.DELETE_VOLUME_CAPTURE,
                volume_id,
                image_id,
                operation=operation,
                timeout_s=timeout_s,
            )
        except NotFound:
            log.info("an agent of the release before has no captures of volumes", host=self.name)

    async def _read_whole(
        self, verb: Verb[bytes], of_id: str, capture: Capture
    ) -> AsyncIterator[bytes]:
        digest, offset, held = hashlib.sha256(), 0, b""
        while offset < capture.size_bytes:
            # The last piece is held back until all is known to be sound.
            if held:
                yield held
            held = await self._read_piece(verb, (of_id, capture.image_id), offset)
            if not held:
                break
            digest.update(held)
            offset += len(held)
        if offset != capture.size_bytes or digest.hexdigest() != capture.sha256:
            raise Unavailable(
                f"The capture {capture.image_id} of {of_id} came damaged from host {self.name}. "
                "Delete it, and have it made anew."
            )
        yield held

    async def _read_rest(
        self, verb: Verb[bytes], of_id: str, capture: Capture, offset: int
    ) -> AsyncIterator[bytes]:
        while offset < capture.size_bytes:
            piece = await self._read_piece(verb, (of_id, capture.image_id), offset)
            if not piece:
                raise Unavailable(
                    f"The capture {capture.image_id} of {of_id} on host {self.name} ends after "
                    f"{offset} bytes. Delete it, and have it made anew."
                )
            yield piece
            offset += len(piece)

    async def _read_piece(self, verb: Verb[bytes], ids: tuple[str, str], offset: int) -> bytes:
        target = verb.target(*ids, offset=offset, length=CAPTURE_PIECE_BYTES)
        return (await self._finish(Request("GET", target, {}), AGENT_CALL_S)).body
