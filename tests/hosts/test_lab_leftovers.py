"""What a killed lab leaves of namespaces and processes: gone on with or ended, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from mooring.agent.run import Output, start_time
from mooring.agent.waiting import until
from mooring.lab.namespaces import Namespace, Network
from mooring.lab.real_hosts import RealHost, RealHosts
from mooring.lab.residents import NOTES, find_residents

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]
NAMES = ("one", "two")
PROGRAMS = ("/usr/sbin/libvirtd -d", "/usr/bin/qemu-system-x86_64 -name guest=mooring-0000,x=y")


class CutOff(BaseException):
    """Stands for the end of the process that makes a network."""


class DyingNetwork(Network):
    """A network whose maker ends after so many of its commands."""

    def __init__(self, state_path: Path, commands: int) -> None:
        super().__init__(state_path)
        self._left = commands

    async def _try(self, *words: str) -> Output:
        if not self._left:
            raise CutOff
        self._left -= 1
        return await super()._try(*words)


@pytest.fixture
async def lab(tmp_path: Path, several_hosts: None) -> AsyncGenerator[RealHosts]:
    del several_hosts
    lab = RealHosts(tmp_path, NAMES)
    yield lab
    assert await lab.close(guests=True) == []
    assert Network(tmp_path).standing() == []


async def test_a_network_that_was_half_made_is_made_whole(lab: RealHosts, tmp_path: Path) -> None:
    both, commands = [host.namespace for host in lab.hosts], 0
    while await _is_cut_off(DyingNetwork(tmp_path, commands).open(both)):
        await lab.open()
        assert all(_is_up(each) for each in both)
        await lab.close()
        commands += 1
    assert commands > 10


async def test_a_network_that_was_half_taken_away_is_made_whole(
    lab: RealHosts, tmp_path: Path
) -> None:
    both, commands = [host.namespace for host in lab.hosts], 0
    await lab.open()
    while await _is_cut_off(DyingNetwork(tmp_path, commands).close(both)):
        await lab.open()
        assert all(_is_up(each) for each in both)
        commands += 1
    assert commands > 3
    assert not any(each.file.exists() for each in both)


async def test_what_a_lab_left_goes_on_while_its_directory_is_there(lab: RealHosts) -> None:
    await lab.open()
    with _residents(lab.hosts[0]) as (daemon, guest):
        await lab.open()
        assert await lab.close() == ["one"]
        assert start_time(daemon) > 0
        assert start_time(guest) > 0
        assert [each.namespace.file.exists() for each in lab.hosts] == [True, False]
        # The next lab is smaller: what it does not know of stays too.
        assert await RealHosts(lab.hosts[0].directory.parents[1], ()).close() == [
            lab.hosts[0].namespace.name
        ]
        assert await lab.close(guests=True) == []
        assert (start_time(daemon), start_time(guest)) == (-1, -1)


async def test_what_a_lab_left_is_ended_when_its_directory_is_gone(lab: RealHosts) -> None:
    await lab.open()
    with _residents(lab.hosts[1]) as (daemon, guest):
        shutil.rmtree(lab.hosts[1].directory)
        await lab.open()
        assert (start_time(daemon), start_time(guest)) == (-1, -1)


async def test_a_daemon_that_has_no_guest_ends_with_the_lab(lab: RealHosts) -> None:
    await lab.open()
    with _residents(lab.hosts[0], PROGRAMS[:1]) as [daemon]:
        assert await lab.close() == []
        assert start_time(daemon) == -1


async def test_programs_that_somebody_else_runs_in_a_namespace_stay(lab: RealHosts) -> None:
    await lab.open()
    host = lab.hosts[0]
    with ExitStack() as stack:
        theirs = [stack.enter_context(_program(words, host)) for words in (*PROGRAMS, "sh")]
        assert await until(lambda: all(_is_in(pid, host.namespace) for pid in theirs), 60)
        assert await lab.close(guests=True) == []
        assert all(start_time(pid) > 0 for pid in theirs)


def test_a_machine_that_makes_no_namespaces_is_named(tmp_path: Path, several_hosts: None) -> None:
    del several_hosts
    without = ("setpriv", "--inh-caps=-all", "--bounding-set=-sys_admin")
    command = (*without, sys.executable, "-m", "mooring.main", "up", "--state-dir", str(tmp_path))
    options = ("--hypervisor", "libvirt", "--hosts", "3", "--listen", "127.0.0.1:0")
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("mooring: Making 3 real hosts of one machine takes the right to")
    assert "choose --hypervisor simulated" in done.stderr


async def _is_cut_off(making: Awaitable[None]) -> bool:
    try:
        await making
    except CutOff:
        return True
    return False


@contextmanager
def _residents(host: RealHost, programs: tuple[str, ...] = PROGRAMS) -> Generator[list[int]]:
    """Programs that live in a host as its daemon and its guests do."""
    own = host.directory / NOTES
    own.mkdir(parents=True)
    Path("/", NOTES).mkdir(parents=True, exist_ok=True)
    inside = ("unshare", "--mount", "sh", "-c", f'mount --bind {own} /{NOTES}; exec "$@"', "sh")
    with ExitStack() as stack:
        pids = [stack.enter_context(_program(words, host, inside)) for words in programs]
        while len(find_residents(host.namespace.file)) < len(pids):
            assert all(start_time(pid) > 0 for pid in pids)
        yield pids


@contextmanager
def _program(words: str, host: RealHost, before: tuple[str, ...] = ()) -> Generator[int]:
    """A program in a host's namespace that goes by such words, and does nothing."""
    inside = ("ip", "netns", "exec", host.namespace.name, *before)
    command = (*inside, "bash", "-c", 'exec -a "$0" sh -c "read line" "$@"', *words.split())
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def _is_in(pid: int, namespace: Namespace) -> bool:
    return Path(f"/proc/{pid}/ns/net").stat().st_ino == namespace.file.stat().st_ino


def _is_up(namespace: Namespace) -> bool:
    """Whether a host has its address, and a cable that is plugged in at both ends."""
    asked = ("ip", "-n", namespace.name, "-o", "addr", "show", "dev", "e0")
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    middle = namespace.name.rpartition("-")[0] + "-bridge"
    asked = ("ip", "-n", middle, "-o", "link", "show", "master", "bridge")
    ports = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    [port] = [line for line in ports.splitlines() if f"host-{namespace.number}@" in line]
    return f"inet {namespace.address}/24" in told and ",UP,LOWER_UP>" in port
