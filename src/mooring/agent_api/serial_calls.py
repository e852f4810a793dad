"""The calls about guests' serial ports. They pass the host's door by, as they wait for people."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from mooring.agent_api import verbs
from mooring.agent_api.calls import Calls, decode
from mooring.agent_api.serial import SerialInput, SerialOutput, SerialTaken
from mooring.agent_api.transport import Request
from mooring.agent_api.verbs import Verb
from mooring.errors import Conflict, NotFound
from mooring.limits import AGENT_CALL_S

T = TypeVar("T")


class SerialCalls(Calls):
    """A part of `AgentClient`."""

    async def check_serial(self, server_id: str) -> None:
        """See that a guest's serial port can be opened.

        Raises NotFound without such a guest; Conflict: it is off, or it or its host has no port
        that can be talked to.
        """
        try:
            await self.ask(verbs.CHECK_SERIAL, server_id)
        except NotFound as error:
            raise await self._why_not(server_id, error) from error

    async def open_serial(self, server_id: str) -> str:
        """Open a guest's serial port, and return the id of the session.

        Whoever had it open has it no more. Raises as `check_serial` does, and NoCapacity: too many
        ports of the host are open.
        """
        try:
            return (await self.ask(verbs.OPEN_SERIAL, server_id)).session_id
        except NotFound as error:
            raise await self._why_not(server_id, error) from error

    async def read_serial(
        self, server_id: str, session_id: str, after: int, wait_s: float
    ) -> SerialOutput:
        """Return what the guest has written behind `after` bytes, waiting so long for some.

        Raises NotFound: the session has ended.
        """
        target = verbs.READ_SERIAL.target(server_id, session_id, after=after, wait=wait_s)
        return await self._pass_by(verbs.READ_SERIAL, target, b"", wait_s)

    async def write_serial(self, server_id: str, session_id: str, typed: SerialInput) -> int:
        """Type at the port; return how many bytes it has taken in all. Raises NotFound."""
        verb = verbs.WRITE_SERIAL
        target, content = verb.target(server_id, session_id), msgspec.json.encode(typed)
        taken: SerialTaken = await self._pass_by(verb, target, content, 0.0)
        return taken.next

    async def close_serial(self, server_id: str, session_id: str) -> None:
        """End a session; nothing for one that has ended."""
        await self._pass_by(
            verbs.CLOSE_SERIAL, verbs.CLOSE_SERIAL.target(server_id, session_id), b"", 0.0
        )

    async def _pass_by(self, verb: Verb[T], target: str, content: bytes, wait_s: float) -> T:
        """Ask without a place at the host's door.

        A person who reads along, or types, would keep one all the time from those who work.
        """
        headers: dict[str, str] = {} if verb.method == "GET" else self._headers(None)
        answer = await self._wire.send(
            Request(verb.method, target, headers, content), AGENT_CALL_S + wait_s
        )
        if answer.status >= 400:
            raise self._refusal(answer)
        found: Any = decode(verb.answer, answer)
        return found

    async def _why_not(self, server_id: str, error: NotFound) -> Exception:
        """Return what it means that an agent knows no guest or no such verb."""
        if await self.find(verbs.SHOW_SERVER, server_id) is None:
            return error
        return Conflict(
            f"The agent of host {self.name} is of a release that has no serial consoles. Nothing "
            "was changed; upgrade it, and then reboot the server hard."
        )
