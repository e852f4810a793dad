"""What holds for an agent: verbs join, wait, are ended, and are answered again after a restart."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import threading
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.errors import Conflict, Unavailable
from mooring.fence.file import JournalFile
from mooring.fence.journal import Answer, Gone, Journal, Outdated, Process, Unfinished, run_to_end
from mooring.fence.operation import Operation

pytestmark = pytest.mark.anyio
PLUG = Operation("s1", "plug", 3, 1000)
DISK = "servers/1/disks/2"


class Work:
    """A verb that a test lets begin, go on and end, and that tells what it did."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.answer = answer or Answer(body="done")
        self.began, self.go_on = asyncio.Event(), asyncio.Event()
        self.go_on.set()
        self.runs = self.cancels = 0

    async def __call__(self) -> Answer:
        self.runs += 1
        self.began.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancels += 1
            raise
        return self.answer

    def hold(self) -> Work:
        self.go_on.clear()
        return self


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


@pytest.fixture
async def journal(path: Path) -> AsyncGenerator[Journal]:
    made = Journal(path)
    yield made
    await made.close()


async def test_the_same_call_is_answered_again_without_acting(journal: Journal) -> None:
    work = Work()
    for _ in range(3):
        assert await journal.perform(PLUG, "PUT", DISK, work) == Answer(body="done")
    assert work.runs == 1


async def test_the_same_call_joins_the_one_that_is_running(journal: Journal) -> None:
    work = Work().hold()
    calls = [asyncio.create_task(journal.perform(PLUG, "PUT", DISK, work)) for _ in range(5)]
    await work.began.wait()
    calls.append(
        asyncio.create_task(journal.perform(replace(PLUG, epoch=4), "PUT", DISK, Work().hold()))
    )
    await asyncio.sleep(0)
    work.go_on.set()
    assert {(await call).body for call in calls} == {"done"}
    assert work.runs == 1


async def test_a_new_owner_does_not_lose_with_the_old_ones_call(journal: Journal) -> None:
    await journal.perform(replace(PLUG, step="other", epoch=5), "PUT", "elsewhere", Work())
    answers = await asyncio.gather(
        journal.perform(PLUG, "PUT", DISK, Work()),
        journal.perform(replace(PLUG, epoch=5), "PUT", DISK, Work()),
        return_exceptions=True,
    )
    assert isinstance(answers[0], Outdated)
    assert answers[1] == Answer(body="done")


async def test_a_caller_who_goes_leaves_the_work_running(journal: Journal) -> None:
    work = Work().hold()
    caller = asyncio.create_task(journal.perform(PLUG, "PUT", DISK, work))
    await work.began.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not work.cancels
    work.go_on.set()
    assert await journal.perform(PLUG, "PUT", DISK, Work()) == Answer(body="done")
    assert work.runs == 1


async def test_a_failure_is_handed_out_and_the_call_may_run_again(journal: Journal) -> None:
    async def fail() -> Answer:
        raise Conflict("The guest is locked.")

    with pytest.raises(Conflict, match="locked"):
        await journal.perform(PLUG, "PUT", DISK, fail)
    refused = Work(Answer(status=409))
    assert await journal.perform(PLUG, "PUT", DISK, refused) == Answer(status=409)
    assert await journal.unfinished() == []
    assert await journal.perform(PLUG, "PUT", DISK, Work()) == Answer(body="done")


async def test_verbs_of_one_turn_run_one_at_a_time_in_order(journal: Journal) -> None:
    order: list[str] = []

    def note(name: str) -> Work:
        class Noted(Work):
            async def __call__(self) -> Answer:
                order.append(f"{name} begins")
                answer = await super().__call__()
                order.append(f"{name} ends")
                return answer

        return Noted()

    calls = [
        journal.perform(replace(PLUG, step=name), "PUT", resource, note(name), turn="servers/1")
        for name, resource in (("a", DISK), ("b", "servers/1/disks/3"), ("c", "servers/1/power"))
    ]
    await asyncio.gather(*calls, journal.perform(None, "PUT", "servers/1", note("d")))
    assert order == [f"{name} {what}" for name in "abcd" for what in ("begins", "ends")]


async def test_other_turns_do_not_wait(journal: Journal) -> None:
    slow = Work().hold()
    waiting = asyncio.create_task(journal.perform(PLUG, "PUT", DISK, slow))
    await slow.began.wait()
    await journal.perform(replace(PLUG, step="b"), "PUT", "servers/1/disks/3", Work())
    slow.go_on.set()
    await waiting


async def test_a_delete_ends_the_running_put_and_waits_for_its_end(journal: Journal) -> None:
    order: list[str] = []
    began, ending, end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def plug() -> Answer:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await end.wait()
            order.append("plug ended")
        return Answer()

    async def unplug() -> Answer:
        order.append("unplug")
        return Answer(status=204)

    plugging = asyncio.create_task(journal.perform(PLUG, "PUT", DISK, plug))
    await began.wait()
    unplugging = asyncio.create_task(journal.perform(PLUG, "DELETE", DISK, unplug))
    await ending.wait()
    assert order == []
    end.set()
    assert (await unplugging).status == 204
    with pytest.raises(Gone):
        await plugging
    assert order == ["plug ended", "unplug"]
    with pytest.raises(Gone):
        await journal.perform(PLUG, "PUT", DISK, Work())


async def test_a_delete_ends_the_puts_that_wait_and_those_below(journal: Journal) -> None:
    running, waiting, below = Work().hold(), Work(), Work().hold()
    beside = Work().hold()
    puts = [
        asyncio.create_task(journal.perform(replace(PLUG, step=f"p{n}"), "PUT", resource, work))
        for n, (resource, work) in enumerate(
            [
                ("servers/1", running),
                ("servers/1", waiting),
                (DISK, below),
                ("servers/11", beside),
            ]
        )
    ]
    await asyncio.gather(running.began.wait(), below.began.wait(), beside.began.wait())
    destroy = Operation("s2", "destroy", 1, 2000)
    await journal.perform(destroy, "DELETE", "servers/1", Work())
    results = await asyncio.gather(*puts[:3], return_exceptions=True)
    assert all(isinstance(result, Gone) for result in results)
    assert (running.cancels, waiting.runs, below.cancels, beside.cancels) == (1, 0, 1, 0)
    beside.go_on.set()
    assert await puts[3] == Answer(body="done")


async def test_an_outdated_delete_ends_nothing(journal: Journal) -> None:
    work = Work().hold()
    plugging = asyncio.create_task(journal.perform(PLUG, "PUT", DISK, work))
    await work.began.wait()
    with pytest.raises(Outdated):
        await journal.perform(Operation("s0", "undo", 1, 999), "DELETE", DISK, Work())
    work.go_on.set()
    assert await plugging == Answer(body="done")


async def test_a_delete_of_a_shared_resource_ends_only_its_own_put(journal: Journal) -> None:
    other, own = Work().hold(), Work().hold()
    others = Operation("s2", "load", 1, 5)
    puts = [
        asyncio.create_task(
            journal.perform(who, "PUT", "images/1", work, turn=f"images/1/{who.key}", shared=True)
        )
        for who, work in ((others, other), (PLUG, own))
    ]
    await asyncio.gather(other.began.wait(), own.began.wait())
    await journal.perform(PLUG, "DELETE", "images/1", Work(), shared=True)
    with pytest.raises(Gone):
        await puts[1]
    other.go_on.set()
    assert await puts[0] == Answer(body="done")


async def test_a_put_behind_a_delete_waits_for_it(journal: Journal) -> None:
    unplug = Work().hold()
    deleting = asyncio.create_task(journal.perform(PLUG, "DELETE", DISK, unplug))
    await unplug.began.wait()
    newer = Operation("s2", "plug", 1, 2000)
    plug = Work()
    plugging = asyncio.create_task(journal.perform(newer, "PUT", DISK, plug))
    await asyncio.sleep(0)
    assert not plug.runs
    unplug.go_on.set()
    await asyncio.gather(deleting, plugging)
    assert plug.runs == 1


async def test_answers_marks_and_incarnation_outlive_the_agent(
    journal: Journal, path: Path
) -> None:
    await journal.perform(PLUG, "PUT", DISK, Work(Answer(body=[1, "x"])))
    await journal.perform(replace(PLUG, step="b"), "DELETE", "servers/9", Work())
    incarnation = journal.incarnation
    await journal.close()
    again = Journal(path)
    assert again.incarnation == incarnation
    assert await again.perform(PLUG, "PUT", DISK, Work()) == Answer(body=[1, "x"])
    with pytest.raises(Gone):
        await again.perform(replace(PLUG, step="b"), "PUT", "servers/9", Work())
    with pytest.raises(Outdated):
        await again.perform(replace(PLUG, step="c", epoch=2), "PUT", "x", Work())
    await again.close()


async def test_another_journal_is_another_incarnation(journal: Journal, tmp_path: Path) -> None:
    other = Journal(tmp_path / "other.sqlite")
    assert other.incarnation != journal.incarnation
    await other.close()


async def test_a_call_that_a_crash_interrupted_is_known_and_runs_again(path: Path) -> None:
    dead = Journal(path)
    work = Work().hold()
    caller = asyncio.create_task(dead.perform(PLUG, "PUT", DISK, work))
    await work.began.wait()
    reborn = Journal(path)
    assert await reborn.unfinished() == [Unfinished(PLUG.key, DISK, "PUT")]
    assert await reborn.perform(PLUG, "PUT", DISK, Work()) == Answer(body="done")
    assert await reborn.unfinished() == []
    await reborn.close()
    work.go_on.set()
    await caller
    await dead.close()


async def test_a_secret_is_never_written_and_its_verb_runs_again(
    journal: Journal, path: Path
) -> None:
    export = Work(Answer(body={"auth_password": "s3cret"}, secret=True))
    for runs in (1, 2):
        answer = await journal.perform(PLUG, "PUT", "volumes/1/exports/2", export)
        assert answer.body == {"auth_password": "s3cret"}
        assert export.runs == runs
    await journal.close()
    written = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"s3cret" not in written
    assert export.answer.as_kept().digest.encode() in written


async def test_after_a_reboot_answers_are_forgotten_and_tombstones_stay(journal: Journal) -> None:
    plug, undone = Work(), replace(PLUG, step="b")
    await journal.perform(PLUG, "PUT", DISK, plug)
    await journal.perform(undone, "DELETE", DISK, Work())
    await journal.forget_answers()
    await journal.perform(PLUG, "PUT", DISK, plug)
    assert plug.runs == 2
    with pytest.raises(Gone):
        await journal.perform(undone, "PUT", DISK, Work())


async def test_subprocesses_are_remembered_until_struck(journal: Journal, path: Path) -> None:
    await journal.note_process(4711, 1234.0, PLUG.key)
    await journal.note_process(4712, 1235.0, PLUG.key)
    await journal.forget_process(4712)
    assert await journal.processes() == [Process(4711, 1234.0, PLUG.key)]
    await journal.note_process(4711, 9999.0, "s2.copy")
    await journal.close()
    again = Journal(path)
    assert await again.processes() == [Process(4711, 9999.0, "s2.copy")]
    await again.close()


async def test_sweeping_keeps_what_is_young(journal: Journal) -> None:
    work = Work()
    await journal.perform(PLUG, "PUT", DISK, work)
    assert await journal.sweep(datetime.now(UTC)) == 0
    await journal.perform(PLUG, "PUT", DISK, work)
    assert work.runs == 1
    assert await journal.sweep(datetime(2100, 1, 1, tzinfo=UTC)) == 3
    await journal.perform(PLUG, "PUT", DISK, work)
    assert work.runs == 2


async def test_a_closing_journal_cancels_what_runs_and_refuses_the_rest(journal: Journal) -> None:
    work = Work().hold()
    caller = asyncio.create_task(journal.perform(PLUG, "PUT", DISK, work))
    await work.began.wait()
    await journal.close()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert work.cancels == 1
    with pytest.raises(Unavailable):
        await journal.perform(PLUG, "PUT", DISK, Work())
    await journal.close()


async def test_a_thread_is_waited_for_when_its_verb_is_ended(journal: Journal) -> None:
    order: list[str] = []
    began, go_on = threading.Event(), threading.Event()

    def copy() -> Answer:
        began.set()
        assert go_on.wait(10)
        order.append("copied")
        return Answer()

    async def remove() -> Answer:
        order.append("removed")
        return Answer()

    copying = asyncio.create_task(journal.perform(PLUG, "PUT", DISK, lambda: run_to_end(copy)))
    await asyncio.to_thread(began.wait)
    removing = asyncio.create_task(journal.perform(PLUG, "DELETE", DISK, remove))
    await asyncio.wait([removing], timeout=0.05)
    assert order == []
    go_on.set()
    await removing
    with pytest.raises(Gone):
        await copying
    assert order == ["copied", "removed"]


async def test_a_thread_gives_its_result_or_its_error() -> None:
    assert await run_to_end(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await run_to_end(lambda: 1 // 0)


async def test_a_file_of_a_newer_release_is_refused(path: Path) -> None:
    await Journal(path).close()
    file = sqlite3.connect(path)
    file.execute("PRAGMA user_version = 99")
    file.close()
    with pytest.raises(Conflict, match="newer release"):
        Journal(path)


def test_a_damaged_file_says_what_to_do(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(Unavailable, match="Move it away"):
        Journal(path)


def test_the_file_is_for_its_owner_only(path: Path) -> None:
    JournalFile(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
