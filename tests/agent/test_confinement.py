"""What QEMU is shut in by: what the machine can, and what is said where it cannot."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("libvirt", reason="libvirt's Python binding is not installed")

from mooring.agent.emulator_files import EmulatorUser
from mooring.agent.libvirt import confinement
from mooring.agent.libvirt.confinement import Confinement
from mooring.agent.run import Output, Runner
from mooring.lab.namespaces import Unnoted

pytestmark = pytest.mark.anyio
USER = EmulatorUser("qemu", 64055, 110)
PRIVATE = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
SHARED = "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"


class Refusing(Runner):
    """A machine that lets nobody make namespaces."""

    def __init__(self) -> None:
        super().__init__(Unnoted())

    async def run(self, *args: object, **named: object) -> Output:
        del args, named
        return Output(1, "", "unshare: Operation not permitted")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with systemd-machined, where mounts are seen everywhere."""
    for name in ("mounts", "machined"):
        (tmp_path / name).write_text(SHARED)
    monkeypatch.setattr(confinement, "_MOUNTS", tmp_path / "mounts")
    monkeypatch.setattr(confinement, "_MACHINED", (tmp_path / "machined",))
    return tmp_path


async def found(runner: Runner | None = None) -> Confinement:
    return await confinement.find(runner or Runner(Unnoted()), USER, Path("/"))


@pytest.mark.hosts
@pytest.mark.skipif(os.geteuid() != 0, reason="making namespaces takes root")
async def test_a_machine_that_can_shuts_guests_in(machine: Path) -> None:
    assert await found() == Confinement(user=USER, has_namespaces=True, has_cgroups=True)
    (machine / "machined").unlink()
    assert await found() == Confinement(user=USER, has_namespaces=True)
    (machine / "mounts").write_text(PRIVATE)
    assert await found() == Confinement(user=USER)


async def test_a_machine_that_forbids_namespaces_runs_guests_without(machine: Path) -> None:
    del machine
    assert await found(Refusing()) == Confinement(user=USER, has_cgroups=True)


async def test_guests_of_the_agent_s_own_user_are_shut_in_by_nothing_of_libvirt_s() -> None:
    assert await confinement.find(Refusing(), None, Path("/")) == Confinement()


def test_the_last_mount_at_a_place_decides(machine: Path) -> None:
    table = machine / "mounts"
    table.write_text(SHARED + "30 27 0:9 / /var rw - tmpfs none rw\n31 27 0:9 / /srv rw - x y rw\n")
    assert confinement.is_shared(Path("/srvdir"))
    assert not confinement.is_shared(Path("/var/lib"))
    table.write_text(SHARED + PRIVATE)
    assert not confinement.is_shared(Path("/var/lib"))


def test_libvirt_is_told_to_leave_files_to_the_agent() -> None:
    told = Confinement(user=USER, has_namespaces=True).conf().splitlines()
    assert {'user = "qemu"', 'group = "+110"', "dynamic_ownership = 0"} <= set(told)
    assert {'namespaces = ["mount"]', "cgroup_controllers = []"} <= set(told)
    of_root = Confinement().conf()
    assert "dynamic_ownership" not in of_root
    assert ('user = "root"' in of_root) == (os.geteuid() == 0)
