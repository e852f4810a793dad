"""Serial ports of guests that are open for callers of this agent, each for one of them.

A session ends with its port, when its caller closes it or asks for nothing any more, and when
another caller opens the same port: who comes back has lost what he had before.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from mooring.agent.host import Agent
from mooring.agent.limits import (
    AGENT_SERIAL_BYTES,
    AGENT_SERIAL_SESSIONS,
    AGENT_SERIAL_SILENT_S,
)
from mooring.agent.serving import Call, Handlers
from mooring.agent_api import verbs
from mooring.agent_api.serial import (
    SERIAL_PIECE_BYTES,
    SerialInput,
    SerialOutput,
    SerialSession,
    SerialTaken,
)
from mooring.errors import Conflict, NoCapacity, NotFound
from mooring.fence.journal import Answer
from mooring.limits import AGENT_POLL_S

if TYPE_CHECKING:
    from mooring.agent.guest_serial import SerialPort
    from mooring.agent.hypervisor import Hypervisor

handlers = Handlers[Agent]()
_TYPE_S = 1.0
"""How long one call waits for a guest to take what is typed: below AGENT_PATIENCE_S."""
_TAKEN_OVER = "Somebody else has opened this console."
_GONE = "The guest's serial port is gone: it was stopped, or is on another host."


class Session:
    """One port that is open, with what waits in it."""

    def __init__(self, server_id: str, port: SerialPort) -> None:
        self.session_id, self.server_id = secrets.token_hex(16), server_id
        self._port = port
        self._begin, self._waiting = 0, bytearray()
        self._typed, self._typing = 0, asyncio.Lock()
        self._changed = asyncio.Event()
        self._ended = ""
        self._reading = asyncio.create_task(self._read())

    @property
    def is_over(self) -> bool:
        """Whether nothing comes of the port any more."""
        return bool(self._ended)

    async def read(self, after: int, wait_s: float) -> SerialOutput:
        """Return what is behind so many bytes, and forget these. Raises Conflict for nonsense."""
        if not self._begin <= after <= self._begin + len(self._waiting):
            raise Conflict(
                "That is no place in what the guest has written since the port was open."
            )
        del self._waiting[: after - self._begin]
        self._begin = after
        self._changed.set()
        try:
            async with asyncio.timeout(wait_s):
                while not self._waiting and not self._ended:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass
        data = bytes(self._waiting[:SERIAL_PIECE_BYTES])
        ended = self._ended if len(data) == len(self._waiting) else ""
        return SerialOutput(data=data, next=after + len(data), ended=ended)

    async def type(self, typed: SerialInput) -> int:
        """Type what was not typed before; return how much was in all.

        Raises Conflict for what comes out of turn, NotFound once the port is gone.
        """
        async with self._typing:
            if self._ended:
                raise NotFound(self._ended)
            if typed.after > self._typed:
                raise Conflict("What was typed before this has not come. Type that first.")
            new = typed.data[self._typed - typed.after :]
            if new:
                self._typed += await self._port.write(new, _TYPE_S)
            return self._typed

    async def end(self, why: str) -> None:
        """Let go of the port, and tell a reader why."""
        self._ended = self._ended or why
        self._changed.set()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._port.close()

    async def _read(self) -> None:
        try:
            while data := await self._port.read():
                self._waiting += data
                self._changed.set()
                while len(self._waiting) >= AGENT_SERIAL_BYTES:
                    self._changed.clear()
                    await self._changed.wait()
        finally:
            self._ended = self._ended or _GONE
            self._changed.set()


class Sessions:
    """The sessions of one host. For one event loop."""

    def __init__(self, hypervisor: Hypervisor) -> None:
        self._hypervisor = hypervisor
        self._open: dict[str, Session] = {}
        self._silent: dict[str, asyncio.TimerHandle] = {}
        self._opening = asyncio.Lock()
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        """How many there are, those included that are over and not told of yet."""
        return len(self._open)

    async def open(self, server_id: str) -> Session:
        """Open a guest's port, and end the session that had it. Raises NoCapacity, as the port."""
        async with self._opening:
            before = [one for one in self._open.values() if one.server_id == server_id]
            if len(self._open) - len(before) >= AGENT_SERIAL_SESSIONS:
                raise NoCapacity(
                    f"{AGENT_SERIAL_SESSIONS} serial consoles of this host are open, and no more "
                    "may be. Close one, then try again."
                )
            await self._hypervisor.check_serial(server_id)
            for one in before:
                if one.is_over:
                    self._forget(one)
                # Else it stays until its caller was told, or is gone.
                await one.end(_TAKEN_OVER)
            session = Session(server_id, await self._hypervisor.open_serial(server_id))
            self._open[session.session_id] = session
            self.heard(session)
            return session

    def find(self, server_id: str, session_id: str) -> Session:
        """Return a session, whose caller was heard now. Raises NotFound for one that has ended."""
        session = self._open.get(session_id)
        if session is None or session.server_id != server_id:
            raise NotFound("This console is not open any more. Open it again.")
        self.heard(session)
        return session

    def heard(self, session: Session) -> None:
        """Note that a session's caller is there."""
        if (timer := self._silent.pop(session.session_id, None)) is not None:
            timer.cancel()
        if session.session_id in self._open:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(AGENT_SERIAL_SILENT_S, self._drop, session)
            self._silent[session.session_id] = timer

    async def close(self, server_id: str, session_id: str) -> None:
        """End a session; nothing for one that has ended."""
        session = self._open.get(session_id)
        if session is not None and session.server_id == server_id:
            self._forget(session)
            await session.end("This console was closed.")

    async def close_all(self) -> None:
        """End all of them, as the agent stops."""
        for session in [*self._open.values()]:
            self._forget(session)
            await session.end("The host's agent was stopped.")
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _drop(self, session: Session) -> None:
        self._forget(session)
        ending = asyncio.create_task(session.end("Nobody has asked for this console any more."))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _forget(self, session: Session) -> None:
        self._open.pop(session.session_id, None)
        if (timer := self._silent.pop(session.session_id, None)) is not None:
            timer.cancel()


@handlers.of(verbs.CHECK_SERIAL)
async def check_serial(call: Call[Agent]) -> Answer:
    """See that a guest's serial port can be opened."""
    await call.agent.hypervisor.check_serial(call.path["server_id"])
    return Answer(status=204)


@handlers.of(verbs.OPEN_SERIAL)
async def open_serial(call: Call[Agent]) -> Answer:
    """Open a guest's serial port for a caller."""
    session = await call.agent.serial.open(call.path["server_id"])
    return Answer(body=SerialSession(session.session_id))


@handlers.of(verbs.READ_SERIAL)
async def read_serial(call: Call[Agent]) -> Answer:
    """Answer what a guest has written since."""
    wait_s = min(call.number("wait", 0.0), AGENT_POLL_S)
    return Answer(body=await _find(call).read(int(call.number("after", 0)), wait_s))


@handlers.of(verbs.WRITE_SERIAL)
async def write_serial(call: Call[Agent]) -> Answer:
    """Type at a guest's port."""
    return Answer(body=SerialTaken(await _find(call).type(call.body)))


@handlers.of(verbs.CLOSE_SERIAL)
async def close_serial(call: Call[Agent]) -> Answer:
    """End a session."""
    await call.agent.serial.close(call.path["server_id"], call.path["session_id"])
    return Answer(status=204)


def _find(call: Call[Agent]) -> Session:
    return call.agent.serial.find(call.path["server_id"], call.path["session_id"])
