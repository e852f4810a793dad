"""A host runs its guests with what it ran them with before, or with nothing."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("libvirt", reason="libvirt's Python binding is not installed")

from mooring.agent import hypervisor_memory
from mooring.agent.app import open_agent
from mooring.agent.hypervisor_memory import Remembered, recall
from mooring.agent.libvirt import accelerator, connection
from mooring.agent.settings import AgentSettings, HypervisorKind
from mooring.agent_api.client import Agents
from mooring.errors import Invalid, Unavailable
from tests.agent.processes import agent_process

pytestmark = pytest.mark.anyio
UNUSED: Any = None


async def started_as(state_dir: Path, hypervisor: HypervisorKind = "auto") -> str:
    """Start an agent, and return what it runs its guests with."""
    wanted = AgentSettings(name="h", state_dir=state_dir, hypervisor=hypervisor)
    async with open_agent(wanted) as running:
        return (await Agents().in_process("h", running.app).host()).hypervisor


@pytest.fixture
def without_libvirt(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a host finds while its packages are being exchanged."""
    monkeypatch.setitem(sys.modules, "mooring.agent.libvirt.hypervisor", None)


def leave_root_disk(state_dir: Path) -> Path:
    """Leave what a guest writes to."""
    disk = state_dir / "guests" / "s1" / "root.qcow2"
    disk.parent.mkdir(parents=True)
    disk.write_bytes(b"precious")
    return disk


@pytest.mark.parametrize(
    ("file", "content"),
    [(hypervisor_memory.FILE, "libvirt own"), (accelerator.RECORD, "{}")],
    ids=["remembered", "of a release before"],
)
@pytest.mark.usefixtures("without_libvirt")
async def test_a_host_that_had_libvirt_does_not_go_on_as_a_simulated_one(
    tmp_path: Path, file: str, content: str
) -> None:
    (tmp_path / file).write_text(content)
    disk = leave_root_disk(tmp_path)
    with pytest.raises(Unavailable, match="binding is missing"):
        await started_as(tmp_path)
    assert disk.read_bytes() == b"precious"
    assert recall(tmp_path).kind == "libvirt"


@pytest.mark.usefixtures("without_libvirt")
async def test_a_host_that_was_simulated_stays_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await started_as(tmp_path) == "simulated"
    monkeypatch.undo()
    assert recall(tmp_path) == Remembered("simulated")
    assert await started_as(tmp_path) == "simulated"
    # As an agent of a release before left it.
    (tmp_path / hypervisor_memory.FILE).unlink()
    assert await started_as(tmp_path) == "simulated"


async def test_no_word_puts_simulated_guests_in_the_place_of_others(tmp_path: Path) -> None:
    (tmp_path / hypervisor_memory.FILE).write_text("libvirt daemon")
    disk = leave_root_disk(tmp_path)
    with pytest.raises(Invalid, match="runs guests with libvirt"):
        await started_as(tmp_path, "simulated")
    assert recall(tmp_path) == Remembered("libvirt", "daemon")
    disk.unlink()
    disk.parent.rmdir()
    assert await started_as(tmp_path, "simulated") == "simulated"
    assert recall(tmp_path) == Remembered("simulated")


async def test_a_daemon_that_is_away_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "DAEMON_SOCKETS", (tmp_path / "libvirt-sock",))
    opened = connection.Connection(tmp_path, UNUSED, "daemon")
    assert not opened.is_own
    with pytest.raises(Unavailable, match="daemon, which has this host's guests, does not listen"):
        await opened.open()


def test_guests_of_a_libvirt_of_ones_own_stay_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "libvirt-sock"
    monkeypatch.setattr(connection, "DAEMON_SOCKETS", (place,))
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(place))
        assert connection.Connection(tmp_path, UNUSED, "own").is_own
        assert not connection.Connection(tmp_path, UNUSED).is_own


@pytest.mark.hosts
async def test_a_real_host_remembers_who_runs_its_guests(tmp_path: Path) -> None:
    async with agent_process(tmp_path, "libvirt"):
        known = recall(tmp_path)
    assert known.kind == "libvirt"
    assert known.way in {"own", "daemon"}
    async with agent_process(tmp_path, "auto") as agent:
        assert (await agent.client.host()).hypervisor == "libvirt"
