"""Programs that an agent starts: limited, seen to their end, and ended with it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import threading
from pathlib import Path

import pytest

from mooring import process_groups
from mooring.agent import limits
from mooring.agent.run import Budget, Runner, find_program, start_time
from mooring.agent.waiting import until
from mooring.errors import Bug, Unavailable
from mooring.fence.journal import Journal, Process
from mooring.fence.threads import run_to_end
from mooring.limits import STORE_BUSY_TIMEOUT_S
from mooring.process_groups import check_pid

pytestmark = pytest.mark.anyio


class Notes:
    """A journal's notes in memory."""

    def __init__(self) -> None:
        self.noted: dict[int, Process] = {}

    async def note_process(self, pid: int, start_time: float, operation_key: str) -> None:
        self.noted[pid] = Process(pid, start_time, operation_key)

    async def forget_process(self, pid: int) -> None:
        self.noted.pop(pid, None)

    async def processes(self) -> list[Process]:
        return list(self.noted.values())


@pytest.fixture
def notes() -> Notes:
    return Notes()


async def test_output_and_code_come_back_bounded(notes: Notes) -> None:
    runner = Runner(notes)
    output = await runner.run(["printf", "%s", "hello"])
    assert (output.code, output.out, output.err) == (0, "hello", "")
    output = await runner.run(["head", "-c", "1000000", "/dev/zero"])
    assert len(output.out) == 65536
    assert (await runner.run(["ls", "/nowhere"])).code == 2
    assert notes.noted == {}


async def test_no_shell_reads_the_arguments(notes: Notes) -> None:
    words = "$(id); `id` && id"
    assert (await Runner(notes).run(["printf", "%s", words])).out == words


async def test_a_program_that_takes_too_long_is_ended(notes: Notes) -> None:
    with pytest.raises(Unavailable, match="took longer than"):
        await Runner(notes).run(["sleep", "60"], Budget(timeout_s=0.05))
    assert notes.noted == {}


async def test_nobody_waits_for_a_program_that_the_kernel_keeps(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, kill = Runner(notes), process_groups.kill
    with monkeypatch.context() as patch:
        # As one that asked a file system which does not answer: it does not die of the signal.
        patch.setattr(process_groups, "kill", check_pid)
        patch.setattr(limits, "AGENT_KILLED_S", 0.05)
        with pytest.raises(Unavailable, match="took longer than"):
            await runner.run(["sleep", "60"], Budget(timeout_s=0.05))
    [pid] = notes.noted
    kill(pid)
    assert await until(lambda: not notes.noted, 5)


async def test_limits_hold(notes: Notes, tmp_path: Path) -> None:
    file = tmp_path / "file"
    argv = ["dd", "if=/dev/zero", f"of={file}", "bs=1024", "count=100"]
    output = await Runner(notes).run(argv, Budget(file_bytes=10240))
    assert output.code != 0
    assert file.stat().st_size == 10240


async def test_a_cancelled_caller_leaves_no_program(notes: Notes) -> None:
    task = asyncio.create_task(Runner(notes).run(["sleep", "60"]))
    assert await until(lambda: bool(notes.noted), 5)
    pid = next(iter(notes.noted))
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert start_time(pid) == -1
    assert notes.noted == {}


async def test_a_process_is_there_until_its_last_thread_has_ended() -> None:
    program = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    stat = Path(f"/proc/{process.pid}/stat")
    assert await until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z", 10)
    assert start_time(process.pid) > 0
    process.kill()
    await process.wait()
    assert start_time(process.pid) == -1


async def test_what_an_earlier_agent_started_is_ended(notes: Notes) -> None:
    command = (find_program("sleep"), "60")
    process = await asyncio.create_subprocess_exec(*command, start_new_session=True)
    await notes.note_process(process.pid, start_time(process.pid), "op")
    # A pid that was given to somebody else since is none of ours.
    await notes.note_process(1, start_time(1) + 1, "op")
    await Runner(notes).end_leftovers()
    assert await process.wait() == -9
    assert notes.noted == {}
    assert start_time(1) >= 0


async def test_a_missing_program_says_what_to_install() -> None:
    with pytest.raises(Unavailable, match="install the package"):
        find_program("no-such-program")


@pytest.mark.parametrize("name", ["-1", "0", "1", "own"])
def test_no_signal_goes_to_everybody_or_to_the_agent_itself(name: str) -> None:
    with pytest.raises(Bug, match="nothing was ended"):
        check_pid(os.getpid() if name == "own" else int(name))


async def test_a_program_that_was_gone_when_it_was_noted_keeps_no_agent_from_starting(
    notes: Notes,
) -> None:
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()
    await notes.note_process(process.pid, start_time(process.pid), "k")
    await Runner(notes).end_leftovers()
    assert notes.noted == {}


async def test_a_journal_that_is_busy_keeps_nobody_waiting_but_who_runs_a_program(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.sqlite"
    journal, other = Journal(path), sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    running = asyncio.create_task(Runner(journal).run(["printf", "said"]))
    done, _ = await asyncio.wait({running}, timeout=STORE_BUSY_TIMEOUT_S / 10)
    assert not done
    other.execute("ROLLBACK")
    assert (await running).out == "said"
    assert await journal.processes() == []
    other.close()
    await journal.close()


class Full(Notes):
    """A journal that has no room for another note."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[int] = []

    async def note_process(self, pid: int, start_time: float, operation_key: str) -> None:
        self.refused.append(pid)
        raise Unavailable(f"There is no room for {operation_key}, from {start_time} on.")


async def test_a_program_that_cannot_be_noted_is_ended() -> None:
    notes = Full()
    with pytest.raises(Unavailable, match="no room"):
        await Runner(notes).run(["sleep", "60"])
    with pytest.raises(Unavailable, match="no room"):
        await Runner(notes).open(["sleep", "60"], Budget(), {})
    assert [start_time(pid) for pid in notes.refused] == [-1, -1]


class Slow(Notes):
    """A journal that takes its time for a note."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.may_note = threading.Event()

    async def note_process(self, pid: int, start_time: float, operation_key: str) -> None:
        self.asked.set_result(pid)
        await run_to_end(self.may_note.wait)
        await super().note_process(pid, start_time, operation_key)


async def test_a_caller_who_is_cancelled_before_the_note_leaves_no_program() -> None:
    notes = Slow()
    opening = asyncio.create_task(Runner(notes).open(["sleep", "60"], Budget(), {}))
    pid = await notes.asked
    opening.cancel()
    notes.may_note.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert notes.noted == {}
    assert start_time(pid) == -1
