"""`mooring host drain`, as an operator has it: progress, reasons, and an end whatever is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.clients import COMPUTE, Cloud
from tests.contract.test_moves_cli import HOST, two_hosts
from tests.kill.move_workload import MOVE

pytestmark = pytest.mark.contract


def _command(cloud: Cloud, *words: str) -> list[str]:
    host = (sys.executable, "-m", "mooring.main", "host")
    return [*host, *words, "--state-dir", str(cloud.state_dir)]


def _run(cloud: Cloud, *words: str) -> subprocess.CompletedProcess[str]:
    command = _command(cloud, *words)
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def test_a_host_is_emptied_and_used_again(tmp_path: Path) -> None:
    with two_hosts(tmp_path) as (cloud, server):
        operator = cloud.shell("mooring")
        source = operator.ask("server", "show", server)[HOST]
        unknown = _run(cloud, "drain", "nowhere")
        assert (unknown.returncode, "no compute host nowhere" in unknown.stderr) == (1, True)
        drained = _run(cloud, "drain", source)
        assert drained.returncode == 0, drained
        assert f"{source} draining: 0 moved" in drained.stdout
        assert f"{source} drained: 1 moved, 0 on the way, 0 waiting, 0 staying" in drained.stdout
        assert f"Host {source} has no servers." in drained.stdout
        assert operator.ask("server", "show", server)[HOST] != source
        status = _run(cloud, "drain", source, "--status")
        assert (status.returncode, "drained: 1 moved" in status.stdout) == (0, True)
        listed = operator.ask("compute", "service", "list", "--host", source)
        assert [one["Status"] for one in listed] == ["disabled"]
        assert _run(cloud, "enable", source).stdout == f"Host {source} may have servers again.\n"
        listed = operator.ask("compute", "service", "list", "--host", source)
        assert [one["Status"] for one in listed] == ["enabled"]


def test_a_server_that_cannot_move_is_named_with_the_reason(tmp_path: Path) -> None:
    with two_hosts(tmp_path) as (cloud, server):
        operator, demo = cloud.shell("mooring"), cloud.shell("demo")
        source = operator.ask("server", "show", server)[HOST]
        demo.run("server", "stop", server)
        cloud.http("demo").until_server(server, "SHUTOFF")
        drained = _run(cloud, "drain", source)
        assert drained.returncode == 1, drained
        assert f"moving ({server}): It is stopped" in drained.stdout
        assert operator.ask("server", "show", server)[HOST] == source


def test_a_drain_goes_on_when_command_and_control_plane_are_killed(tmp_path: Path) -> None:
    with two_hosts(tmp_path, f"{MOVE}/settle_guest/forward/before") as (cloud, server):
        source = cloud.shell("mooring").ask("server", "show", server)[HOST]
        following = subprocess.Popen(_command(cloud, "drain", source), stdout=subprocess.DEVNULL)
        assert cloud.process.wait() == -signal.SIGKILL
        following.kill()
        following.wait()
        again = Cloud(cloud.state_dir, tmp_path / "log", hosts=2)
        try:
            # Nobody asks again: whoever did after its end would have a drain of an empty host.
            path = f"{COMPUTE}/mooring/drains/{source}"
            again.http("admin").until(path, lambda got: got.key("status") == "drained")
            drained = _run(again, "drain", source, "--status")
            assert (drained.returncode, "drained: 1 moved" in drained.stdout) == (0, True), drained
            assert again.shell("mooring").ask("server", "show", server)[HOST] != source
        finally:
            again.stop()
