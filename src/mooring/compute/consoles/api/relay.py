"""Bytes between a websocket and a guest's serial port, until either side ends.

Nothing is read ahead: what one side does not take, the other one has to wait with.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect

from mooring import http_limits
from mooring.agent_api.serial import SERIAL_PIECE_BYTES, SerialInput
from mooring.errors import MooringError, NotFound

if TYPE_CHECKING:
    from mooring.agent_api.client import AgentClient

log = structlog.get_logger()
_CLOSED, _AWAY, _FAILED = 1000, 1001, 1011
_REASON_BYTES = 120
"""What a message that closes a websocket has room for (RFC 6455 5.5)."""


class _Ended(Exception):
    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code, self.why = code, why


class Relay:
    """One console that is open."""

    def __init__(
        self, agent: AgentClient, server_id: str, session_id: str, socket: WebSocket
    ) -> None:
        self._agent, self._names, self._socket = agent, (server_id, session_id), socket
        self._moved_at = time.monotonic()

    async def run(self, subprotocol: str | None) -> None:
        """Accept the websocket, and hand on what comes until either side ends."""
        ended = _Ended(_CLOSED, "")
        try:
            await self._socket.accept(subprotocol)
            async with asyncio.timeout(http_limits.CONSOLE_S):
                await self._both()
        except _Ended as error:
            ended = error
        except WebSocketDisconnect:
            ended = _Ended(_CLOSED, "")
        except TimeoutError:
            ended = _Ended(_CLOSED, "This console was open for too long. Open it again.")
        except NotFound as error:
            ended = _Ended(_AWAY, error.public)
        except MooringError as error:
            ended = _Ended(_FAILED, error.public)
        finally:
            await self._let_go()
        await self._close(ended)

    async def _both(self) -> None:
        """Raise what ends the first of both directions."""
        ways = [asyncio.create_task(way()) for way in (self._show, self._type)]
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in done:
                way.result()
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _show(self) -> None:
        """Show what the guest writes."""
        after = 0
        while True:
            self._require_use()
            come = await self._agent.read_serial(*self._names, after, http_limits.CONSOLE_ASK_S)
            if come.data:
                await self._send(come.data)
                after, self._moved_at = come.next, time.monotonic()
            if come.ended:
                raise _Ended(_AWAY, come.ended)

    async def _send(self, data: bytes) -> None:
        try:
            async with asyncio.timeout(http_limits.CONSOLE_READ_S):
                await self._socket.send_bytes(data)
        except TimeoutError as error:
            raise _Ended(_CLOSED, "What the guest writes was not read.") from error

    async def _type(self) -> None:
        """Type what comes from the websocket."""
        typed = 0
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                raise _Ended(_CLOSED, "")
            data: bytes = message.get("bytes") or (message.get("text") or "").encode("utf-8")
            self._moved_at = taken_at = time.monotonic()
            while data:
                piece = SerialInput(after=typed, data=data[:SERIAL_PIECE_BYTES])
                taken = await self._agent.write_serial(*self._names, piece)
                if taken > typed:
                    data, typed, taken_at = data[taken - typed :], taken, time.monotonic()
                elif time.monotonic() - taken_at > http_limits.CONSOLE_READ_S:
                    # Whether the client has hung up meanwhile is not seen either.
                    raise _Ended(_CLOSED, "The guest does not take what is typed. Try again later.")

    def _require_use(self) -> None:
        if time.monotonic() - self._moved_at > http_limits.CONSOLE_IDLE_S:
            raise _Ended(_CLOSED, "Nothing came over this console for too long. Open it again.")

    async def _let_go(self) -> None:
        """Have the host let go of the port; one that does not answer does so by itself, later."""
        try:
            await asyncio.shield(self._agent.close_serial(*self._names))
        except MooringError as error:
            log.info("a console is left to its host", host=self._agent.name, reason=str(error))

    async def _close(self, ended: _Ended) -> None:
        reason = ended.why.encode("utf-8")[:_REASON_BYTES].decode("utf-8", "ignore")
        try:
            await self._socket.close(ended.code, reason)
        except (RuntimeError, WebSocketDisconnect):
            # Its client has closed it, or is gone.
            return
