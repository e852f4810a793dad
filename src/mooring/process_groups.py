"""Programs of ours are the leaders of their own sessions, and end with all they started."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import Process
from contextlib import suppress

from mooring.errors import Bug


async def end(process: Process, patience_s: float | None = None) -> bool:
    """End a program that still runs and wait until it has, whatever happens to the waiter.

    False when it has not within `patience_s`: the kernel keeps it, as one that asked a file system
    which does not answer.
    """
    if process.returncode is None:
        kill(process.pid)
    loop, cancelled = asyncio.get_running_loop(), None
    until = None if patience_s is None else loop.time() + patience_s
    while process.returncode is None:
        left = None if until is None else until - loop.time()
        try:
            await asyncio.wait_for(process.wait(), left)
        except TimeoutError:
            break
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return process.returncode is not None


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
