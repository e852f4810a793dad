"""What every fence keeps to: the operator's command, and the simulated one of the other tests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mooring import config
from mooring.agent.run import start_time
from mooring.agent.waiting import until
from mooring.errors import Conflict, Invalid
from mooring.host_fence import CommandFence, HostFence
from mooring.limits import FENCE_TOLD_LENGTH
from tests.host_fences import SimulatedFence

pytestmark = pytest.mark.anyio
_SCRIPT = """#!/bin/sh
echo "$1" >> {asked}
echo first
test -e {refuses} || exit 0
echo "The power supply is silent." >&2
exit 3
"""


class Bench:
    """A fence, what it was asked, and how to have it refuse."""

    def __init__(
        self, fence: HostFence, asked: Callable[[], list[str]], refuse: Callable[[], None]
    ) -> None:
        self.fence, self.asked, self.refuse = fence, asked, refuse


def _simulated(_: Path) -> Bench:
    fence = SimulatedFence()

    def refuse() -> None:
        fence.refusal = "it ended with exit code 3", "The power supply is silent."

    return Bench(fence, lambda: fence.asked, refuse)


def _command(directory: Path) -> Bench:
    script, asked, refuses = (directory / name for name in ("fence", "asked", "refuses"))
    script.write_text(_SCRIPT.format(asked=asked, refuses=refuses), "utf-8")
    script.chmod(0o700)
    fence = CommandFence((str(script), "{host}"), 30.0)
    return Bench(fence, lambda: asked.read_text("utf-8").split(), refuses.touch)


@pytest.fixture(params=[_simulated, _command])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return request.param(tmp_path)


async def test_a_fence_ends_the_host_that_it_is_asked_for_and_proves_it(bench: Bench) -> None:
    assert bench.fence.is_there
    proof = await bench.fence.end("h2")
    assert proof.startswith("exit 0 of ")
    assert "h2" in proof
    assert bench.asked() == ["h2"]


async def test_a_fence_may_be_asked_again(bench: Bench) -> None:
    proofs = {await bench.fence.end("h2") for _ in range(2)}
    assert len(proofs) == 1
    assert bench.asked() == ["h2", "h2"]


async def test_a_fence_that_fails_says_why(bench: Bench) -> None:
    bench.refuse()
    with pytest.raises(Conflict, match=r"h2 was not fenced: .*exit code 3.*supply is silent"):
        await bench.fence.end("h2")


async def test_a_host_that_is_not_to_be_ended_any_more_is_not(bench: Bench) -> None:
    async def live() -> None:
        raise Conflict("It lives.")

    async def die() -> None:
        pass

    assert await bench.fence.end("h2", die)
    with pytest.raises(Conflict, match="It lives"):
        await bench.fence.end("h3", live)
    assert bench.asked() == ["h2"]


@pytest.mark.parametrize("make", [SimulatedFence, lambda: CommandFence((), 1.0)])
async def test_where_no_fence_is_set_it_is_told_what_to_do(make: Callable[[], HostFence]) -> None:
    fence = make()
    if isinstance(fence, SimulatedFence):
        fence.is_set = False
    assert not fence.is_there
    with pytest.raises(Conflict, match="fence_command"):
        await fence.end("h2")


async def _pid_in(file: Path) -> int:
    def read() -> str:
        return file.read_text("ascii") if file.exists() else ""

    assert await until(lambda: read().endswith("\n"), 10)
    return int(read())


async def test_a_command_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    words = f"echo asking; sleep 60 & echo $! > {note}; wait # {{host}}"
    with pytest.raises(Conflict, match=r"took longer than 0.5 s and was ended. It said: asking"):
        await CommandFence(("sh", "-c", words), 0.5).end("h2")
    pid = await _pid_in(note)
    assert await until(lambda: start_time(pid) == -1, 10)


async def test_a_command_whose_caller_is_cancelled_is_ended(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    words = f"echo $$ > {note}; exec sleep 60 # {{host}}"
    asking = asyncio.create_task(CommandFence(("sh", "-c", words), 60.0).end("h2"))
    pid = await _pid_in(note)
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()
    assert start_time(pid) == -1


async def test_of_what_a_command_says_the_end_is_told(tmp_path: Path) -> None:
    lots = tmp_path / "lots"
    lots.write_text("\n".join(f"line {number}" for number in range(100_000)), "utf-8")
    words = f"cat {lots}; printf '\\033[31mat last\\n\\n'; exit 1 # {{host}}"
    with pytest.raises(Conflict) as caught:
        await CommandFence(("sh", "-c", words), 30.0).end("h2")
    assert "line 99998 / line 99999[31mat last" in caught.value.public.replace("\x1b", "")
    assert "line 99990" not in caught.value.public
    assert len(caught.value.public) < 3 * FENCE_TOLD_LENGTH


async def test_what_a_command_leaves_running_delays_nothing(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    words = f"setsid sleep 60 & echo $! > {note}; exit 0 # {{host}}"
    async with asyncio.timeout(20):
        await CommandFence(("sh", "-c", words), 30.0).end("h2")
    os.kill(await _pid_in(note), 9)


async def _says(words: str, host: str = "h2") -> str:
    with pytest.raises(Conflict) as caught:
        await CommandFence(("sh", "-c", f"{words}; exit 1", "sh", "{host}"), 30.0).end(host)
    return caught.value.public


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("cat; echo end", "It said: end"),
        ('echo "$1"', "It said: $(id)"),
        ("env | cut -d= -f1 | sort | tr '\\n' ' '", "It said: LC_ALL PATH"),
    ],
)
async def test_no_shell_no_input_and_little_environment(
    words: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_PASSWORD", "secret")
    assert said in await _says(words, "$(id)")


async def test_a_command_that_is_missing_is_named() -> None:
    ask: Awaitable[str] = CommandFence(("no-such-fence", "{host}"), 1.0).end("h2")
    with pytest.raises(Conflict, match=r"no-such-fence h2 could not be started: .*No such file"):
        await ask


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"fence_command": ["fence"]}, "which host"),
        ({"fence_command": ["{host}"]}, "name of a program"),
        ({"evacuate_after_s": 30}, "60 or more"),
        ({"fence_timeout_s": 0}, "fence_timeout_s"),
    ],
)
def test_settings_that_make_no_fence_are_refused(
    settings: dict[str, object], complaint: str
) -> None:
    with pytest.raises(Invalid, match=complaint):
        config.load(environment={}, overrides=settings)


def test_a_command_is_set_word_by_word() -> None:
    variables = {"MOORING_FENCE_COMMAND": "/sbin/fence,--node,{host}"}
    assert config.load(environment=variables).fence_command == ("/sbin/fence", "--node", "{host}")
