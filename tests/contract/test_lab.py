"""Several simulated hosts on one machine, each a process of its own, as an operator has them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.contract.clients import COMPUTE, ENDS_S, POLL_S, Answer, Cloud
from tests.contract.test_moves_cli import HOST, MIGRATE, two_hosts

pytestmark = pytest.mark.contract
_UNDER_WAY = {"accepted", "queued", "preparing", "running", "post-migrating"}


def process_of(cloud: Cloud, host: str, *, other_than: int = 0) -> int:
    """Return the process of a host, once there is one; it is found by what it was started with."""
    words = f"agent\0--name\0{host}\0--socket\0agent.sock\0--state-dir\0{cloud.state_dir}/".encode()
    deadline = time.monotonic() + ENDS_S
    while time.monotonic() < deadline:
        found = [int(each.name) for each in Path("/proc").glob("[0-9]*") if words in _words(each)]
        if found and found != [other_than]:
            [process] = found
            return process
        time.sleep(POLL_S)
    raise AssertionError(f"host {host} has no process")


def _words(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def _is_at_rest(got: Answer) -> bool:
    server = got.key("server")
    return (server["status"], server["OS-EXT-STS:task_state"]) == ("ACTIVE", None)


def _mooring(cloud: Cloud, *words: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "mooring.main", *words, "--state-dir", str(cloud.state_dir))
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _doctor(cloud: Cloud) -> str:
    return _mooring(cloud, "doctor").stdout


def test_a_host_that_is_killed_while_a_server_moves_is_started_again(tmp_path: Path) -> None:
    with two_hosts(tmp_path) as (cloud, server):
        operator, admin = cloud.shell("mooring"), cloud.http("admin")
        hosts = operator.ask("hypervisor", "list")
        assert [(one["State"], one["Hypervisor Type"]) for one in hosts] == [("up", "fake")] * 2
        services = operator.ask("compute", "service", "list", "--service", "nova-compute")
        names = sorted(one["Host"] for one in services)
        assert {one["State"] for one in services} == {"up"}
        for victim in names:
            process = process_of(cloud, victim)
            operator.run(*MIGRATE, server)
            os.kill(process, signal.SIGKILL)
            admin.until(f"{COMPUTE}/servers/{server}", _is_at_rest)
            process_of(cloud, victim, other_than=process)
            assert operator.ask("server", "show", server)[HOST] in names
        moves = operator.ask("server", "migration", "list", "--server", server)
        assert len(moves) == len(names)
        assert _UNDER_WAY.isdisjoint(move["Status"] for move in moves)
        assert _doctor(cloud) == "Everything agrees.\n"


def test_hosts_end_with_the_cloud_however_it_ends(tmp_path: Path) -> None:
    with two_hosts(tmp_path) as (cloud, server):
        names = [
            one["Host"]
            for one in cloud.shell("mooring").ask(
                "compute", "service", "list", "--service", "nova-compute"
            )
        ]
        before = {process_of(cloud, name) for name in names}
        cloud.process.kill()
        again = Cloud(cloud.state_dir, tmp_path / "log", hosts=2)
        try:
            assert before.isdisjoint({process_of(again, name) for name in names})
            again.http("admin").until(f"{COMPUTE}/servers/{server}", _is_at_rest)
            assert _doctor(again) == "Everything agrees.\n"
        finally:
            assert again.stop() == 0
        left = [
            each for each in Path("/proc").glob("[0-9]*") if str(tmp_path).encode() in _words(each)
        ]
        assert not left


def test_a_doctor_alone_names_the_hosts_that_it_cannot_look_at(tmp_path: Path) -> None:
    with two_hosts(tmp_path) as (cloud, _):
        names = [
            one["Host"]
            for one in cloud.shell("mooring").ask(
                "compute", "service", "list", "--service", "nova-compute"
            )
        ]
        cloud.process.kill()
        cloud.process.wait()
        found = _doctor(cloud)
        assert all(f"host {name}: its agent is not known here" in found for name in names)
        assert sorted(each.name for each in (cloud.state_dir / "hosts").iterdir()) == sorted(names)
        said = _mooring(cloud, "operations", "list")
        assert said.returncode == 1
        assert "Start it with `mooring up`" in said.stderr
        assert _mooring(cloud, "host", "list").stderr == said.stderr


def test_the_doctor_names_a_host_that_is_silent(tmp_path: Path) -> None:
    with two_hosts(tmp_path) as (cloud, _):
        operator = cloud.shell("mooring")
        services = operator.ask("compute", "service", "list", "--service", "nova-compute")
        name = services[0]["Host"]
        process = process_of(cloud, name)
        os.kill(process, signal.SIGSTOP)
        try:
            found = _mooring(cloud, "doctor")
        finally:
            os.kill(process, signal.SIGCONT)
        assert (found.returncode, found.stderr) == (1, "")
        assert f"host {name}: it cannot be asked: It did not answer within" in found.stdout
