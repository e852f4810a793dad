"""Who ends a host for certain, so that nothing on it runs or writes any more.

The control plane cannot know that by itself: a host that is silent may only be cut off, while its
guests go on writing. Whoever can is the operator's own command, which switches the machine off or
keeps it from the storage, and says by its exit code that it has.

It has nothing to do with `mooring.fence`, by which a resource turns outdated operations away.
"""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from mooring import process_groups
from mooring.errors import Conflict
from mooring.limits import (
    FENCE_OUTPUT_BYTES,
    FENCE_TOLD_LENGTH,
    FENCE_TOLD_LINES,
    FENCES_AT_ONCE,
)

HOST = "{host}"
"""Stands for the host's name in the words of a command."""
_ENVIRONMENT = {
    "LC_ALL": "C",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
_DRAIN_S = 1.0
"""How long to wait for output that is still in the pipe of a command that has ended."""

Still = Callable[[], Awaitable[None]]
"""Raises when a host is not to be ended any more."""


class HostFence(Protocol):
    """What ends hosts. It may be asked for the same host again, also while it is at it."""

    @property
    def is_there(self) -> bool:
        """Whether there is one at all."""
        ...

    async def end(self, host: str, still: Still | None = None) -> str:
        """End a host, and return what proves it, in a few words.

        `still` is awaited last of all: it raises where the host is not to be ended any more, since
        whoever asks may have waited for long. Raises that, and Conflict, with what was said, when
        the host is not known to have ended.
        """
        ...


class CommandFence:
    """Runs the operator's command. `timeout_s` is how long it may take, in seconds.

    No shell reads its words. It has no input, and of the environment only a PATH.
    """

    def __init__(self, words: Sequence[str], timeout_s: float) -> None:
        self._words, self._timeout_s = tuple(words), timeout_s
        self._turns = asyncio.Semaphore(FENCES_AT_ONCE)

    @property
    def is_there(self) -> bool:
        return bool(self._words)

    async def end(self, host: str, still: Still | None = None) -> str:
        if not self._words:
            raise none_is_set(host)
        async with self._turns:
            if still is not None:
                await still()
            return await self._end(host, [word.replace(HOST, host) for word in self._words])

    async def _end(self, host: str, argv: Sequence[str]) -> str:
        shown = " ".join(argv)[:FENCE_TOLD_LENGTH]
        async with _Output.open() as output:
            try:
                process = await _start(argv, output.inlet)
            except (OSError, ValueError) as error:
                raise not_ended(host, f"{shown} could not be started: {error}", "") from error
            try:
                code = await asyncio.wait_for(process.wait(), self._timeout_s)
            except TimeoutError:
                await process_groups.end(process)
                await output.finish()
                how = f"{shown} took longer than {self._timeout_s:g} s and was ended"
                raise not_ended(host, how, output.last_lines()) from None
            finally:
                await process_groups.end(process)
            await output.finish()
        if code:
            ending = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise not_ended(host, f"{shown} {ending}", output.last_lines())
        return f"exit 0 of {shown}"


def not_ended(host: str, how: str, output: str) -> Conflict:
    """Return what tells that a host may still be at work. `output` is the command's, bounded."""
    said = f" It said: {output}" if output else " It said nothing."
    return Conflict(
        f"Host {host} was not fenced: {how}.{said} Nothing was changed, and the host is not forced "
        "down by this. See to the fence, and fence the host again."
    )


def none_is_set(host: str) -> Conflict:
    """Return what tells that nobody can end hosts here."""
    return Conflict(
        f"Host {host} was not fenced: no fence command is set, and nothing was changed. Give every "
        "process of the control plane the setting fence_command, or make sure by hand that the "
        f"host is off, and say so: openstack compute service set --down {host} nova-compute."
    )


class _Output(asyncio.Protocol):
    """The end of what a command says: the reason of a failure stands there.

    It comes through a pipe of ours: one that asyncio makes has to be closed before the command
    counts as ended, and what the command left running may hold it open for long.
    """

    def __init__(self, inlet: int) -> None:
        self.inlet = inlet
        """What the command writes to: a file descriptor, until `finish`."""
        self._kept, self._is_over = bytearray(), asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncGenerator[_Output]:
        """Give one that is read until the block ends."""
        outlet, inlet = os.pipe()
        output = cls(inlet)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: output, os.fdopen(outlet, "rb"))
        try:
            yield output
        finally:
            output.shut()
            transport.close()

    def data_received(self, data: bytes) -> None:
        self._kept += data
        del self._kept[:-FENCE_OUTPUT_BYTES]

    def eof_received(self) -> None:
        self._is_over.set()

    def shut(self) -> None:
        """Leave the pipe to the command."""
        if self.inlet >= 0:
            os.close(self.inlet)
            self.inlet = -1

    async def finish(self) -> None:
        """Read what a command that has ended has still in the pipe."""
        self.shut()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_over.wait(), _DRAIN_S)

    def last_lines(self) -> str:
        """Return the last lines that say something, without what a terminal would take amiss."""
        text = self._kept.decode("utf-8", "replace")
        printable = ("".join(filter(str.isprintable, line)) for line in text.splitlines())
        lines = [line.strip() for line in printable]
        last = [line for line in lines if line][-FENCE_TOLD_LINES:]
        return " / ".join(last)[-FENCE_TOLD_LENGTH:]


async def _start(argv: Sequence[str], output: int) -> Process:
    """Start a command in a session of its own, whose group ends with it. Raises OSError."""
    return await asyncio.create_subprocess_exec(
        *argv,
        stdin=DEVNULL,
        stdout=output,
        stderr=output,
        env=_ENVIRONMENT,
        start_new_session=True,
    )
