"""A real guest writes all the time, and moves between two real hosts by the stock command."""

from __future__ import annotations

import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.contract.clients import COMPUTE, VOLUME
from tests.hosts.conftest import require_guests
from tests.hosts.moving_cloud import POOL, Ledger, MovingCloud, two_real_hosts
from tests.hosts.real_cloud import GIB, Guest
from tests.hosts.written import BLOCK, LABEL, read_written

pytestmark = pytest.mark.hosts
MIGRATE, MIGRATION = ("server", "migrate", "--live-migration"), ("server", "migration")
HOST = "OS-EXT-SRV-ATTR:host"
FAST_MIB_S, SLOW_MIB_S = 10_000, 1
"""A guest that leaves at the slow pace is on its way for long enough to be asked something."""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory, several_hosts: None) -> Generator[MovingCloud]:
    del several_hosts
    require_guests()
    with two_real_hosts(tmp_path_factory.mktemp("cloud")) as cloud:
        yield cloud


class Writer:
    """A server that boots from a volume and writes to another one, and where it is."""

    def __init__(self, cloud: MovingCloud, image: bytes) -> None:
        self.cloud, self.operator = cloud, cloud.operator()
        kind = cloud.make_type(POOL)
        root = cloud.make_volume(kind, cloud.demo.image("guest", image, "qcow2"))
        label = cloud.demo.image("label", LABEL.ljust(BLOCK, b"\0"))
        self.volume_id = cloud.make_volume(kind, label)
        mapping = {"boot_index": 0, "uuid": root}
        mapping |= {"source_type": "volume", "destination_type": "volume"}
        self.guest: Guest = cloud.boot("moving", block_device_mapping_v2=[mapping])
        self.guest.attach(self.volume_id)
        self.image = cloud.file_of(self.volume_id)

    @property
    def host(self) -> str:
        """Where it is."""
        return self.operator.ask("server", "show", self.guest.server_id)[HOST]

    def writes_on(self) -> int:
        """Wait until the guest has written once more; return how many blocks it says it wrote."""
        self.guest.forget()
        return int(self.guest.hear(r"writer has written (\d+)")[1])

    def begin(self) -> str:
        """Begin to move it slowly, and return the move's number once it is on its way."""
        server_id = self.guest.server_id
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
        self.operator.run(*MIGRATION, "abort", self.guest.server_id, self.begin())
        self.guest.until("ACTIVE")
        assert (self.host, self.newest()) == (source, "cancelled")

    def moves(self) -> None:
        """Move it to the other host, as fast as it goes."""
        source = self.host
        self.cloud.pace(source, self.guest.server_id, FAST_MIB_S)
        assert "Complete" in self.operator.run(*MIGRATE, "--wait", self.guest.server_id)
        assert (self.host != source, self.newest()) == (True, "completed")
        self.guest.begin_anew()

    def moves_without_control_plane(self) -> None:
        """Begin to move it, kill the control plane, and start that again."""
        source = self.host
        self.begin()
        self.cloud.process.popen.kill()
        assert self.cloud.ended() == -signal.SIGKILL
        self.cloud.pace(source, self.guest.server_id, FAST_MIB_S)
        self.cloud.start()
        self.guest.until("ACTIVE")
        assert (self.host != source, self.newest()) == (True, "completed")

    def newest(self) -> str:
        """Return how its newest move went."""
        listed = self.operator.ask(*MIGRATION, "list", "--server", self.guest.server_id)
        return listed[0]["Status"]


def test_a_guest_writes_on_while_it_is_kept_back_moves_and_loses_its_control_plane(
    cloud: MovingCloud, guest_image: bytes, tmp_path: Path
) -> None:
    writer = Writer(cloud, guest_image)
    guest, server_id = writer.guest, writer.guest.server_id
    ledger = Ledger(cloud, server_id, writer.image)
    ledger.start()
    try:
        counts = [writer.writes_on()]
        for befall in (
            writer.is_kept_back,
            writer.moves,
            writer.moves_without_control_plane,
        ):
            befall()
            counts.append(writer.writes_on())
    finally:
        ledger.end()
    assert counts == sorted(set(counts))
    assert ledger.doubles == []
    assert len(ledger.writers) == 3
    assert len(cloud.emulators(server_id)) == 1
    cloud.settle()
    cloud.delete(guest.path)
    assert cloud.emulators(server_id) == []
    written = read_written(writer.image, "qcow2", GIB, tmp_path)
    assert written.before >= counts[-1]
    cloud.delete(f"{VOLUME}/volumes/{writer.volume_id}")
    cloud.settle()
