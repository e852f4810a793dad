"""What a real host finds out about itself, and what it says when something is missing."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mooring.agent import seclusion
from mooring.agent.app import open_agent
from mooring.agent.guest_files import GuestFiles
from mooring.agent.limits import AGENT_CONSOLE_BYTES
from mooring.agent.run import Budget, Output
from mooring.agent.settings import AgentSettings
from mooring.agent_api.client import Agents
from mooring.errors import Unavailable

pytest.importorskip("libvirt", reason="libvirt's Python binding is not installed")

import libvirt

from mooring.agent.libvirt import accelerator, connection

pytestmark = pytest.mark.anyio
BOOTED = Output(33, "", "")


class Booter:
    """Stands for a machine on which one sector boots, or not."""

    def __init__(self, *outputs: Output | Exception) -> None:
        self._outputs = list(outputs)
        self.tried: list[str] = []

        self.allowed_s: list[float] = []

    async def run(
        self, argv: Sequence[str], budget: Budget | None = None, *, operation_key: str = ""
    ) -> Output:
        del operation_key
        assert budget is not None
        self.tried.append(argv[2])
        self.allowed_s.append(budget.timeout_s)
        output = self._outputs.pop(0)
        if isinstance(output, Exception):
            raise output
        return output


async def choose(booter: Any, directory: Path) -> str:
    return await accelerator.choose(booter, directory)


@pytest.mark.hosts
async def test_kvm_that_does_not_boot_is_not_used_and_not_tried_again(tmp_path: Path) -> None:
    booter = Booter(BOOTED, Unavailable("too long"))
    assert await choose(booter, tmp_path) == "tcg"
    assert await choose(booter, tmp_path) == "tcg"
    assert booter.tried[0] == "tcg"
    assert len(booter.tried) <= 2


@pytest.mark.hosts
@pytest.mark.parametrize("changed", ["start", "rights", "release"])
async def test_kvm_that_did_not_boot_is_tried_again_when_that_may_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    """The machine was slow at one start of it, or QEMU's user was not let to KVM."""
    kvm, boot_id = tmp_path / "kvm", tmp_path / "boot_id"
    kvm.touch(mode=0o600)
    boot_id.write_text("first\n")
    monkeypatch.setattr(accelerator, "KVM", kvm)
    monkeypatch.setattr(accelerator, "BOOT_ID", boot_id)
    assert await choose(Booter(BOOTED, Unavailable("too long")), tmp_path) == "tcg"
    assert await choose(Booter(), tmp_path) == "tcg"
    if changed == "start":
        boot_id.write_text("second\n")
    elif changed == "rights":
        kvm.chmod(0o660)
    else:
        record = tmp_path / accelerator.RECORD
        found = json.loads(record.read_text())
        del found["doubt"]
        record.write_text(json.dumps(found))
    assert await choose(Booter(BOOTED, BOOTED), tmp_path) == "kvm"
    # And what works is not looked at again.
    boot_id.write_text("third\n")
    kvm.chmod(0o666)
    assert await choose(Booter(), tmp_path) == "kvm"


@pytest.mark.hosts
async def test_a_qemu_that_boots_nothing_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"ended with 1 .* reinstall") as told:
        await choose(Booter(Output(1, "", "broken")), tmp_path)
    assert told.value.private == "broken"


@pytest.mark.hosts
async def test_a_host_that_is_slow_now_has_a_minute_to_boot(tmp_path: Path) -> None:
    booter = Booter(Unavailable("qemu took longer than 60 s."))
    with pytest.raises(Unavailable, match=r"took longer than 60 s\..*keeps the host busy"):
        await choose(booter, tmp_path)
    assert booter.allowed_s == [60.0]
    assert await choose(Booter(BOOTED, BOOTED), tmp_path) in {"tcg", "kvm"}


@pytest.mark.hosts
async def test_kvm_has_little_longer_than_emulation_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kvm").touch()
    monkeypatch.setattr(accelerator, "KVM", tmp_path / "kvm")
    booter = Booter(BOOTED, BOOTED)
    assert await choose(booter, tmp_path) == "kvm"
    assert booter.tried == ["tcg", "kvm"]
    assert 1.0 <= booter.allowed_s[1] < 2.0


async def test_without_the_binding_a_host_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mooring.agent.libvirt.hypervisor", None)
    wanted = AgentSettings(name="h", state_dir=tmp_path / "a", hypervisor="libvirt")
    with pytest.raises(Unavailable, match="libvirt's Python binding is missing"):
        async with open_agent(wanted):
            pass
    wanted = AgentSettings(name="h", state_dir=tmp_path / "b", hypervisor="auto")
    async with open_agent(wanted) as running:
        assert "binding is missing" in running.notice
        assert (await Agents().in_process("h", running.app).host()).hypervisor == "simulated"


async def test_without_its_user_libvirt_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(name: str) -> None:
        raise KeyError(name)

    monkeypatch.setattr(seclusion, "pwd", SimpleNamespace(getpwnam=nobody))
    monkeypatch.setattr(connection.os, "geteuid", lambda: 0)
    with pytest.raises(Unavailable, match="useradd --system"):
        connection.check_user()


def _error_of(said: str) -> libvirt.libvirtError:
    # An error takes the words of the thread's last one instead, if libvirt has ever made one there.
    libvirt.virResetLastError()
    return libvirt.libvirtError(said)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ('qemu: Failed to get "write" lock', "conflict"),
        ("cannot set up guest memory 'pc.ram': Cannot allocate memory", "no_capacity"),
        ("No more available PCI slots", "no_capacity"),
        ("hugetlbfs filesystem is not mounted or disabled", "no_capacity"),
        ("write: No space left on device", "no_capacity"),
        ("something else", "unavailable"),
    ],
)
def test_what_libvirt_says_becomes_one_of_the_nine_kinds(said: str, kind: str) -> None:
    error = connection.translate(_error_of(said))
    assert error.kind == kind
    assert said in error.private


async def test_a_console_keeps_its_end_and_does_not_fill_the_disk(tmp_path: Path) -> None:
    unused: Any = None
    files = GuestFiles(tmp_path, unused)
    console = files.console_path("s1")
    console.parent.mkdir()
    assert files.read_console("s1", None) == ""
    console.write_text("".join(f"line {number}\n" for number in range(300_000)))
    files.trim_consoles()
    assert console.stat().st_size == 0
    with console.open("a") as file:
        file.write("the last line\n")
    assert files.read_console("s1", 2) == "line 299999\nthe last line\n"
    assert files.read_console("s1", 0) == ""
    whole = files.read_console("s1", None)
    assert whole.endswith("line 299999\nthe last line\n")
    assert len(whole) <= AGENT_CONSOLE_BYTES


def test_a_file_that_qemu_s_user_may_not_open_is_told_with_what_to_see_to() -> None:
    said = "Could not open '/mnt/volume-1': Permission denied"
    error = connection.translate(_error_of(said))
    assert isinstance(error, Unavailable)
    assert "may not open a file" in error.public
    assert said in error.private
