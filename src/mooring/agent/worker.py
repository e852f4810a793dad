"""A helper process of the agent, for libraries that are slow to import and calls that may hang.

It starts when it is first asked, and ends when it is idle. A call that takes longer than it may is
ended with the process and all that it started, so nothing that hangs stays behind.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from mooring import typed
from mooring.agent import limits
from mooring.agent.run import SYSTEM_PATH, Budget, Conversation, Runner
from mooring.errors import Bug, Unavailable, from_record

log = structlog.get_logger()


class Request(Struct, frozen=True):
    """One line to a helper process."""

    verb: str
    arguments: Any


class Reply(Struct, frozen=True):
    """One line back: a result, or an error as `mooring.errors.to_record` writes it."""

    result: Any = None
    error: dict[str, Any] | None = None


class Worker:
    """The agent's side of one helper process; `module` is run as a program, with `arguments`.

    `program_path`: directories that the helper searches for programs before the system's.
    """

    def __init__(
        self,
        runner: Runner,
        module: str,
        arguments: Sequence[str] = (),
        *,
        program_path: str = "",
        idle_s: float = limits.AGENT_WORKER_IDLE_S,
    ) -> None:
        self._runner, self._idle_s = runner, idle_s
        self._argv = [sys.executable, "-m", module, *arguments]
        self._environment = {
            # What this process imports, the helper can import too.
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PATH": os.pathsep.join(filter(None, (program_path, SYSTEM_PATH))),
        }
        self._turn = asyncio.Lock()
        self._open: Conversation | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the helper while it runs."""
        return self._open.pid if self._open is not None else None

    @property
    def is_busy(self) -> bool:
        """Whether the helper has a call to answer."""
        return self._turn.locked()

    async def ask(self, verb: str, arguments: Struct, *, timeout_s: float) -> Any:
        """Return what a verb of the helper answers, one verb at a time.

        Raises what the verb raises, and Unavailable when it takes too long or its process ends.
        """
        line = msgspec.json.encode(Request(verb, arguments))
        async with self._turn:
            if self._idle is not None:
                self._idle.cancel()
            whole = False
            try:
                answer = await asyncio.wait_for(self._talk(line), timeout_s)
                whole = True
            except TimeoutError:
                raise Unavailable(
                    f"The call {verb} of a helper process took longer than {timeout_s:g} s and was "
                    "ended. Ask again once what it waits for answers."
                ) from None
            finally:
                if not whole:
                    await self._end()
        reply = typed.decode(answer, Reply)
        if reply.error is not None:
            raise from_record(reply.error)
        return reply.result

    async def close(self) -> None:
        """End the helper, if it runs."""
        if self._idle is not None:
            self._idle.cancel()
        async with self._turn:
            await self._end()

    async def _talk(self, line: bytes) -> bytes:
        if self._open is not None and self._open.ended:
            await self._end()
        if self._open is None:
            budget = Budget(timeout_s=0, cpu_s=0, memory_bytes=limits.AGENT_WORKER_MEMORY_BYTES)
            self._open = await self._runner.open(self._argv, budget, self._environment)
        answer = await self._open.ask(line)
        if not answer.endswith(b"\n"):
            said = await self._end()
            raise Unavailable("A helper process ended in the middle; ask again.", private=said)
        loop = asyncio.get_running_loop()
        self._idle = loop.call_later(self._idle_s, self._end_idle)
        return answer

    def _end_idle(self) -> None:
        # The task is kept, because the loop holds on to no task by itself.
        self._ending = asyncio.ensure_future(self.close())

    async def _end(self) -> str:
        conversation, self._open = self._open, None
        if conversation is None:
            return ""
        said = (await conversation.close()).strip()
        if said:
            log.info("a helper process said", said=said[-2000:])
        return said


def decode_arguments(kind: type[Struct], arguments: Any) -> Any:
    """Return the arguments of a verb on the helper's side. Raises Bug when they do not fit."""
    try:
        return typed.convert(arguments, kind)
    except msgspec.ValidationError as error:
        raise Bug("A helper process was asked in a wrong way.", private=str(error)) from error
