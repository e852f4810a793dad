"""The serial ports of libvirt's guests, through streams of libvirt: its daemon may be another user.

A stream takes and gives no more than there is room for, and tells libvirt's own thread when there
is some. What comes is handed to the agent's loop from there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import libvirt
import structlog

from mooring.agent.guest_serial import SerialPort, check_talks
from mooring.agent.libvirt import serial_devices, states
from mooring.agent.libvirt.unplugging import LibvirtUnplugging
from mooring.errors import MooringError

log = structlog.get_logger()
_READABLE = libvirt.VIR_STREAM_EVENT_READABLE
_WRITABLE = libvirt.VIR_STREAM_EVENT_WRITABLE
_OVER = libvirt.VIR_STREAM_EVENT_ERROR | libvirt.VIR_STREAM_EVENT_HANGUP
_PIECE_BYTES = 16 * 1024
_WAITING_BYTES = 64 * 1024
_NOT_NOW = -2
"""What a stream answers that would have to wait."""


class LibvirtSerial(LibvirtUnplugging):
    """A part of `LibvirtHypervisor`."""

    async def check_serial(self, server_id: str) -> None:
        await self._look(server_id, lambda domain: _check(server_id, domain))

    async def open_serial(self, server_id: str) -> SerialPort:
        handle, loop = self._connection.handle, asyncio.get_running_loop()

        def open_stream(domain: Any) -> _Port:
            _check(server_id, domain)
            stream = handle.newStream(libvirt.VIR_STREAM_NONBLOCK)
            # The first port is meant when no device is named.
            domain.openConsole(None, stream, libvirt.VIR_DOMAIN_CONSOLE_FORCE)
            port = _Port(stream, loop, self._call)
            port.listen()
            return port

        return await self._look(server_id, open_stream)


def _check(server_id: str, domain: Any) -> None:
    is_open = serial_devices.is_open(domain.XMLDesc(0))
    check_talks(server_id, states.state_of(domain), is_open=is_open)


class _Port:
    """One stream. What both threads touch is behind the lock, which no call is made under."""

    def __init__(
        self, stream: Any, loop: asyncio.AbstractEventLoop, call: Callable[[Callable[[], Any]], Any]
    ) -> None:
        self._stream, self._loop, self._call = stream, loop, call
        self._lock = threading.Lock()
        self._came, self._to_send = bytearray(), bytearray()
        self._is_over = self._is_closed = False
        self._changed = asyncio.Event()

    def listen(self) -> None:
        """Begin to hear what the guest writes. Blocking."""
        self._stream.eventAddCallback(_READABLE | _OVER, self._heed, None)

    async def read(self) -> bytes:
        while True:
            with self._lock:
                found, was_full = bytes(self._came), len(self._came) >= _WAITING_BYTES
                self._came.clear()
                if not found and self._is_over:
                    return b""
                self._changed.clear()
            if was_full:
                await self._want()
            if found:
                return found
            await self._changed.wait()

    async def write(self, data: bytes, wait_s: float) -> int:
        with self._lock:
            if self._is_over:
                return 0
            self._to_send += data
        await self._want()
        try:
            async with asyncio.timeout(wait_s):
                while self._is_sending():
                    await self._changed.wait()
        except TimeoutError:
            pass
        with self._lock:
            # What libvirt's thread has in hand just now counts as taken, and goes first.
            left = min(len(data), len(self._to_send))
            del self._to_send[len(self._to_send) - left :]
        return len(data) - left

    async def close(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._end()
        try:
            await self._call(self._let_go)
        except MooringError as error:
            # One that has ended by itself, or whose daemon is gone, has nothing to let go of.
            log.debug("a serial port had ended", reason=str(error))

    def _let_go(self) -> None:
        try:
            self._stream.eventRemoveCallback()
        finally:
            self._stream.abort()

    def _is_sending(self) -> bool:
        with self._lock:
            self._changed.clear()
            return bool(self._to_send) and not self._is_over

    async def _want(self) -> None:
        await self._call(self._update)

    def _update(self) -> None:
        """Tell libvirt what is wanted of the stream by now. Blocking, in any thread."""
        with self._lock:
            wanted = 0 if self._is_over else _OVER
            if wanted and len(self._came) < _WAITING_BYTES:
                wanted |= _READABLE
            if wanted and self._to_send:
                wanted |= _WRITABLE
            is_closed = self._is_closed
        try:
            if not is_closed:
                self._stream.eventUpdateCallback(wanted)
        except libvirt.libvirtError as error:
            log.debug("a serial port ended", reason=str(error))
            self._end()

    def _heed(self, _stream: Any, events: int, _opaque: Any) -> None:
        """Take and give what is possible, in libvirt's thread: nobody hears what is raised here."""
        try:
            if events & _READABLE:
                self._take()
            if events & _WRITABLE:
                self._give()
            if events & _OVER:
                self._end()
        except libvirt.libvirtError as error:
            log.debug("a serial port ended", reason=str(error))
            self._end()
        # Of one that is over nothing is wanted: it would be told of again and again.
        self._update()
        self._wake()

    def _take(self) -> None:
        data = self._stream.recv(_PIECE_BYTES)
        if data == _NOT_NOW:
            return
        if not data:
            self._end()
        with self._lock:
            self._came += data

    def _give(self) -> None:
        with self._lock:
            piece = bytes(self._to_send[:_PIECE_BYTES])
            # Taken out before it is given: a caller who gives up counts what is left.
            del self._to_send[:_PIECE_BYTES]
        sent = self._stream.send(piece) if piece else 0
        with self._lock:
            self._to_send[:0] = piece[max(sent, 0) :]

    def _end(self) -> None:
        with self._lock:
            self._is_over = True
        self._wake()

    def _wake(self) -> None:
        # libvirt's thread may outlive the loop.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed.set)
