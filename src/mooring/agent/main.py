"""One agent as a process of its own, and who may call it.

On the control plane's machine it has a Unix socket that only its owner and root may use; elsewhere
it serves over TLS, and the control plane's certificate is asked for.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mooring import certificates, logs, state_dir
from mooring.agent.app import RunningAgent, open_agent
from mooring.agent.certificate import Credentials
from mooring.agent.limits import AGENT_BACKLOG
from mooring.agent.membership import Membership
from mooring.agent.settings import AgentSettings
from mooring.clock import RealClock
from mooring.errors import Conflict, Invalid, Unavailable
from mooring.http_refusals import Refusals, address_of
from mooring.http_server import Server
from mooring.limits import AGENT_STOP_S
from mooring.probe import Probe

log = structlog.get_logger()
_CREDENTIALS = struct.Struct("3i")
_SOCKET_BYTES = 107
"""The longest path of a socket that the kernel takes: it ends in a zero, of 108 bytes."""
_LOST = (
    "while this agent ran. It does nothing more, and its guests go on. Put the directory back and "
    "start the agent; if it is lost for good, take the host out of the cloud and let it join anew "
    "(docs/hosts.md)."
)


Ready = Callable[[RunningAgent], None]


async def serve(
    settings: AgentSettings,
    socket_path: Path,
    *,
    probe: Probe | None = None,
    ready: Ready | None = None,
) -> None:
    """Serve one host's agent until SIGTERM or SIGINT; `ready` is called once it answers.

    Raises Conflict and Unavailable as `open_agent` does, and Conflict when the socket is in use;
    Invalid when there is something else in its place, or no place, before anything is made.
    """
    await asyncio.to_thread(_require_place, socket_path, settings.state_dir)
    async with open_agent(settings, probe=probe) as running, _listen(socket_path) as listening:
        await _serve(running, listening, _OwnersOnly, ready=ready)


async def serve_afar(
    settings: AgentSettings,
    listening: socket.socket,
    member: Membership,
    *,
    probe: Probe | None = None,
    ready: Ready | None = None,
) -> None:
    """Serve as `serve` does, over TLS, and to the control plane of the host's cloud alone.

    `listening` is a TCP socket that listens already. Raises as `open_agent` does.
    """
    async with open_agent(settings, probe=probe) as running:
        context = certificates.server_context(member.held, asks_callers=True)
        running.agent.credentials = Credentials(settings.state_dir, member, context)
        if running.agent.moves_in_the_clear:
            log.warning(
                "running guests come and go in the clear, as the setting move_tls is false",
                remedy="leave it out on every host, as docs/hosts.md says",
            )
        await _serve(running, listening, _ControlPlaneOnly, context=context, ready=ready)


async def _serve(
    running: RunningAgent,
    listening: socket.socket,
    protocol: type[HttpToolsProtocol],
    *,
    context: ssl.SSLContext | None = None,
    ready: Ready | None,
) -> None:
    server = _Server(_config(running, protocol), context=context)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    if ready is not None:
        loop.call_soon(ready, running)
    watching = [
        asyncio.create_task(watch(running, server))
        for watch in (_stop_without_libvirt, _stop_without_directory)
    ]
    with logs.mistakes_logged():
        await _serve_watched(server, listening, watching)
    if running.gone.is_set():
        raise Unavailable(
            "The libvirt daemon of this host ended; its guests go on. Start it, then this agent."
        )


async def _serve_watched(
    server: _Server, listening: socket.socket, watching: Sequence[asyncio.Task[None]]
) -> None:
    """Serve until told to end, and raise what ended one of those that watch over it."""
    try:
        await server.serve(sockets=[listening])
    finally:
        for one in watching:
            one.cancel()
        ended = await asyncio.gather(*watching, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error


def _config(running: RunningAgent, protocol: type[HttpToolsProtocol]) -> uvicorn.Config:
    return uvicorn.Config(
        running.app,
        http=protocol,
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=AGENT_STOP_S,
        backlog=AGENT_BACKLOG,
    )


async def _stop_without_libvirt(running: RunningAgent, server: _Server) -> None:
    """End an agent whose libvirt is gone for good: the next one opens a new connection."""
    await running.gone.wait()
    server.stop()


async def _stop_without_directory(running: RunningAgent, server: _Server) -> None:
    """End an agent whose directory is gone, and raise Unavailable: nobody could open its journal.

    It would answer for what the next agent of this host knows nothing of.
    """
    path = running.agent.settings.state_dir.absolute()
    known = await asyncio.to_thread(state_dir.seen, path)
    try:
        await state_dir.until_lost(path, known, RealClock(), then=_LOST)
    finally:
        server.stop()


@asynccontextmanager
async def _listen(path: Path) -> AsyncGenerator[socket.socket]:
    """Bind the socket with mode 0600 from its first moment, and take it away at the end."""
    await asyncio.to_thread(_clear, path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    earlier = os.umask(0o177)
    try:
        listening.bind(str(path))
    finally:
        os.umask(earlier)
    try:
        yield listening
    finally:
        listening.close()
        await asyncio.to_thread(lambda: path.unlink(missing_ok=True))


def _require_place(path: Path, state_dir: Path) -> None:
    """Raise Invalid for a socket that is neither in a directory nor in one that an agent makes.

    That is its state directory and what is missing in a directory that is there: what lies in /run
    is gone with every start of the machine. Or for one whose path the kernel does not take.
    """
    size = len(os.fsencode(path))
    if size > _SOCKET_BYTES:
        raise Invalid(
            f"The path of the socket {path} has {size} bytes, and {_SOCKET_BYTES} fit. Nothing was "
            "made; give --socket a shorter one."
        )
    directory = path.absolute().parent
    if directory.exists() and not directory.is_dir():
        raise Invalid(f"{directory} is no directory. Nothing was made; give --socket another path.")
    if not any(
        one == state_dir.absolute() or one.is_dir() for one in (directory, directory.parent)
    ):
        raise Invalid(
            f"There is no directory {directory.parent} for the socket {path}. Nothing was made; "
            "make that directory, or give --socket another path."
        )


def _clear(path: Path) -> None:
    """Remove the socket of an agent that is gone.

    Raises Conflict when somebody listens on it, Invalid for what is there and no socket.
    """
    path.parent.mkdir(exist_ok=True)
    if path.exists() and not path.is_socket():
        raise Invalid(f"{path} is no socket, and was left as it is. Choose another place for one.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trying:
        try:
            trying.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            path.unlink(missing_ok=True)
            return
    raise Conflict(f"Somebody listens on {path} already. Stop it, or choose another socket.")


class _Server(Server):
    """Ends when told, and leaves what comes after to its caller: uvicorn would kill the process."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    def _http_protocol(self) -> asyncio.Protocol:
        protocol = super()._http_protocol()
        if isinstance(protocol, _OwnersOnly):
            protocol.refusals = self.refusals
        return protocol

    def stop(self) -> None:
        """Take no more requests, and return from `serve` soon."""
        self.should_exit = True


class _OwnersOnly(HttpToolsProtocol):
    """Hangs up on callers that are strangers: on a Unix socket, other users."""

    refusals: Refusals
    """Who is told of strangers."""
    _began = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        if stranger := self._stranger(transport):
            self.refusals.tell(**stranger)
            # Over TLS, a stranger could draw out a better end.
            transport.abort()
            return
        self._began = True
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        # Nothing was begun for a stranger, so there is nothing to end.
        if self._began:
            super().connection_lost(exc)

    def _stranger(self, transport: asyncio.Transport) -> dict[str, object]:
        """Return who calls, nothing for this user and root, whatever the file's mode became."""
        peer: socket.socket = transport.get_extra_info("socket")
        raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, uid, _ = _CREDENTIALS.unpack(raw)
        return {} if uid in {0, os.geteuid()} else {"caller": f"user {uid}"}


class _ControlPlaneOnly(_OwnersOnly):
    """Takes who shows the control plane's certificate: every host has one of the authority's."""

    def _stranger(self, transport: asyncio.Transport) -> dict[str, object]:
        shown: dict[str, Any] = transport.get_extra_info("peercert") or {}
        names = shown.get("subjectAltName", ())
        if ("DNS", certificates.CONTROL_PLANE) in names:
            return {}
        peer = transport.get_extra_info("peername")
        return {"caller": address_of(peer), "reason": "not the control plane", "shown": str(names)}
