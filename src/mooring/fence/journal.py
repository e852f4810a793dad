"""The fence of an agent: each verb is let in, takes its turn, acts, and leaves its answer.

    answer = await journal.perform(operation, "PUT", "servers/1/disks/2", plug)

The same call joins the one that is running or gets its answer again. Verbs of one turn run one
after the other. A DELETE first ends the PUTs that run on its resource or below.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import structlog

from mooring.errors import Unavailable
from mooring.fence import rules
from mooring.fence.file import JournalFile, Process, Unfinished
from mooring.fence.limits import FENCE_LEAST_S, FENCE_ROWS, FENCE_SWEEP_S
from mooring.fence.operation import Operation
from mooring.fence.rules import Answer, Gone, Outdated, Verb
from mooring.fence.threads import run_to_end
from mooring.limits import FENCE_KEEP_S

__all__ = ["Answer", "Gone", "Journal", "Outdated", "Process", "Unfinished", "Verb", "run_to_end"]

log = structlog.get_logger()
T = TypeVar("T")
Work = Callable[[], Awaitable[Answer]]


class _Call:
    """One verb under way: who called it, on what, and the task that carries it out."""

    task: asyncio.Task[Answer]

    def __init__(
        self,
        operation: Operation | None,
        verb: Verb,
        resource: str,
        *,
        turn: str,
        shared: bool,
        also: str,
    ) -> None:
        self.operation, self.resource = operation, resource
        self.key = operation.key if operation is not None else ""
        self.verb: Verb = verb
        self.turn, self.shared, self.also = turn or resource, shared, also
        self.order = 0
        self.ended = False

    def is_same(self, other: _Call) -> bool:
        """Return whether both are the same verb of the same operation."""
        ours = (self.key, self.resource, self.verb)
        return self.key != "" and ours == (other.key, other.resource, other.verb)

    def is_ended_by(self, later: _Call) -> bool:
        """Return whether a DELETE that came later ends this call."""
        if self.verb == "DELETE" or self.order > later.order:
            return False
        if later.shared:
            return self.key != "" and self.key == later.key
        ended = later.resource, later.also
        return self.resource in ended or self.resource.startswith(f"{later.resource}/")


class Journal:
    """An agent's journal, at `path` on a disk that outlives the agent. For one event loop."""

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        self._file = JournalFile(path, now)
        self._thread = ThreadPoolExecutor(1, "journal")
        self._calls: list[_Call] = []
        self._order = itertools.count(1)
        self._closed = False

    @property
    def incarnation(self) -> str:
        """Made with the journal: another one means that this agent forgot what it was told."""
        return self._file.incarnation

    @property
    def commits(self) -> int:
        """Transactions that waited for the disk, so far."""
        return self._file.commits

    async def perform(
        self,
        operation: Operation | None,
        verb: Verb,
        resource: str,
        work: Work,
        *,
        turn: str = "",
        shared: bool = False,
        also: str = "",
    ) -> Answer:
        """Let `work` act for the operation and return its answer, or return its earlier answer.

        A caller who is cancelled stops waiting; the work goes on, and the same call joins it. An
        answer of 400 or more and an exception are handed out and not kept: the call may be run
        again. So is a call whose answer was `secret`. Work that is ended by a DELETE is cancelled,
        and must not return before all it does has ended (see `run_to_end`).

        `turn` names what verbs wait for instead of their resource, such as `servers/1` for its
        disks. A `shared` resource is used under different locks at once: no generations are
        compared, and a DELETE ends only its own operation's PUT. Without an operation nothing is
        fenced, but turns hold. `also` names another resource that a DELETE ends: what comes late
        for that one is fenced off too. Raises Gone (410) and Outdated (412).
        """
        call = _Call(operation, verb, resource, turn=turn, shared=shared, also=also)
        while running := next((one for one in self._calls if one.is_same(call)), None):
            answer = await self._join(call, running)
            if answer is not None:
                return answer
        if self._closed:
            raise Unavailable("The agent is stopping; ask again when it is back.")
        call.order = next(self._order)
        call.task = asyncio.create_task(self._run(call, work))
        call.task.add_done_callback(_note_end)
        self._calls.append(call)
        return await asyncio.shield(call.task)

    async def unfinished(self) -> list[Unfinished]:
        """Return the calls that were let in and have no answer: those a crash interrupted."""
        return await self._in_thread(self._file.unfinished)

    async def forget_answers(self) -> None:
        """Forget what was answered and keep what must not be done: call it once after a reboot.

        The guests of the machine are gone then, so an earlier "it runs" no longer holds.
        """
        await self._in_thread(self._file.forget_answers)

    async def sweep(self, now: datetime) -> int:
        """Forget what nobody can need any more, a few marks at a time; return how many went."""
        older_than = now - timedelta(seconds=FENCE_KEEP_S)
        least = now - timedelta(seconds=FENCE_LEAST_S)
        most, gone = FENCE_ROWS, 0
        while some := await self._in_thread(
            lambda: self._file.sweep(older_than, most=most, least=least)
        ):
            gone += some
        return gone

    async def keep_small(self) -> None:
        """Forget it again and again, until cancelled."""
        while True:
            try:
                await self.sweep(datetime.now(UTC))
            except Unavailable as error:
                log.warning("old marks of the journal stay", reason=str(error))
            except Exception:
                # Nobody waits for this loop, so that nobody would hear of its end.
                log.exception("old marks of the journal stay")
            await asyncio.sleep(FENCE_SWEEP_S)

    async def note_process(self, pid: int, start_time: float, operation_key: str) -> None:
        """Note a subprocess, to be ended before a restarted agent serves.

        A caller who is cancelled waits for it, so that what he does about it comes behind.
        """
        await run_to_end(
            lambda: self._file.note_process(pid, start_time, operation_key), self._thread
        )

    async def forget_process(self, pid: int) -> None:
        """Strike a subprocess that has ended."""
        await run_to_end(lambda: self._file.forget_process(pid), self._thread)

    async def processes(self) -> list[Process]:
        """Return the subprocesses that have not been struck."""
        return await self._in_thread(self._file.processes)

    async def close(self) -> None:
        """Cancel what runs, wait for its end, close the file."""
        if self._closed:
            return
        self._closed = True
        tasks = [call.task for call in self._calls]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await asyncio.to_thread(self._thread.shutdown)
        self._file.close()

    async def _join(self, call: _Call, running: _Call) -> Answer | None:
        """Wait for the same call of before; None when it lost to an epoch that is not ours."""
        await self._admit(call, acts=False)
        try:
            return await asyncio.shield(running.task)
        except Outdated:
            if running.operation == call.operation:
                raise
            return None

    async def _run(self, call: _Call, work: Work) -> Answer:
        try:
            return await self._act(call, work)
        except asyncio.CancelledError:
            await self._fail(call)
            if not call.ended:
                raise
            raise _ended(call) from None
        except (Gone, Outdated):
            raise
        except Exception:
            await self._fail(call)
            raise
        finally:
            self._calls.remove(call)

    async def _act(self, call: _Call, work: Work) -> Answer:
        earlier = await self._admit(call)
        if earlier is not None and not earlier.secret:
            return earlier
        if call.verb == "DELETE":
            await self._end_those_before(call)
        await self._wait_for_turn(call)
        answer = await work()
        await self._finish(call, answer)
        return answer

    async def _wait_for_turn(self, call: _Call) -> None:
        """Wait for all that came before, in the order of coming, whatever each had to wait for.

        A DELETE that waits for the end of a PUT must not be overtaken by a newer PUT, which it
        would destroy.
        """
        ahead = [one for one in self._calls if one.turn == call.turn and one.order < call.order]
        if ahead:
            await asyncio.wait([one.task for one in ahead])

    async def _end_those_before(self, call: _Call) -> None:
        doomed = [one for one in self._calls if one.is_ended_by(call)]
        for one in doomed:
            if not one.ended:
                one.ended = True
                one.task.cancel()
        if doomed:
            await asyncio.wait([one.task for one in doomed])

    async def _admit(self, call: _Call, *, acts: bool = True) -> Answer | None:
        operation = call.operation
        if operation is None:
            return None
        return await self._in_thread(
            lambda: self._file.admit(
                operation,
                call.resource,
                call.verb,
                shared=call.shared,
                also=call.also,
                acts=acts,
            )
        )

    async def _finish(self, call: _Call, answer: Answer) -> None:
        if (operation := call.operation) is not None:
            await self._in_thread(
                lambda: self._file.finish(operation, call.resource, call.verb, answer)
            )

    async def _fail(self, call: _Call) -> None:
        if (operation := call.operation) is not None:
            await self._in_thread(lambda: self._file.fail(operation, call.resource, call.verb))

    async def _in_thread(self, fn: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, fn)


def _ended(call: _Call) -> Gone:
    if call.operation is not None:
        return rules.gone(call.operation, call.resource)
    return Gone(f"The work on {call.resource} was ended by a DELETE.")


def _note_end(task: asyncio.Task[Answer]) -> None:
    """Take a failure that nobody waits for: the operation's next call runs it again."""
    if not task.cancelled():
        task.exception()
