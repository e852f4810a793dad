"""From one machine to ten, as docs/hosts.md types it: each machine in a network of its own.

A machine is a network namespace with an address on one bridge. What is typed on it runs there, so
that hosts and control plane reach each other at their addresses, or not at all.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import Invalid
from mooring.lab.namespaces import Network, check_able
from tests.kill.processes import CommandProcess

pytestmark = pytest.mark.contract
MACHINES = 10
COMMAND_S, SEEN_S = 240.0, 120.0
_SETTINGS = """
listen = "{address}:8470"
hosts_listen = "{address}:8472"
"""


class Machines:
    """Ten machines: the first one is the control plane's, the others become hosts."""

    def __init__(self, directory: Path, network: Network) -> None:
        self.directory, self.state = directory, directory / "state"
        self._spaces = [network.namespace(number) for number in range(1, MACHINES + 1)]
        self._running: list[CommandProcess] = []

    def address(self, number: int) -> str:
        return self._spaces[number - 1].address

    def inside(self, number: int) -> list[str]:
        """Return the words that have a command typed on a machine."""
        return ["ip", "netns", "exec", self._spaces[number - 1].name]

    def serve(self) -> None:
        settings = self.directory / "mooring.toml"
        settings.write_text(_SETTINGS.format(address=self.address(1)), "utf-8")
        self._start(1, "serve", "--config", str(settings), "--state-dir", str(self.state))

    def join(self, number: int) -> str:
        """Invite a machine and have it join; return where it serves."""
        token = self.operate("add", f"h{number}").strip()
        state = ("--state-dir", str(self.directory / f"h{number}"))
        return self._start(number, "agent", *state, "--hypervisor", "simulated", "--join", token)

    def operate(self, *words: str) -> str:
        """Run one `mooring host` command on the control plane's machine."""
        command = (sys.executable, "-m", "mooring.main", "host", *words)
        return self._run(*command, "--state-dir", str(self.state))

    def openstack(self, *words: str) -> Any:
        """Run the stock command there as the operator, and return its answer."""
        program = str(Path(sys.executable).parent / "openstack")
        return json.loads(self._run(program, *words, "-f", "json") or "null")

    def until(self, hosts: int) -> list[dict[str, Any]]:
        """Return the hypervisors once so many are up."""
        deadline = time.monotonic() + SEEN_S
        while True:
            listed = self.openstack("hypervisor", "list")
            if [one["State"] for one in listed] == ["up"] * hosts:
                return listed
            assert time.monotonic() < deadline, listed

    def stop(self) -> None:
        for process in self._running:
            process.kill()

    def _start(self, number: int, *words: str) -> str:
        log = self.directory / f"machine-{number}.log"
        self._running.append(CommandProcess(*words, log=log, before=self.inside(number)))
        return self._running[-1].ready

    def _run(self, *command: str) -> str:
        where = {"OS_CLIENT_CONFIG_FILE": str(self.state / "clouds.yaml"), "OS_CLOUD": "mooring"}
        done = subprocess.run(
            [*self.inside(1), *command],
            env={**os.environ, **where},
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout


@contextmanager
def machines(directory: Path) -> Generator[Machines]:
    """Make them; afterwards nothing of them is left."""
    network = Network(directory)
    spaces = [network.namespace(number) for number in range(1, MACHINES + 1)]
    with ExitStack() as stack:
        stack.callback(lambda: asyncio.run(network.close(spaces)))
        asyncio.run(network.open(spaces))
        made = Machines(directory, network)
        stack.callback(made.stop)
        yield made


@pytest.fixture
def cloud(tmp_path: Path) -> Generator[Machines]:
    try:
        asyncio.run(check_able(MACHINES))
    except Invalid as error:
        pytest.skip(error.public)
    with machines(tmp_path) as made:
        yield made


def test_a_cloud_grows_from_one_machine_to_ten_and_is_emptied_host_by_host(
    cloud: Machines,
) -> None:
    cloud.serve()
    for number in range(2, MACHINES + 1):
        assert cloud.join(number) == f"{cloud.address(number)}:8471"
    names = {one["Hypervisor Hostname"] for one in cloud.until(MACHINES - 1)}
    assert names == {f"h{number}" for number in range(2, MACHINES + 1)}
    cloud.openstack("aggregate", "create", "--zone", "rack-b", "rack-b")
    cloud.openstack("aggregate", "add", "host", "rack-b", "h10")
    image = cloud.directory / "guest.raw"
    image.write_bytes(bytes(1024 * 1024))
    raw = ("--disk-format", "raw", "--container-format", "bare", "--file", str(image))
    cloud.openstack("image", "create", *raw, "guest")
    made = ("--image", "guest", "--flavor", "m1.nano", "--nic", "none", "--wait")
    in_zone = cloud.openstack("server", "create", *made, "--availability-zone", "rack-b", "b")
    assert in_zone["OS-EXT-SRV-ATTR:host"] == "h10"
    server = cloud.openstack("server", "create", *made, "anywhere")
    source = server["OS-EXT-SRV-ATTR:host"]
    assert f"Host {source} has no servers." in cloud.operate("drain", source)
    moved = cloud.openstack("server", "show", "anywhere")
    assert (moved["status"], moved["OS-EXT-SRV-ATTR:host"] in names - {source}) == ("ACTIVE", True)
    cloud.operate("enable", source)
    cloud.operate("remove", source)
    assert len(cloud.until(MACHINES - 2)) == MACHINES - 2
