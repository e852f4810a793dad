"""A real guest that writes all the time moves cold between two real hosts, and gets another size.

Its blocks are numbered, and each guest that is started anew finds what the one before it wrote.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.contract.clients import COMPUTE, MIB, VOLUME
from tests.hosts.moving_cloud import Ledger, MovingCloud
from tests.hosts.real_cloud import GIB
from tests.hosts.writer import Writer
from tests.hosts.written import read_written

pytestmark = pytest.mark.hosts
NANO_MIB, MICRO, MICRO_MIB = 128, "84", 256


@pytest.fixture(scope="module")
def cloud(two_hosts: MovingCloud) -> MovingCloud:
    return two_hosts


class ColdWriter(Writer):
    """A writer, and what its user and its operator do to it while its guest is off."""

    def migrates(self) -> None:
        """Send it to the other host, and confirm that."""
        source = self.host
        self._ends_in("VERIFY_RESIZE", "migrate", as_operator=True)
        assert self.host != source
        assert self._places() == 2
        self._ends_in("ACTIVE", "confirmResize")
        assert (self.host != source, self._places()) == (True, 1)

    def is_resized_and_reverted(self) -> None:
        """Have it grow on the other host, and take that back."""
        source = self.host
        self._grows_elsewhere(source)
        self._ends_in("ACTIVE", "revertResize")
        assert (self.host, self.memory_mib(), self._places()) == (source, NANO_MIB, 1)

    def is_resized_for_good(self) -> None:
        """Have it grow on the other host, and confirm that: nothing of it is at its former one."""
        source = self.host
        self._grows_elsewhere(source)
        [process_id] = self.cloud.emulators(self.server_id)
        self._ends_in("ACTIVE", "confirmResize")
        assert (self.host != source, self.memory_mib(), self._places()) == (True, MICRO_MIB, 1)
        assert self.cloud.emulators(self.server_id) == [process_id]
        with self.cloud.daemon(source) as daemon:
            assert f"mooring-{self.server_id}" not in {
                one.name() for one in daemon.listAllDomains()
            }
        assert self.writes_on() > self.counts[-1]

    def _grows_elsewhere(self, source: str) -> None:
        """Have it grow: on the other host, as its own takes no servers meanwhile."""
        self._switch(source, "disabled")
        self._ends_in("VERIFY_RESIZE", "resize", {"flavorRef": MICRO})
        assert (self.host != source, self.memory_mib()) == (True, MICRO_MIB)
        assert self._places() == 2
        self.is_written_to_again()
        self._switch(source, "enabled")

    def is_written_to_again(self) -> None:
        """See that the guest finds all that was said to be written, and writes on."""
        said = self.counts[-1]
        found = self.finds()
        assert found >= said
        # It writes its last four blocks once more, so the first that it says may be what it found.
        self.counts += [self.writes_on(), self.writes_on()]
        assert self.counts[-1] > found

    def memory_mib(self) -> int:
        """How much memory the emulator gives the guest."""
        [pid] = self.cloud.emulators(self.server_id)
        line = Path(f"/proc/{pid}/cmdline").read_text()
        [size] = re.findall(r'"qom-type":"memory-backend-\w+","id":"pc.ram","size":(\d+)', line)
        return int(size) // MIB

    def _ends_in(
        self, status: str, action: str, value: Any = None, *, as_operator: bool = False
    ) -> None:
        user = self.cloud.admin if as_operator else self.cloud.demo
        path = f"{COMPUTE}/servers/{self.server_id}/action"
        assert user.ask("POST", path, {action: value}).status in {202, 204}
        self.guest.until(status)

    def _places(self) -> int:
        """At how many hosts the volume that it writes to is."""
        path = f"{VOLUME}/attachments?volume_id={self.volume_id}"
        return len(self.cloud.demo.ask("GET", path, version="3.27").key("attachments"))

    def _switch(self, host: str, status: str) -> None:
        services = f"{COMPUTE}/os-services"
        listed = self.cloud.admin.ask(
            "GET", f"{services}?host={host}&binary=nova-compute", version="2.53"
        )
        [service] = [one["id"] for one in listed.key("services")]
        answer = self.cloud.admin.ask(
            "PUT", f"{services}/{service}", {"status": status}, version="2.53"
        )
        assert answer.status == 200, answer


def test_a_guest_finds_all_it_wrote_on_each_host_that_it_is_started_on(
    cloud: MovingCloud, guest_image: bytes, tmp_path: Path
) -> None:
    writer = ColdWriter(cloud, guest_image)
    ledger = Ledger(cloud, writer.server_id, writer.image)
    ledger.start()
    try:
        writer.counts.append(writer.writes_on())
        for befall in (writer.migrates, writer.is_resized_and_reverted):
            befall()
            writer.is_written_to_again()
        writer.is_resized_for_good()
    finally:
        ledger.end()
    assert ledger.doubles == []
    assert len(ledger.writers) == 5
    cloud.settle()
    cloud.delete(writer.guest.path)
    assert cloud.emulators(writer.server_id) == []
    written = read_written(writer.image, "qcow2", GIB, tmp_path)
    assert written.before >= writer.counts[-1]
    cloud.delete(f"{VOLUME}/volumes/{writer.volume_id}")
    cloud.settle()
