"""`mooring host fence`, as an operator of a lab has it out of the box: all of a host ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contract.clients import COMPUTE, Cloud
from tests.contract.test_lab import process_of
from tests.contract.test_moves_cli import HOST, two_hosts

pytestmark = pytest.mark.contract


def fence(state_dir: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `mooring host fence`, or another word of `mooring host`, to its end."""
    command = (sys.executable, "-m", "mooring.main", "host", *words)
    where = ("--state-dir", str(state_dir))
    return subprocess.run(
        (*command, *where), capture_output=True, text=True, timeout=240, check=False
    )


def _services(cloud: Cloud) -> dict[str, dict[str, Any]]:
    path = f"{COMPUTE}/os-services?binary=nova-compute"
    answer = cloud.http("admin").ask("GET", path, version="2.53")
    return {one["host"]: one for one in answer.key("services")}


def test_a_host_of_a_lab_is_fenced_and_evacuated_and_comes_back(tmp_path: Path) -> None:
    with two_hosts(tmp_path) as (cloud, server):
        operator = cloud.shell("mooring")
        victim = operator.ask("server", "show", server)[HOST]
        process = process_of(cloud, victim)
        unknown = fence(cloud.state_dir, "fence", "nowhere")
        assert (unknown.returncode, "no compute host nowhere" in unknown.stderr) == (1, True)
        refused = fence(cloud.state_dir, "fence", victim)
        assert (refused.returncode, "is up and answers" in refused.stderr) == (1, True)
        never = fence(cloud.state_dir, "fence", victim, "--status")
        assert (never.returncode, never.stdout) == (1, f"Host {victim} was never fenced.\n")
        done = fence(cloud.state_dir, "fence", victim, "--force", "--wait")
        assert (done.returncode, done.stderr) == (0, "")
        assert f"Host {victim} was fenced at " in done.stdout
        assert f"Host {victim} is forced down since " in done.stdout
        assert "fence: exit 0 of " in done.stdout
        assert fence(cloud.state_dir, "fence", victim, "--status").stdout == done.stdout
        assert f"Host {victim} is forced down since " in fence(cloud.state_dir, "list").stdout
        process_of(cloud, victim, other_than=process)
        assert [_services(cloud)[victim][key] for key in ("state", "forced_down")] == ["down", True]
        done = fence(cloud.state_dir, "evacuate", victim)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"{victim} evacuated: 1 evacuated, 0 on the way, 0 waiting" in done.stdout
        shown = operator.ask("server", "show", server)
        assert (shown["status"], shown[HOST] != victim) == ("ACTIVE", True)
        # The host is back by now, or soon, and pays what it owes.
        admin, path = cloud.http("admin"), f"{COMPUTE}/os-migrations?instance_uuid={server}"
        admin.until(path, lambda got: got.key("migrations")[0]["status"] == "completed")
        operator.run("compute", "service", "set", "--up", victim, "nova-compute")
        assert "forced down" not in fence(cloud.state_dir, "list").stdout
