"""What is left of a guest that goes by itself while it is to be removed, by libvirt's test driver.

A guest that has not arrived yet is known to libvirt for as long as its emulator runs, and not a
moment longer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.settings import AgentSettings
from tests.agent.hosts import new_id

libvirt: Any = pytest.importorskip("libvirt")
pytestmark = pytest.mark.anyio
ARRIVING = """<domain type="test"><name>mooring-{0}</name><uuid>{0}</uuid>
<memory>8192</memory><vcpu>1</vcpu><os><type>hvm</type></os></domain>"""


class Daemon:
    """A connection to the driver for tests."""

    uri = "qemu:///system"

    def __init__(self) -> None:
        self.handle = libvirt.open("test:///default")

    async def call(self, fn: Callable[[], Any]) -> Any:
        """Ask at once, and have errors told as the real connection does."""
        from mooring.agent.libvirt.connection import guarded

        return guarded(fn)()

    def remove_log(self, server_id: str) -> None:
        """The daemon's logs are the machine's."""


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Generator[Daemon]:
    opened = Daemon()
    # The driver for tests keeps nothing beside a definition.
    monkeypatch.setattr("mooring.agent.libvirt.power._UNDEFINE", 0)
    yield opened
    opened.handle.close()


@pytest.fixture
def host(tmp_path: Path, daemon: Daemon) -> Any:
    from mooring.agent.libvirt.hypervisor import LibvirtHypervisor

    unused: Any = None
    settings = AgentSettings(name="h2", state_dir=tmp_path, hypervisor="libvirt")

    class Host(LibvirtHypervisor):
        """One on that daemon."""

        def __init__(self) -> None:
            super().__init__(settings, unused)
            connection: Any = daemon
            self._connection = connection

    return Host()


def _names(daemon: Daemon) -> list[str]:
    return [one.name() for one in daemon.handle.listAllDomains(0)]


@pytest.mark.parametrize("verb", ["remove", "turn_away"])
async def test_a_guest_that_has_not_arrived_goes_with_all_that_is_its_own(
    host: Any, daemon: Daemon, tmp_path: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_id = new_id()
    domain = daemon.handle.createXML(ARRIVING.format(server_id), 0)
    own = tmp_path / "guests" / server_id
    own.mkdir(parents=True)
    (own / "root.qcow2").write_bytes(b"x")

    def state_of(_: Any) -> str:
        return "prelaunched"

    # The driver for tests knows of no moves.
    monkeypatch.setattr("mooring.agent.libvirt.states.state_of", state_of)
    await getattr(host, verb)(server_id)
    assert domain.name() not in _names(daemon)
    assert not own.exists()


def test_a_guest_that_is_gone_before_it_is_switched_off_is_off(daemon: Daemon) -> None:
    from mooring.agent.libvirt import power

    domain = daemon.handle.createXML(ARRIVING.format(new_id()), 0)
    domain.destroy()
    power.switch_off(domain)
    power.undefine(domain)


def test_what_cannot_be_switched_off_or_forgotten_is_told(daemon: Daemon) -> None:
    from mooring.agent.libvirt import power

    class Refusing:
        """A domain that runs on, whatever it is told."""

        def isActive(self) -> int:  # noqa: N802  (libvirt calls it so)
            """It does."""
            return 1

        def destroy(self) -> None:
            """Refuse."""
            daemon.handle.networkLookupByName("none")

        def undefineFlags(self, _: int) -> None:  # noqa: N802  (libvirt calls it so)
            """Refuse."""
            daemon.handle.networkLookupByName("none")

    class Hidden(Refusing):
        """One of which libvirt does not say whether it runs."""

        def isActive(self) -> int:  # noqa: N802  (libvirt calls it so)
            """Refuse."""
            daemon.handle.networkLookupByName("none")
            return 1

    with pytest.raises(libvirt.libvirtError, match="Network not found"):
        power.switch_off(Refusing())
    with pytest.raises(libvirt.libvirtError, match="Network not found"):
        power.undefine(Refusing())
    with pytest.raises(libvirt.libvirtError, match="Network not found"):
        power.switch_off(Hidden())
