"""Programs of ours are the leaders of their own sessions, and end with all they started."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import Process
from contextlib import suppress

from mooring.errors import Bug


async def end(process: Process) -> None:
    """End a program that still runs and wait until it has, whatever happens to the waiter."""
    if process.returncode is None:
        kill(process.pid)
    cancelled: asyncio.CancelledError | None = None
    while process.returncode is None:
        try:
            await process.wait()
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def kill(pid: int) -> None:
    """Kill a program with all it started."""
    with suppress(ProcessLookupError):
        os.killpg(check_pid(pid), signal.SIGKILL)


def check_pid(pid: int) -> int:
    """Return the id of one process that may be ended. Raises Bug.

    To the kernel -1 is every process there is, and so is the group of process 1; 0 is the group of
    whoever asks.
    """
    if pid <= 1 or pid == os.getpid():
        raise Bug(f"Process {pid} is none that we have started; nothing was ended.")
    return pid
