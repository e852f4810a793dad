"""Where other hosts fetch the disks that this one offers. It listens only while it offers some.

A caller says one line: a key, which of the offer's disks, and from which offset on. It is answered
`yes`, and then, piece after piece, offset, length and data of what is not zeros; a piece of no
length, at the offset of the end, is the last. Whatever is wrong, the answer is `no`. So nothing
that a caller says is ever made a path of, and nobody learns more than whether a key is good.

TLS 1.3 with the host's certificate, or, on the control plane's own machine, with one that the offer
brings along. Callers show none: a host's certificate is for serving alone (ADR 7).
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING

import structlog
from msgspec import Struct

from mooring import certificates, sockets
from mooring.agent.blocks import HEAD, Piece, Reader
from mooring.agent.offers import KEY, Offers, Standing, is_unchanged
from mooring.agent.pace import Pace
from mooring.agent.settings import AgentSettings
from mooring.certificates import Held
from mooring.errors import MooringError
from mooring.fence.threads import run_to_end
from mooring.probe import NoProbe, Probe

if TYPE_CHECKING:
    from mooring.agent.certificate import Credentials

log = structlog.get_logger()
YES, NO = b"yes\n", b"no\n"
_LINE_BYTES = 128
_LINE = re.compile(rf"({KEY.pattern}) ([0-9]{{1,2}}) ([0-9]{{1,18}})\n".encode())
# Who has no key is given this long, in seconds, and one of so many places.
_ASK_S = 10.0
_CALLERS = 32
_SEND_S = 120.0
_BUFFER_BYTES = 4 * 1024**2
_LIFETIME_S = 90 * 86400.0


class Shown(Struct, frozen=True):
    """Where a door is, and by what it is known: as in `agent_api.copies.Offer`."""

    address: str
    identity: str
    authority: str


class Door:
    """The door of one host. For one event loop."""

    def __init__(self, settings: AgentSettings, offers: Offers) -> None:
        self._settings, self._offers = settings, offers
        self.pace = Pace(settings.copy_mib_per_s * 1024**2)
        self._places = asyncio.Semaphore(_CALLERS)
        self._accepting: asyncio.Task[None] | None = None
        self._callers: set[asyncio.Task[None]] = set()
        self._asking: dict[socket.socket, asyncio.Task[None]] = {}
        """Those who have shown no key yet; the one that came first is the first."""
        self._listening: socket.socket | None = None
        self._shown = Shown("", "", "")
        self._turn = asyncio.Lock()
        self.probe: Probe = NoProbe()

    async def open(self, credentials: Credentials | None) -> Shown:
        """Listen, unless it does; return where. Raises Invalid, Unavailable: it cannot listen."""
        async with self._turn:
            if self._listening is None:
                self._listen(credentials)
            return self._shown

    async def close(self) -> None:
        """Listen no more, and end what goes on."""
        async with self._turn:
            if self._listening is None:
                return
            ended = [task for task in (self._accepting, *self._callers) if task is not None]
            for task in ended:
                task.cancel()
            try:
                await asyncio.gather(*ended, return_exceptions=True)
            finally:
                # Also for a caller who is cancelled: nobody accepts any more.
                self._asking.clear()
                self._listening.close()
                self._listening = self._accepting = None

    def _listen(self, credentials: Credentials | None) -> None:
        """Listen with all that callers need, or not at all: who asks next begins anew."""
        held = self._hold_own() if credentials is None else credentials.member.held
        context = certificates.server_context(held, asks_callers=False)
        identity = certificates.enrolled_name(held.certificate)
        authority = held.authority.decode("ascii")
        address, _, port = (self._settings.copy_listen or f"{self._bracketed}:0").rpartition(":")
        listening = sockets.open_listener(
            address.strip("[]"), int(port), given_by="the setting copy_listen"
        )
        try:
            self._shown = Shown(self._reached_at(listening), identity, authority)
        except BaseException:
            listening.close()
            raise
        self._listening = listening
        self._accepting = asyncio.create_task(self._accept(listening, context))

    @property
    def _bracketed(self) -> str:
        ip = self._settings.ip
        return f"[{ip}]" if ":" in ip else ip

    def _reached_at(self, listening: socket.socket) -> str:
        address, port = listening.getsockname()[:2]
        if ip_address(address).is_unspecified:
            return f"{self._bracketed}:{port}"
        return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"

    def _hold_own(self) -> Held:
        """Certify a host that never joined; who fetches hears by the offer whom to believe."""
        now = datetime.now(UTC)
        authority, key = certificates.make_authority(now), certificates.new_key()
        wish = certificates.read_request(certificates.make_request(key, self._settings.name))
        made = certificates.sign_host(
            authority, wish, "local", self._settings.ip, now=now, lifetime_s=_LIFETIME_S
        )
        return Held(made, key, authority.certificate)

    async def _accept(self, listening: socket.socket, context: ssl.SSLContext) -> None:
        loop, is_told = asyncio.get_running_loop(), False
        while True:
            try:
                peer, _ = await loop.sock_accept(listening)
            except Exception as error:  # noqa: BLE001  (nobody waits for this loop; it must go on)
                if not is_told:
                    log.warning("nobody can be let in for a copy", reason=repr(error))
                is_told = True
                await asyncio.sleep(1.0)
                continue
            is_told = False
            await self._find_place(peer)
            caller = asyncio.create_task(self._serve(peer, context))
            self._callers.add(caller)
            self._asking[peer] = caller
            caller.add_done_callback(self._leave)
            # He begins before the next one comes, who may end him.
            await asyncio.sleep(0)

    async def _find_place(self, peer: socket.socket) -> None:
        """Take the place of whoever has asked for nothing the longest, or wait for one.

        Those behind this caller wait in the kernel, and cost nothing.
        """
        if self._places.locked() and self._asking:
            longest = next(iter(self._asking))
            self._asking.pop(longest).cancel()
        try:
            await self._places.acquire()
        except asyncio.CancelledError:
            peer.close()
            raise

    def _leave(self, caller: asyncio.Task[None]) -> None:
        self._callers.discard(caller)
        self._places.release()
        if not caller.cancelled() and (error := caller.exception()) is not None:
            log.error("a caller for a copy was not answered", reason=repr(error))

    async def _serve(self, peer: socket.socket, context: ssl.SSLContext) -> None:
        try:
            await self._hear(peer, context)
        finally:
            self._asking.pop(peer, None)

    async def _hear(self, peer: socket.socket, context: ssl.SSLContext) -> None:
        reader = asyncio.StreamReader(limit=_LINE_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, peer, ssl=context, ssl_handshake_timeout=_ASK_S
            )
        except (OSError, TimeoutError) as error:
            peer.close()
            log.info("a caller for a copy went away", reason=repr(error))
            return
        transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            async with asyncio.timeout(_ASK_S):
                line = await reader.readuntil(b"\n")
            self._asking.pop(peer, None)
            await self._answer(line, writer)
            await _until_sent(writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            log.info("a caller for a copy went away, or said too much")
        except MooringError as error:
            log.warning("a copy was broken off", reason=str(error))
        finally:
            transport.abort()

    async def _answer(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        asked = _LINE.fullmatch(line)
        standing = self._offers.find(asked[1].decode("ascii")) if asked else None
        number, begin = (int(asked[2]), int(asked[3])) if asked else (0, 0)
        if standing is None or number >= len(standing.given):
            log.warning("somebody asked for a disk without a key that is good")
            await _send(writer, NO)
            return
        given = standing.given[number]
        if not await run_to_end(lambda: is_unchanged(given)):
            log.warning("a disk that is offered was changed", server=standing.server_id)
            await _send(writer, NO)
            return
        source = Reader(given.path, begin)
        try:
            await self._give(standing, source, writer)
        finally:
            source.close()

    async def _give(self, standing: Standing, source: Reader, writer: asyncio.StreamWriter) -> None:
        """Send a file, for as long as it is offered."""
        await _send(writer, YES)
        while (piece := await run_to_end(source.next)) is not None:
            await self.pace.take(len(piece.data))
            if not self._offers.stands(standing):
                log.info("a copy was broken off: its offer is withdrawn", server=standing.server_id)
                return
            if piece.data:
                await _send(writer, _frame(piece))
                self.probe.at("agent/put_offer/sent")
        await _send(writer, _frame(Piece(source.size_bytes, b"")))


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    async with asyncio.timeout(_SEND_S):
        await writer.drain()


async def _until_sent(writer: asyncio.StreamWriter) -> None:
    """Return when the caller has all, or is gone."""
    writer.close()
    with suppress(OSError):
        async with asyncio.timeout(_SEND_S):
            await writer.wait_closed()


def _frame(piece: Piece) -> bytes:
    return HEAD.pack(piece.offset, len(piece.data)) + piece.data
