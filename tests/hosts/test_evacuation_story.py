"""A real guest writes all the time, and its host dies: twice really, and once not at all."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.contract.clients import COMPUTE, VOLUME, Answer
from tests.contract.test_fence_cli import fence
from tests.hosts.moving_cloud import HOSTS, Ledger, MovingCloud
from tests.hosts.real_cloud import GIB
from tests.hosts.writer import Writer
from tests.hosts.written import read_written

pytestmark = pytest.mark.hosts
STAYS, DIES = HOSTS
"""The first one has the volumes."""


@pytest.fixture(scope="module")
def cloud(two_hosts: MovingCloud) -> MovingCloud:
    return two_hosts


class Mortal(Writer):
    """A writer on the host that dies, and what an operator does about that."""

    def __init__(self, cloud: MovingCloud, image: bytes) -> None:
        super().__init__(cloud, image)
        self.operator = cloud.operator()
        if self.host != DIES:
            self.operator.run("server", "migrate", "--live-migration", "--wait", self.server_id)
        assert self.host == DIES

    def say(self, word: str) -> None:
        """Say whether the host is down."""
        self.operator.run("compute", "service", "set", word, DIES, "nova-compute")

    def evacuate(self) -> None:
        """Ask for another host, as one does who wants the server to run at once."""
        version = ("--os-compute-api-version", "2.94")
        self.operator.run(*version, "server", "evacuate", self.server_id)

    def fence(self) -> None:
        """Have the host's fence command end all that runs there, guests too."""
        fenced = fence(self.cloud.state_dir, "fence", DIES, "--force", "--wait")
        assert (fenced.returncode, fenced.stderr) == (0, "")
        assert f"Host {DIES} is forced down since " in fenced.stdout

    def returns(self) -> None:
        """Let the host come back: it stays down until it has paid what it owes."""
        self.cloud.power_on(DIES)

        def has_paid(answer: Answer) -> bool:
            return answer.key("migrations")[0]["status"] == "completed"

        path = f"{COMPUTE}/os-migrations?instance_uuid={self.server_id}"
        self.cloud.admin.until(path, has_paid)
        self.say("--up")
        assert len(self.cloud.emulators(self.server_id)) == 1

    def has_all(self, work: Path) -> None:
        """Stop it, and see that its volume has every block that was ever counted, none wrong."""
        self.guest.act("os-stop")
        self.guest.until("SHUTOFF")
        assert read_written(self.image, "qcow2", GIB, work).before >= self.counts[-1]


@pytest.fixture
def writer(cloud: MovingCloud, guest_image: bytes) -> Generator[Mortal]:
    made = Mortal(cloud, guest_image)
    made.counts.append(made.writes_on())
    yield made
    cloud.settle()
    cloud.delete(made.guest.path)
    assert cloud.emulators(made.server_id) == []
    cloud.delete(f"{VOLUME}/volumes/{made.volume_id}")
    cloud.settle()


def test_a_guest_of_a_dead_host_goes_on_with_what_it_had_written(
    writer: Mortal, cloud: MovingCloud, tmp_path: Path
) -> None:
    cloud.cut_power(DIES)
    assert cloud.emulators(writer.server_id) == []
    writer.say("--down")
    writer.evacuate()
    writer.guest.until("ACTIVE")
    assert writer.host == STAYS
    assert writer.finds() >= writer.counts[-1]
    writer.counts.append(writer.writes_on())
    writer.returns()
    assert writer.writes_on() > writer.counts[-1]
    writer.has_all(tmp_path)


def test_a_guest_of_a_host_that_was_fenced_goes_on_with_what_it_had_written(
    writer: Mortal, cloud: MovingCloud, tmp_path: Path
) -> None:
    ledger = Ledger(cloud, writer.server_id, writer.image)
    ledger.start()
    try:
        writer.counts.append(writer.writes_on())
        writer.fence()
        assert cloud.emulators(writer.server_id) == []
        writer.evacuate()
        writer.guest.until("ACTIVE")
        assert writer.host == STAYS
        assert writer.finds() >= writer.counts[-1]
        writer.counts.append(writer.writes_on())
        writer.returns()
        writer.counts.append(writer.writes_on())
    finally:
        ledger.end()
    assert (ledger.doubles, len(ledger.writers)) == ([], 2)
    writer.has_all(tmp_path)


def test_a_guest_whose_host_is_only_said_to_be_dead_has_no_double(
    writer: Mortal, cloud: MovingCloud, tmp_path: Path
) -> None:
    cloud.cut_power(DIES, spares_guests=True)
    [alive] = cloud.emulators(writer.server_id)
    ledger = Ledger(cloud, writer.server_id, writer.image)
    ledger.start()
    try:
        writer.say("--down")
        writer.evacuate()
        operations = f"{COMPUTE}/mooring/operations"
        [going_on] = cloud.admin.ask("GET", operations).key("operations")
        one = f"{operations}/{going_on['id']}"
        cloud.admin.until(one, lambda answer: "may be alive" in str(answer.body))
        assert ledger.writers == [alive]
        cloud.cut_power(DIES)
        writer.guest.until("ACTIVE")
    finally:
        ledger.end()
    assert (writer.host, ledger.doubles, len(ledger.writers)) == (STAYS, [], 2)
    writer.counts.append(writer.finds())
    writer.returns()
    assert writer.writes_on() > writer.counts[-1] >= writer.counts[0]
    writer.has_all(tmp_path)
