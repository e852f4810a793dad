"""What works in the background is begun with its process, and no surprise ends it unheard."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from mooring import config, state_dir, up
from mooring.agent import main
from mooring.agent.app import open_agent
from mooring.agent.late_disks import LateDisks
from mooring.agent.settings import AgentSettings
from mooring.clock import Clock
from mooring.errors import Bug
from mooring.fence import journal as journals
from mooring.fence.journal import Journal
from mooring.lab import processes
from mooring.lab.processes import HostCommand, host_process
from mooring.limits import LOOP_REST_S
from mooring.saga.laws import LawProbe
from mooring.saga.timers import Timers
from mooring.services import SERVICES
from mooring.store import growth
from mooring.store.base import Store
from tests.agent.copying import open_pair
from tests.cloud import SimulatedCloud
from tests.saga.shop import Desk, Ledger
from tests.waiting import until

pytestmark = pytest.mark.anyio


class Surprise(Exception):
    """What nobody has foreseen."""


async def turns(count: int = 50) -> AsyncIterator[None]:
    """Let all that waits for nothing go on, so many times."""
    for _ in range(count):
        yield
        await asyncio.sleep(0)


async def test_a_running_cloud_takes_away_what_is_needed_no_more_of_every_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pruned: list[str] = []

    async def prune(service: Any, store: Store, clock: Clock, bounds: Sequence[Any]) -> int:
        pruned.extend(name for name, one in cloud.cloud.stores.items() if one is store)
        assert bounds
        return 0

    monkeypatch.setattr(growth, "prune", prune)
    async with SimulatedCloud(tmp_path) as cloud:
        running = asyncio.create_task(cloud.cloud.run())
        async for _ in turns():
            cloud.clock.advance(LOOP_REST_S / 25)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert sorted(pruned) == sorted(each.name for each in SERVICES)


async def test_an_agent_sweeps_its_journal_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[Journal] = []

    async def sweep(journal: Journal, now: datetime) -> int:
        swept.append(journal)
        return 0

    monkeypatch.setattr(Journal, "sweep", sweep)
    settings = AgentSettings(name="h1", state_dir=tmp_path, hypervisor="simulated")
    async with open_agent(settings) as running:
        await asyncio.sleep(0)
        assert swept == [running.agent.journal]


async def test_a_sweep_of_a_journal_that_fails_is_not_its_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, again = Journal(tmp_path / "journal.sqlite"), asyncio.Event()
    swept: list[Any] = []

    async def sweep(now: Any) -> int:
        swept.append(now)
        if len(swept) == 1:
            raise Surprise
        again.set()
        return 0

    monkeypatch.setattr(journals, "FENCE_SWEEP_S", 0)
    monkeypatch.setattr(journal, "sweep", sweep)
    with capture_logs() as told:
        keeping = asyncio.create_task(journal.keep_small())
        await asyncio.wait(
            {keeping, asyncio.create_task(again.wait())}, return_when=asyncio.FIRST_COMPLETED
        )
    assert not keeping.done()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await journal.close()
    assert [one["event"] for one in told if one.get("exc_info")] == [
        "old marks of the journal stay"
    ]


async def test_an_engine_whose_timers_break_says_so_to_whoever_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(timers: Timers) -> Sequence[str]:
        raise Surprise

    desk = Desk(tmp_path, Ledger(), LawProbe())
    await desk.open()
    await desk.add("o1")
    running = asyncio.create_task(desk.engine.run())
    monkeypatch.setattr(Timers, "ring", fail)
    await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()

    async for _ in turns():
        desk.clock.advance(30)
    assert running.done()
    with pytest.raises(Surprise):
        await running
    await desk.close()


async def test_an_agent_that_cannot_watch_its_directory_ends_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise Surprise

    monkeypatch.setattr(state_dir, "until_lost", fail)
    settings = AgentSettings(name="h1", state_dir=tmp_path, hypervisor="simulated")
    with pytest.raises(Surprise):
        await main.serve(settings, tmp_path / "socket")


async def test_a_cloud_does_not_outlive_the_place_where_hosts_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def listening(
        *_: object, hears_signals: bool = True, **__: object
    ) -> AsyncGenerator[asyncio.Task[None]]:
        async def serve() -> None:
            if hears_signals:
                await asyncio.Event().wait()
            raise Surprise

        task = asyncio.create_task(serve())
        yield task
        task.cancel()

    monkeypatch.setattr(up, "listening", listening)
    variables = {
        "MOORING_STATE_DIR": str(tmp_path),
        "MOORING_LISTEN": "127.0.0.1:0",
        "MOORING_HOSTS_LISTEN": "127.0.0.1:0",
    }
    with pytest.raises(Surprise):
        await up.run_serve(config.load(environment=variables), lambda _: None)


async def test_what_a_running_process_may_not_do_is_in_its_log_with_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/theirs/seal.key")

    monkeypatch.setattr(state_dir, "until_lost", fail)
    agent = AgentSettings(name="h1", state_dir=tmp_path / "h1", hypervisor="simulated")
    cloud = config.load(
        environment={"MOORING_STATE_DIR": str(tmp_path / "c"), "MOORING_LISTEN": "127.0.0.1:0"}
    )
    for serving in (main.serve(agent, tmp_path / "socket"), up.run_serve(cloud, lambda _: None)):
        with capture_logs() as told, pytest.raises(Bug, match="the log has it with its traceback"):
            await serving
        assert [one["event"] for one in told if one.get("exc_info")] == [
            "this process ends by a mistake of its own"
        ]


async def test_a_look_at_guests_that_breaks_is_told() -> None:
    class Hypervisor:
        async def guests(self) -> list[Any]:
            raise Surprise

    late_disks = LateDisks(cast("Any", Hypervisor()), cast("Any", None))
    with capture_logs() as told:
        late_disks.look_at_all()
        async for _ in turns():
            pass
    assert [type(one["exc_info"]) for one in told] == [Surprise]
    await late_disks.close()


async def test_a_door_for_copies_that_fails_once_lets_the_next_one_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, failed = asyncio.get_running_loop(), list[bool]()
    accept = loop.sock_accept

    async def fail_once(listening: socket.socket) -> tuple[socket.socket, Any]:
        if not failed:
            failed.append(True)
            raise Surprise
        return await accept(listening)

    async with open_pair(tmp_path) as pair:
        monkeypatch.setattr(loop, "sock_accept", fail_once)
        await pair.copy(await pair.offer())
        assert pair.copied.read_bytes() == pair.source.read_bytes()
    assert failed == [True]


class Script(HostCommand, frozen=True, kw_only=True):
    """A host whose first agent ends, and whose second one says what nobody can read."""

    @property
    def words(self) -> list[str]:
        return ["sh", "-c", SCRIPT]


SCRIPT = """
echo >> starts
case $(wc -l < starts) in
1) echo 'ready at last' ;;
2) head -c 100000 /dev/zero ;;
*) echo 'ready at last'; exec sleep 600 ;;
esac
"""


async def test_a_host_of_a_lab_is_started_again_whatever_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def say(text: str) -> None:
        raise BrokenPipeError

    async def is_third() -> bool:
        return len((tmp_path / "starts").read_text()) == 3

    monkeypatch.setattr(processes, "_PAUSE_S", 0)
    command = Script(name="h1", directory=tmp_path, hypervisor="simulated")
    async with host_process(command, say):
        await until(is_third, "the host stays away")


def test_libvirt_s_events_are_heard_again_after_a_round_that_failed() -> None:
    libvirt: Any = pytest.importorskip("libvirt")
    from mooring.agent.libvirt.connection import run_events

    rounds = iter([libvirt.libvirtError("poll"), None, Surprise()])
    paused: list[float] = []

    def run_once() -> None:
        if (error := next(rounds)) is not None:
            raise error

    with pytest.raises(Surprise):
        run_events(run_once, paused.append)
    assert len(paused) == 1
