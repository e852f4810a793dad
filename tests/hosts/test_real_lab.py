"""A guest moves between two real hosts of one machine, made by `mooring up --hosts 2`."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.agent.run import start_time
from mooring.lab.namespaces import Network
from mooring.lab.real_hosts import RealHosts
from mooring.lab.residents import Resident, find_home, find_residents
from tests.contract.clients import COMPUTE, ENDS_S, POLL_S, Answer, Cloud
from tests.contract.test_fence_cli import fence
from tests.contract.test_moves_cli import HOST, MIGRATE

pytestmark = pytest.mark.hosts


@contextmanager
def _tidied(directory: Path) -> Generator[Path]:
    """Where a lab can live, whose hosts are taken away with all guests that a test has left."""
    state = directory / "state"
    try:
        yield state
    finally:
        asyncio.run(RealHosts(state, ()).close(guests=True))


def _start(state: Path) -> Cloud:
    return Cloud(state, state.with_name("log"), hosts=2, hypervisor="libvirt")


@pytest.fixture
def lab(tmp_path: Path, several_hosts: None, guest_image: bytes) -> Generator[Cloud]:
    del several_hosts
    (tmp_path / "guest.qcow2").write_bytes(guest_image)
    with _tidied(tmp_path) as state:
        cloud = _start(state)
        try:
            yield cloud
        finally:
            code = cloud.stop()
        assert code == 0


def _console(cloud: Cloud, server: str) -> str:
    return cloud.shell("demo").run("console", "log", "show", server)


def _hears(cloud: Cloud, server: str, words: str) -> None:
    deadline = time.monotonic() + ENDS_S
    while words not in (said := _console(cloud, server)):
        assert time.monotonic() < deadline, said
        time.sleep(POLL_S)


def test_a_guest_moves_between_two_real_hosts_whose_daemon_was_lost_and_back(
    lab: Cloud, tmp_path: Path
) -> None:
    operator, demo = lab.shell("mooring"), lab.shell("demo")
    _until_both_are_up(lab)
    hosts = operator.ask("hypervisor", "list")
    assert {one["Hypervisor Type"] for one in hosts} == {"QEMU"}
    image = ("--file", str(tmp_path / "guest.qcow2"), "--disk-format", "qcow2")
    demo.run("image", "create", "guest", *image)
    root = ("--image", "guest", "--boot-from-volume", "1")
    size = ("--flavor", "m1.nano", "--no-network")
    server = demo.ask("server", "create", "moving", *root, *size, "--wait")["id"]
    _hears(lab, server, "mooring-guest: up")
    first = operator.ask("server", "show", server)[HOST]
    _lose_daemon(lab.state_dir / "hosts" / first)
    assert "Complete" in operator.run(*MIGRATE, "--wait", server)
    second = operator.ask("server", "show", server)[HOST]
    assert {first, second} == {one["Hypervisor Hostname"] for one in hosts}
    assert "Complete" in operator.run(*MIGRATE, "--host", first, "--wait", server)
    assert operator.ask("server", "show", server)[HOST] == first
    lab.http("demo").delete_server(server)


def test_a_real_host_is_fenced_with_its_daemon_and_its_guests(lab: Cloud, tmp_path: Path) -> None:
    operator, demo = lab.shell("mooring"), lab.shell("demo")
    _until_both_are_up(lab)
    image = ("--file", str(tmp_path / "guest.qcow2"), "--disk-format", "qcow2")
    demo.run("image", "create", "guest", *image)
    words = ("--image", "guest", "--flavor", "m1.nano", "--no-network")
    server = demo.ask("server", "create", "ending", *words, "--wait")["id"]
    victim = operator.ask("server", "show", server)[HOST]
    before = _residents(lab.state_dir / "hosts" / victim)
    others = {one.pid for one in _all_residents(lab.state_dir)} - {one.pid for one in before}
    assert {one.is_guest for one in before} == {True, False}
    done = fence(lab.state_dir, "fence", victim, "--force", "--wait")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(start_time(one.pid) != one.started for one in before)
    assert others <= {one.pid for one in _all_residents(lab.state_dir)}
    operator.run("compute", "service", "set", "--up", victim, "nova-compute")
    _until_both_are_up(lab)
    lab.http("demo").until_server(server, "SHUTOFF")
    lab.http("demo").delete_server(server)


def _residents(host: Path) -> list[Resident]:
    return [one for one in _all_residents(host.parents[1]) if one.home == find_home(host)]


def _all_residents(state: Path) -> list[Resident]:
    return [one for each in Network(state).standing() for one in find_residents(each.file)]


def test_a_lab_without_guests_leaves_nothing_behind(tmp_path: Path, several_hosts: None) -> None:
    del several_hosts
    with _tidied(tmp_path) as state:
        cloud = _start(state)
        made, pids = _namespaces(state), _daemons(state)
        assert (len(made), len(pids)) == (3, 2)
        # Killed, it leaves the daemons with whatever guests they have; the next one goes on.
        cloud.process.kill()
        again = _start(state)
        assert _namespaces(state) == made
        assert _daemons(state) == pids
        _until_both_are_up(again)
        assert again.stop() == 0
    assert _namespaces(state) == set()
    assert [start_time(pid) for pid in pids] == [-1, -1]


def _lose_daemon(host: Path) -> None:
    """End a host's libvirt daemon, and wait until the host has another one."""
    note = host / "libvirtd.pid"
    lost = note.read_text("ascii")
    os.kill(int(lost), signal.SIGKILL)
    deadline = time.monotonic() + ENDS_S
    while not note.exists() or note.read_text("ascii") in {lost, ""}:
        assert time.monotonic() < deadline, "the host has no daemon any more"
        time.sleep(POLL_S)


def _daemons(state: Path) -> list[int]:
    return [int(file.read_text("ascii")) for file in sorted(state.rglob("libvirtd.pid"))]


def _until_both_are_up(cloud: Cloud) -> None:
    """Wait for the hosts' first answers, which take long when the machine is busy."""

    def up(got: Answer) -> bool:
        return [one["state"] for one in got.key("hypervisors")] == ["up", "up"]

    cloud.http("admin").until(f"{COMPUTE}/os-hypervisors", up)


def _namespaces(state: Path) -> set[str]:
    """Return what stands of one lab: others may run beside it."""
    ours = Network(state).namespace(1).name.removesuffix("1")
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return {line.split()[0] for line in listed.stdout.splitlines() if line.startswith(ours)}
