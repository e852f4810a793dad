"""`mooring host drain`, as an operator has it: progress, reasons, and an end whatever is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.clients import COMPUTE, Cloud
from tests.contract.test_moves_cli import HOST, two_hosts
from tests.kill.move_workload import COLD, CONFIRM, MOVE

pytestmark = pytest.mark.contract
_MOVED = "begin_move claim_destination connect_there stop_guest start_there settle_guest"
_STEPS = {
    COLD: f"{_MOVED} place_server drop_guest settle_claim record_end",
    CONFIRM: "begin_confirm disconnect_left delete_left settle_claim record_end",
}
_POINTS = [
    f"{saga}/{step}/forward/{moment}"
    for saga, steps in _STEPS.items()
    for step in steps.split()
    for moment in ("before", "after")
]


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
        names = sorted(one["Hypervisor Hostname"] for one in operator.ask("hypervisor", "list"))
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
        listed = _run(cloud, "list").stdout
        assert [line.split()[0] for line in listed.splitlines() if " beside " in line] == names
        assert {line.split()[1] for line in listed.splitlines()[1:3]} == {"compute,volume,share"}
        assert "No host on another machine was invited." in listed
        assert "beside" in _run(cloud, "show", source).stdout
        refused = _run(cloud, "remove", source)
        assert (refused.returncode, "runs beside the control plane" in refused.stderr) == (1, True)
        assert _run(cloud, "enable", source).stdout == f"Host {source} may have servers again.\n"
        listed = operator.ask("compute", "service", "list", "--host", source)
        assert [one["Status"] for one in listed] == ["enabled"]


def test_a_stopped_server_moves_and_one_that_waits_for_its_user_is_named(tmp_path: Path) -> None:
    with two_hosts(tmp_path) as (cloud, server):
        operator, demo = cloud.shell("mooring"), cloud.shell("demo")
        source = operator.ask("server", "show", server)[HOST]
        demo.run("server", "stop", server)
        cloud.http("demo").until_server(server, "SHUTOFF")
        drained = _run(cloud, "drain", source)
        assert drained.returncode == 0, drained
        assert "drained: 1 moved (1 stopped), 0 on the way" in drained.stdout
        shown = operator.ask("server", "show", server)
        assert (shown["status"], shown[HOST] != source) == ("SHUTOFF", True)
        assert _run(cloud, "enable", source).returncode == 0
        operator.run("server", "migrate", "--wait", server)
        drained = _run(cloud, "drain", source)
        assert drained.returncode == 1, drained
        assert f"moving ({server}): It waits for its user" in drained.stdout
        assert operator.ask("server", "show", server)["status"] == "VERIFY_RESIZE"


def test_a_drain_goes_on_when_command_and_control_plane_are_killed(tmp_path: Path) -> None:
    _is_killed(tmp_path, f"{MOVE}/settle_guest/forward/before")


@pytest.mark.kill
@pytest.mark.cases(_POINTS, 1)
def test_a_drain_of_a_stopped_server_goes_on_when_both_are_killed(
    case: str, tmp_path: Path
) -> None:
    _is_killed(tmp_path, case, stopped=True)


def _is_killed(tmp_path: Path, point: str, *, stopped: bool = False) -> None:
    """Kill the control plane at a point of a drain, and its command; all of it ends by itself."""
    with two_hosts(tmp_path, point) as (cloud, server):
        source = cloud.shell("mooring").ask("server", "show", server)[HOST]
        if stopped:
            cloud.shell("demo").run("server", "stop", server)
            cloud.http("demo").until_server(server, "SHUTOFF")
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
            shown = again.shell("mooring").ask("server", "show", server)
            assert shown[HOST] != source
            assert shown["status"] == ("SHUTOFF" if stopped else "ACTIVE")
        finally:
            again.stop()
