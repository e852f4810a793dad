"""What libvirt is asked when a guest moves, and what a host that has another processor answers.

libvirt's own driver for tests is the daemon; what that driver cannot do (compare processors, send
guests, tell how far they are) is answered here. Real guests: tests/hosts/test_real_moves.py.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.settings import AgentSettings
from mooring.agent_api.moves import Arrival, Portrait
from mooring.errors import Conflict, NotFound, Unavailable
from tests.agent.hosts import new_id

libvirt: Any = pytest.importorskip("libvirt")
pytestmark = pytest.mark.anyio


class Domain:
    """A domain of the driver for tests that is sent nowhere, but says how it was to be."""

    def __init__(self, real: Any) -> None:
        self._real, self.sent = real, list[tuple[str, int]]()
        self.refuses: Callable[[], None] | None = None
        self.is_here = True

    def blockJobInfo(self, device: str, flags: int) -> dict[str, int]:  # noqa: N802  (libvirt calls it so)
        """Nothing is copied."""
        del device, flags
        return {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def jobStats(self) -> dict[str, int]:  # noqa: N802  (libvirt calls it so)
        """No job is running."""
        return {"type": libvirt.VIR_DOMAIN_JOB_NONE}

    def migrateToURI3(self, uri: str, _: dict[str, Any], flags: int) -> None:  # noqa: N802  (so, too)
        """Note where to and how; or say what the other daemon says."""
        self.sent.append((uri, flags))
        if self.refuses is not None:
            self.refuses()


class Daemon:
    """A connection to the driver for tests, with the one domain that it has."""

    uri = "qemu:///system"

    def __init__(self, opened: Any) -> None:
        self._opened, self.verdict = opened, libvirt.VIR_CPU_COMPARE_SUPERSET
        self.handle = self
        [found] = opened.listAllDomains(0)
        self.domain = Domain(found)
        self.compared: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened, name)

    async def call(self, fn: Callable[[], Any]) -> Any:
        """Ask at once."""
        return fn()

    def compareCPU(self, xml: str, _: int) -> int:  # noqa: N802  (libvirt calls it so)
        """Say what this host's processor is beside the guest's."""
        self.compared.append(xml)
        return self.verdict


@pytest.fixture
def daemon() -> Generator[Daemon]:
    opened = libvirt.open("test:///default")
    yield Daemon(opened)
    opened.close()


@pytest.fixture
def host(tmp_path: Path, daemon: Daemon) -> Any:
    """The part of a hypervisor that moves guests, on that daemon."""
    from mooring.agent.libvirt.moves import LibvirtMoves

    class Host(LibvirtMoves):
        """Its guest is the daemon's domain, whatever it is called."""

        def __init__(self) -> None:
            unused: Any = None
            settings = AgentSettings(
                name="h2", state_dir=tmp_path, hypervisor="libvirt", move_address="192.0.2.2"
            )
            super().__init__(settings, unused)
            connection: Any = daemon
            self._connection = connection

        def _domain(self, server_id: str) -> Any:
            if not daemon.domain.is_here:
                raise NotFound(f"Host h2 has no guest {server_id}.")
            return daemon.domain

    (tmp_path / "guests").mkdir()
    return Host()


def _portrait(cpu: str) -> Portrait:
    return Portrait(hypervisor="libvirt", accelerator="tcg", version=1, cpu=cpu)


@pytest.mark.parametrize("verdict", ["ERROR", "INCOMPATIBLE"])
async def test_a_host_whose_processor_lacks_what_the_guest_has_expects_none(
    host: Any, daemon: Daemon, verdict: str
) -> None:
    daemon.verdict = getattr(libvirt, f"VIR_CPU_COMPARE_{verdict}")
    server_id, cpu = new_id(), "<cpu><model>EPYC</model></cpu>"
    with pytest.raises(Conflict, match="processor of host h2 lacks"):
        await host.expect(server_id, _portrait(cpu))
    assert daemon.compared == [cpu]


@pytest.mark.parametrize("verdict", ["IDENTICAL", "SUPERSET"])
async def test_a_host_whose_processor_has_it_all_expects_the_guest(
    host: Any, daemon: Daemon, verdict: str
) -> None:
    daemon.verdict = getattr(libvirt, f"VIR_CPU_COMPARE_{verdict}")
    await host.expect(new_id(), _portrait("<cpu/>"))
    # An emulated processor is the same on every host.
    await host.expect(new_id(), _portrait(""))
    assert daemon.compared == ["<cpu/>"]


async def test_a_guest_that_writes_faster_than_it_is_sent_is_slowed_down(
    host: Any, daemon: Daemon
) -> None:
    await host.send(new_id(), Arrival(address="192.0.2.3"))
    [(uri, flags)] = daemon.domain.sent
    assert uri == "qemu+tcp://192.0.2.3/system"
    assert flags & libvirt.VIR_MIGRATE_AUTO_CONVERGE
    assert flags & libvirt.VIR_MIGRATE_LIVE
    assert not flags & libvirt.VIR_MIGRATE_POSTCOPY


@pytest.mark.parametrize(
    ("is_here", "error", "said"),
    [(True, Unavailable, "did not arrive"), (False, NotFound, "Host h2 has no guest")],
)
async def test_a_daemon_that_has_no_such_guest_is_told_from_the_other_hosts(
    host: Any, daemon: Daemon, is_here: bool, error: type[Exception], said: str
) -> None:
    """The daemon here repeats what the other one says of its own guests."""

    def refuse() -> None:
        daemon.domain.is_here = is_here
        daemon.lookupByName("gone")

    daemon.domain.refuses = refuse
    with pytest.raises(error, match=said):
        await host.send(new_id(), Arrival(address="192.0.2.3"))
