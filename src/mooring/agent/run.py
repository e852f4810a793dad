"""The only place that starts programs: no shell, limits on all they use, and a note of each.

A program ends with the agent: it asks the kernel for that when it starts. It is noted in the
agent's journal with its pid and start time before anything that it says is read, and what outlives
the agent all the same is ended before the next one serves, by its note or its mark.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import structlog
from msgspec import Struct

from mooring import process_groups
from mooring.agent import limits
from mooring.agent.waiting import until
from mooring.errors import Bug, Unavailable
from mooring.fence.journal import Process as Noted
from mooring.fence.threads import run_to_end
from mooring.process_groups import check_pid

log = structlog.get_logger()
_MARK = "MOORING_HELPER_OF"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENVIRONMENT = {
    "LC_ALL": "C",
    # Each thread would reserve 128 MiB of address space for itself, and the limit counts them.
    "MALLOC_ARENA_MAX": "2",
    "PATH": SYSTEM_PATH,
}


class Notes(Protocol):
    """Where programs are noted: the agent's journal."""

    async def note_process(self, pid: int, start_time: float, operation_key: str) -> None:
        """Note a program that runs; it is noted or refused when this returns, or is cancelled."""
        ...

    async def forget_process(self, pid: int) -> None:
        """Strike one that has ended."""
        ...

    async def processes(self) -> list[Noted]:
        """Return those that were not struck."""
        ...


class Programs(Protocol):
    """What runs programs: a `Runner`, or what has recorded their answers."""

    async def run(
        self, argv: Sequence[str], budget: Budget | None = None, *, operation_key: str = ""
    ) -> Output:
        """Run a program to its end. Raises Unavailable when it takes too long or cannot start."""
        ...


class Budget(Struct, frozen=True, kw_only=True):
    """What one program may use; more ends it. Times in seconds, sizes in bytes, 0 for no limit."""

    timeout_s: float = limits.AGENT_PROGRAM_S
    cpu_s: int = 60
    memory_bytes: int = limits.AGENT_PROGRAM_MEMORY_BYTES
    file_bytes: int = 0
    lasts: bool = False
    """Whether what it leaves running, such as the client of a mount, outlives the agent."""


class Output(Struct, frozen=True):
    """How a program ended: exit code (negative: the signal) and the beginning of its output."""

    code: int
    out: str
    err: str


def find_program(name: str) -> str:
    """Return where a program lies. Raises Unavailable with what to install."""
    found = shutil.which(name, path=_ENVIRONMENT["PATH"])
    if found is None:
        raise Unavailable(
            f"The program {name} is missing on this host; install the package that has it "
            "(qemu-img: qemu-utils, qemu-system-x86_64: qemu-system-x86, btrfs: btrfs-progs, "
            "dbus-send: dbus-bin, ceph: ceph-common, mount.nfs: nfs-common) and ask again."
        )
    return found


class Runner:
    """Starts programs and sees them end.

    `mark` is one agent's own, such as its state directory. All that its programs start has it in
    the environment, so what outlives the agent is found by it.
    """

    def __init__(self, notes: Notes, mark: str = "") -> None:
        self._notes = notes
        self._mark = {_MARK: mark} if mark else {}
        self._kept = set[asyncio.Task[None]]()

    async def run(
        self, argv: Sequence[str], budget: Budget | None = None, *, operation_key: str = ""
    ) -> Output:
        """Run a program to its end. Raises Unavailable when it takes too long or cannot start."""
        allowed = budget or Budget()
        mark = {} if allowed.lasts else self._mark
        process = await _start(argv, allowed, mark, DEVNULL)
        try:
            await self._notes.note_process(process.pid, start_time(process.pid), operation_key)
            return await self._watch(process, argv[0], allowed.timeout_s)
        finally:
            if await process_groups.end(process, limits.AGENT_KILLED_S):
                await self._notes.forget_process(process.pid)
            else:
                self._await_later(process, argv[0])

    def _await_later(self, process: Process, name: str) -> None:
        """Strike a program that was killed once the kernel lets it go; nobody waits for that."""
        log.warning(
            "a program that was killed is kept by the kernel", program=name, pid=process.pid
        )

        async def see_end() -> None:
            await process.wait()
            await self._notes.forget_process(process.pid)

        task = asyncio.ensure_future(see_end())
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)

    async def open(
        self, argv: Sequence[str], budget: Budget, environment: Mapping[str, str]
    ) -> Conversation:
        """Start a program that answers lines. Its time is limited by line, not by the budget.

        Raises Unavailable when it cannot start.
        """
        process = await _start(argv, budget, {**environment, **self._mark}, PIPE)
        try:
            await self._notes.note_process(process.pid, start_time(process.pid), "")
        except BaseException:
            await Conversation(process, self._notes).close()
            raise
        return Conversation(process, self._notes)

    async def end_leftovers(self) -> None:
        """End what an agent before this one started and could not see end."""
        for noted in await self._notes.processes():
            # One that had ended before it was noted has -1, as all that is gone.
            if start_time(noted.pid) == noted.start_time >= 0:
                log.info("ending a leftover program", pid=noted.pid, of=noted.operation_key)
                process_groups.kill(noted.pid)
                if not await until(lambda one=noted: start_time(one.pid) != one.start_time, 30.0):
                    raise Unavailable(
                        f"Process {noted.pid} of an earlier agent cannot be ended. See what it "
                        "waits for, then start the agent again."
                    )
            await self._notes.forget_process(noted.pid)
        if self._mark:
            await self._end_marked()

    async def _end_marked(self) -> None:
        """End what a helper started and left, such as a mount that waits for its server."""
        mark = f"{_MARK}={self._mark[_MARK]}".encode()
        for pid in await run_to_end(lambda: _find_marked(mark)):
            log.info("ending what a helper left", pid=pid)
            with suppress(ProcessLookupError):
                os.kill(check_pid(pid), signal.SIGKILL)

    async def end_strays(self, words: str) -> None:
        """End programs that a library of ours started, by words of their command line."""
        for pid in await run_to_end(lambda: find_processes(words)):
            log.info("ending a stray program", pid=pid, words=words)
            with suppress(ProcessLookupError):
                os.kill(check_pid(pid), signal.SIGKILL)

    async def _watch(self, process: Process, name: str, timeout_s: float) -> Output:
        outputs = _read(_pipe(process.stdout)), _read(_pipe(process.stderr))
        reading = asyncio.gather(*outputs, process.wait())
        try:
            out, err, code = await asyncio.wait_for(reading, timeout_s)
        except TimeoutError:
            raise Unavailable(
                f"{name} took longer than {timeout_s:g} s and was ended. Ask again."
            ) from None
        return Output(code, out, err)


class Conversation:
    """A program that answers each line with a line, until it is closed."""

    def __init__(self, process: Process, notes: Notes) -> None:
        self._process, self._notes = process, notes
        self._said = asyncio.ensure_future(_read(_pipe(process.stderr)))

    @property
    def pid(self) -> int:
        """The program's process id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether the program is gone."""
        return self._process.returncode is not None

    async def ask(self, line: bytes) -> bytes:
        """Return the answer to one line; b"" when the program ended instead."""
        if self._process.stdin is None:
            return b""
        with suppress(ConnectionError):
            self._process.stdin.write(line + b"\n")
            await self._process.stdin.drain()
        return await _pipe(self._process.stdout).readline()

    async def close(self) -> str:
        """End the program with all it started; returns what it said on standard error."""
        try:
            await process_groups.end(self._process)
        finally:
            await self._notes.forget_process(self._process.pid)
        return await self._said


def start_time(pid: int) -> float:
    """Return when a process started, in clock ticks since the machine did; -1 when it is gone.

    It is there, and has its files open, until the last of its threads has ended.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return -1.0
    fields = text.rpartition(")")[2].split()
    state, threads, started = fields[0], int(fields[17]), float(fields[19])
    return -1.0 if state in {"Z", "X"} and threads <= 1 else started


def find_processes(words: str) -> list[int]:
    """Return the processes of this user whose command line has such words; for root everybody's.

    What root starts may become another user, as QEMU does.
    """
    found: list[int] = []
    user = os.geteuid()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ")
            if words.encode() in line and user in {0, process.stat().st_uid}:
                found.append(int(process.name))
    return found


def _find_marked(mark: bytes) -> list[int]:
    """Return the processes of this user whose environment has a mark."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return [pid for pid in found if pid != os.getpid()]


def _fence_in(budget: Budget) -> list[str]:
    """Return the words before a command that limit it and tie it to this process's life."""
    words = [find_program("prlimit"), "--core=0"]
    if budget.cpu_s:
        words.append(f"--cpu={budget.cpu_s}")
    if budget.memory_bytes:
        words.append(f"--as={budget.memory_bytes}")
    if budget.file_bytes:
        words.append(f"--fsize={budget.file_bytes}")
    return [*words, "--", find_program("setpriv"), "--pdeathsig", "KILL", "--"]


async def _start(
    argv: Sequence[str], budget: Budget, environment: Mapping[str, str], stdin: int
) -> Process:
    """Start a program within its limits. Raises Unavailable."""
    command = [*_fence_in(budget), find_program(argv[0]), *argv[1:]]
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=stdin,
            stdout=PIPE,
            stderr=PIPE,
            env={**_ENVIRONMENT, **environment},
            start_new_session=True,
            limit=limits.AGENT_PROGRAM_OUTPUT_BYTES,
        )
    except OSError as error:
        raise Unavailable(f"{argv[0]} could not be started.", private=str(error)) from error


def _pipe(stream: asyncio.StreamReader | None) -> asyncio.StreamReader:
    """Return a stream that was asked for when the program was started."""
    if stream is None:
        raise Bug("A program was started without its output.")
    return stream


async def _read(stream: asyncio.StreamReader) -> str:
    """Read all, keep the beginning."""
    kept = bytearray()
    while chunk := await stream.read(65536):
        kept += chunk[: limits.AGENT_PROGRAM_OUTPUT_BYTES - len(kept)]
    return kept.decode("utf-8", "replace")
