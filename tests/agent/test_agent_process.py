"""`mooring agent` is told what is no way to be an agent before it has made anything."""

from __future__ import annotations

import asyncio
import platform
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring.agent_process import Way, run_agent
from mooring.config import Settings
from mooring.errors import Invalid

pytestmark = pytest.mark.anyio
_ENDS_S = 20.0
"""One that is not refused would serve for ever."""


def found_in(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*"))


async def refusal(directory: Path, name: str, socket_path: Path) -> str:
    """Return what is said of an agent that must not start, and has made nothing."""
    settings = Settings(state_dir=str(directory / "state"), hypervisor="simulated")
    way = Way(name=name, socket_path=socket_path)
    before = found_in(directory)
    with pytest.raises(Invalid) as found:
        async with asyncio.timeout(_ENDS_S):
            await run_agent(settings, way, lambda _: None)
    assert found_in(directory) == before
    return found.value.public


@asynccontextmanager
async def serving(settings: Settings, name: str, socket_path: Path) -> AsyncGenerator[list[str]]:
    """Run an agent; gives what it said until it was ready."""
    said, is_ready = list[str](), asyncio.Event()

    def hear(line: str) -> None:
        said.append(line)
        is_ready.set()

    way = Way(name=name, socket_path=socket_path)
    running = asyncio.create_task(run_agent(settings, way, hear))
    try:
        async with asyncio.timeout(_ENDS_S):
            await is_ready.wait()
        yield said
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("name", ["a b", "a/b", "-h", "h.", "ü", "x" * 64])
async def test_a_name_that_no_host_can_have_is_refused(tmp_path: Path, name: str) -> None:
    said = await refusal(tmp_path, name, tmp_path / "agent.sock")
    assert f"'{name}' is no name for a host: 1 to 63 letters" in said


async def test_a_host_of_a_lab_is_called_after_its_machine_whatever_that_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "node", lambda: "my_machine")
    settings = Settings(state_dir=str(tmp_path / "state"), hypervisor="simulated")
    async with serving(settings, "my_machine-2", tmp_path / "agent.sock") as said:
        assert said == [f"ready {tmp_path / 'agent.sock'}"]
    assert "no name for a host" in await refusal(tmp_path, "my_machine-b", tmp_path / "b.sock")


async def test_a_socket_in_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    said = await refusal(tmp_path, "h1", tmp_path / "missing" / "dir" / "s.sock")
    assert f"There is no directory {tmp_path / 'missing'} for the socket" in said
    (tmp_path / "file").write_text("mine")
    said = await refusal(tmp_path, "h1", tmp_path / "file" / "s.sock")
    assert f"{tmp_path / 'file'} is no directory" in said


async def test_a_socket_whose_path_is_longer_than_the_kernel_takes_is_refused() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        state = Path(short) / "state"
        fits = 107 - len(short) - 1
        said = await refusal(state, "h1", Path(short) / ("é" * fits))
        assert f"has {107 + fits} bytes, and 107 fit. Nothing was made; give --socket a" in said
        assert not state.exists()
        settings = Settings(state_dir=str(state), hypervisor="simulated")
        async with serving(settings, "h1", Path(short) / ("s" * fits)) as began:
            assert began == [f"ready {short}/{'s' * fits}"]


@pytest.mark.parametrize("place", ["run/s.sock", "var/state/s.sock", "var/state/run/s.sock"])
async def test_a_directory_that_goes_with_a_boot_and_the_agent_s_own_are_made(
    tmp_path: Path, place: str
) -> None:
    settings = Settings(state_dir=str(tmp_path / "var" / "state"), hypervisor="simulated")
    async with serving(settings, "h1", tmp_path / place):
        assert (tmp_path / place).is_socket()
