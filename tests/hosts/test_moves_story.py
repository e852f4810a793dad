"""A real guest writes all the time, and moves between two real hosts by the stock command."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.contract.clients import COMPUTE, VOLUME
from tests.hosts.moving_cloud import Ledger, MovingCloud
from tests.hosts.real_cloud import GIB
from tests.hosts.writer import Writer
from tests.hosts.written import read_written

pytestmark = pytest.mark.hosts
MIGRATE, MIGRATION = ("server", "migrate", "--live-migration"), ("server", "migration")
FAST_MIB_S, SLOW_MIB_S = 10_000, 1
"""A guest that leaves at the slow pace is on its way for long enough to be asked something."""


@pytest.fixture(scope="module")
def cloud(two_hosts: MovingCloud) -> MovingCloud:
    return two_hosts


class LiveWriter(Writer):
    """A writer, and what befalls it while it runs."""

    def __init__(self, cloud: MovingCloud, image: bytes) -> None:
        super().__init__(cloud, image)
        self.operator = cloud.operator()

    def begin(self) -> str:
        """Begin to move it slowly, and return the move's number once it is on its way."""
        server_id = self.server_id
        self.cloud.pace(self.host, server_id, SLOW_MIB_S)
        self.operator.run(*MIGRATE, server_id)
        path = f"{COMPUTE}/servers/{server_id}/migrations"
        got = self.cloud.admin.until(
            path,
            lambda answer: any(one["memory_total_bytes"] for one in answer.key("migrations")),
            version="2.90",
        )
        [found] = got.key("migrations")
        assert found["status"] == "running"
        assert 0 < found["memory_remaining_bytes"] <= found["memory_total_bytes"]
        return str(found["id"])

    def is_kept_back(self) -> None:
        """Begin to move it, and abort that: it stays where it is."""
        source = self.host
        self.operator.run(*MIGRATION, "abort", self.server_id, self.begin())
        self.guest.until("ACTIVE")
        assert (self.host, self.newest()) == (source, "cancelled")

    def moves(self) -> None:
        """Move it to the other host, as fast as it goes."""
        source = self.host
        self.cloud.pace(source, self.server_id, FAST_MIB_S)
        assert "Complete" in self.operator.run(*MIGRATE, "--wait", self.server_id)
        assert (self.host != source, self.newest()) == (True, "completed")
        self.guest.begin_anew()

    def moves_without_control_plane(self) -> None:
        """Begin to move it, kill the control plane, and start that again."""
        source = self.host
        self.begin()
        self.cloud.process.popen.kill()
        assert self.cloud.ended() == -signal.SIGKILL
        self.cloud.pace(source, self.server_id, FAST_MIB_S)
        self.cloud.start()
        self.guest.until("ACTIVE")
        assert (self.host != source, self.newest()) == (True, "completed")

    def newest(self) -> str:
        """Return how its newest move went."""
        listed = self.operator.ask(*MIGRATION, "list", "--server", self.server_id)
        return listed[0]["Status"]


def test_a_guest_writes_on_while_it_is_kept_back_moves_and_loses_its_control_plane(
    cloud: MovingCloud, guest_image: bytes, tmp_path: Path
) -> None:
    writer = LiveWriter(cloud, guest_image)
    guest, server_id = writer.guest, writer.server_id
    ledger = Ledger(cloud, server_id, writer.image)
    ledger.start()
    try:
        writer.counts.append(writer.writes_on())
        for befall in (
            writer.is_kept_back,
            writer.moves,
            writer.moves_without_control_plane,
        ):
            befall()
            writer.counts.append(writer.writes_on())
    finally:
        ledger.end()
    assert writer.counts == sorted(set(writer.counts))
    assert ledger.doubles == []
    assert len(ledger.writers) == 3
    assert len(cloud.emulators(server_id)) == 1
    cloud.settle()
    cloud.delete(guest.path)
    assert cloud.emulators(server_id) == []
    written = read_written(writer.image, "qcow2", GIB, tmp_path)
    assert written.before >= writer.counts[-1]
    cloud.delete(f"{VOLUME}/volumes/{writer.volume_id}")
    cloud.settle()
