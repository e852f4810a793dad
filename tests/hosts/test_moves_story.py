"""A real guest writes all the time, and moves between two real hosts by the stock command."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.clients import COMPUTE, MIB, VOLUME
from tests.hosts.departing import Departing
from tests.hosts.moving_cloud import Ledger, MovingCloud
from tests.hosts.real_cloud import GIB
from tests.hosts.writer import Writer
from tests.hosts.written import BUSY, LABEL, read_written

pytestmark = pytest.mark.hosts
MIGRATE, MIGRATION = ("server", "migrate", "--live-migration"), ("server", "migration")
FORCE = (*MIGRATION, "force", "complete")
FAST_MIB_S, SLOW_MIB_S = 10_000, 1
"""A guest that leaves at the slow pace is on its way for long enough to be asked something."""
VAIN_MIB_S = 2
"""At this pace a guest that changes its memory all the time never gets there."""


@pytest.fixture(scope="module")
def cloud(two_hosts: MovingCloud) -> MovingCloud:
    return two_hosts


class LiveWriter(Writer):
    """A writer, and what befalls it while it runs."""

    def __init__(
        self, cloud: MovingCloud, image: bytes, label: bytes = LABEL, **properties: str
    ) -> None:
        super().__init__(cloud, image, label, **properties)
        self.operator = cloud.operator()

    def begin(self, mib_s: int = SLOW_MIB_S) -> str:
        """Begin to move it slowly, and return the move's number once it is on its way."""
        server_id = self.server_id
        self.cloud.pace(self.host, server_id, mib_s)
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

    def is_forced(self) -> None:
        """Begin to move it in vain, and force that: it stands still until it is there."""
        source, number = self.host, self.begin(VAIN_MIB_S)
        departing = Departing(self.cloud, source, self.server_id)
        departing.is_sent_in_vain()
        self.operator.run(*FORCE, self.server_id, number)
        departing.stands_still()
        self.arrives(source)

    def is_forced_by_its_time(self) -> None:
        """Begin to move it slowly, and wait until it has been on its way for too long."""
        source = self.host
        self.begin()
        Departing(self.cloud, source, self.server_id).stands_still()
        self.arrives(source)

    def is_forced_and_kept_back(self) -> None:
        """Begin to move it, force that, and abort it: it goes on where it is."""
        source, number = self.host, self.begin()
        self.operator.run(*FORCE, self.server_id, number)
        Departing(self.cloud, source, self.server_id).stands_still()
        self.operator.run(*MIGRATION, "abort", self.server_id, number)
        self.guest.until("ACTIVE")
        assert (self.host, self.newest()) == (source, "cancelled")

    def arrives(self, source: str) -> None:
        """Let it arrive, as fast as it goes; then it runs."""
        self.cloud.pace(source, self.server_id, FAST_MIB_S)
        self.guest.until("ACTIVE")
        assert (self.host != source, self.newest()) == (True, "completed")
        self.guest.begin_anew()

    def newest(self) -> str:
        """Return how its newest move went."""
        listed = self.operator.ask(*MIGRATION, "list", "--server", self.server_id)
        return listed[0]["Status"]


def test_a_guest_writes_on_while_it_is_kept_back_moves_and_loses_its_control_plane(
    cloud: MovingCloud, guest_image: bytes, tmp_path: Path
) -> None:
    writer = LiveWriter(cloud, guest_image)
    befalls = (writer.is_kept_back, writer.moves, writer.moves_without_control_plane)
    writes_through(writer, 3, *befalls)
    is_whole(writer, tmp_path)


def test_a_guest_that_never_gets_there_is_held_still_on_its_way_and_writes_on(
    cloud: MovingCloud, guest_image: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LiveWriter(cloud, guest_image, BUSY)
    writes_through(writer, 2, writer.is_forced_and_kept_back, writer.is_forced)
    with monkeypatch.context() as patched:
        patched.setenv("MOORING_LIVE_MIGRATION_TIMEOUT_S", "30")
        patched.setenv("MOORING_LIVE_MIGRATION_TIMEOUT_ACTION", "force_complete")
        begin_anew(cloud)
        writes_through(writer, 2, writer.is_forced_by_its_time)
    begin_anew(cloud)
    is_whole(writer, tmp_path)


def test_a_guest_on_scsi_moves_with_its_disks_and_has_others_plugged_there(
    cloud: MovingCloud, guest_image: bytes, tmp_path: Path
) -> None:
    writer = LiveWriter(cloud, guest_image, hw_disk_bus="scsi")
    later = cloud.make_volume(cloud.kind, cloud.demo.image("more", bytes(MIB)))

    def has_another_disk() -> None:
        writer.guest.attach(later)
        assert writer.guest.sees(later) == "sdc"

    def loses_it() -> None:
        writer.guest.detach(later)
        writer.guest.hear("sdc gone")

    writes_through(writer, 3, writer.moves, has_another_disk, writer.moves, loses_it)
    assert sorted(one["device"] for one in disks_of(writer)) == ["/dev/sda", "/dev/sdb"]
    cloud.delete(f"{VOLUME}/volumes/{later}")
    is_whole(writer, tmp_path)


def disks_of(writer: LiveWriter) -> list[dict[str, str]]:
    """Return the volumes that the server has, as they are shown."""
    path = f"{writer.guest.path}/os-volume_attachments"
    return writer.cloud.demo.ask("GET", path).key("volumeAttachments")


def begin_anew(cloud: MovingCloud) -> None:
    """Start the control plane anew, with the settings that are in the environment."""
    assert cloud.stop() == 0
    cloud.start()


def writes_through(writer: LiveWriter, emulators: int, *befalls: Callable[[], None]) -> None:
    """See that a guest writes on after all that befalls it, in so many emulators one by one."""
    ledger = Ledger(writer.cloud, writer.server_id, writer.image)
    ledger.start()
    try:
        writer.counts.append(writer.writes_on())
        for befall in befalls:
            befall()
            writer.counts.append(writer.writes_on())
    finally:
        ledger.end()
    assert writer.counts == sorted(set(writer.counts))
    assert ledger.doubles == []
    assert len(ledger.writers) == emulators
    assert len(writer.cloud.emulators(writer.server_id)) == 1


def is_whole(writer: LiveWriter, tmp_path: Path) -> None:
    """Delete a server, and see that its volume has every block that its guest has told of."""
    cloud, guest, server_id = writer.cloud, writer.guest, writer.server_id
    cloud.settle()
    cloud.delete(guest.path)
    assert cloud.emulators(server_id) == []
    written = read_written(writer.image, "qcow2", GIB, tmp_path)
    assert written.before >= writer.counts[-1]
    cloud.delete(f"{VOLUME}/volumes/{writer.volume_id}")
    cloud.settle()
