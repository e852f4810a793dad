"""`mooring agent` is told what is no way to be an agent before it has made anything."""

from __future__ import annotations

import asyncio
import platform
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


@pytest.mark.parametrize("name", ["a b", "a/b", "-h", "h.", "ü", "x" * 64])
async def test_a_name_that_no_host_can_have_is_refused(tmp_path: Path, name: str) -> None:
    said = await refusal(tmp_path, name, tmp_path / "agent.sock")
    assert f"'{name}' is no name for a host: 1 to 63 letters" in said


async def test_a_host_of_a_lab_is_called_after_its_machine_whatever_that_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "node", lambda: "my_machine")
    settings = Settings(state_dir=str(tmp_path / "state"), hypervisor="simulated")
    is_ready = asyncio.Event()
    way = Way(name="my_machine-2", socket_path=tmp_path / "agent.sock")
    serving = asyncio.create_task(run_agent(settings, way, lambda _: is_ready.set()))
    async with asyncio.timeout(_ENDS_S):
        await is_ready.wait()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert "no name for a host" in await refusal(tmp_path, "my_machine-b", tmp_path / "b.sock")
