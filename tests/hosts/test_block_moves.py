"""A real guest moves between two real hosts while it writes to the root disk on its host.

The image's marker sector says MOORING-WRITER, so the guest writes numbered blocks behind it, over
what is left of the image and over what its disk has more.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.agent.hosts import GUEST_IMAGE
from tests.contract.clients import COMPUTE
from tests.hosts.departing import Departing
from tests.hosts.local_ledger import LocalLedger
from tests.hosts.moving_cloud import HOSTS, POOL, MovingCloud
from tests.hosts.real_cloud import GIB, Guest
from tests.hosts.writer import HOST
from tests.hosts.written import BLOCK, ROOT_FIRST, content, labelled

pytestmark = pytest.mark.hosts
MIGRATE = ("server", "migrate", "--live-migration", "--block-migration")
MIGRATION = ("server", "migration")
FAST_MIB_S, SLOW_MIB_S = 10_000, 1


@pytest.fixture(scope="module")
def cloud(two_hosts: MovingCloud) -> MovingCloud:
    return two_hosts


class RootWriter:
    """A server that writes to the root disk on its host, and what befalls it while it runs."""

    def __init__(self, cloud: MovingCloud) -> None:
        self.cloud, self.operator = cloud, cloud.operator()
        self.image = labelled(GUEST_IMAGE.with_suffix(".raw").read_bytes())
        kind = cloud.make_type(POOL)
        label = cloud.demo.image("label", b"MOORING-NOTHING".ljust(BLOCK, b"\0"))
        volume_id = cloud.make_volume(kind, label)
        image_id = cloud.demo.image("writes", self.image, "raw")
        self.guest: Guest = cloud.boot("writer", imageRef=image_id)
        self.server_id = self.guest.server_id
        self.guest.attach(volume_id)
        self.guest.sees(volume_id)
        self.counts: list[int] = []
        """How many blocks the guest said it had written, as it was heard."""

    @property
    def host(self) -> str:
        """Where it is."""
        shown = self.cloud.admin.ask("GET", f"{COMPUTE}/servers/{self.server_id}")
        return shown.key("server")[HOST]

    def directory(self, host: str) -> Path:
        """Where a host keeps what is the server's own."""
        return self.cloud.state_dir / "hosts" / host / "guests" / self.server_id

    def is_only_at(self, host: str) -> None:
        """See that one host has files of it, and it is there."""
        assert [one for one in HOSTS if self.directory(one).exists()] == [host]
        assert self.host == host

    def writes_on(self) -> None:
        """Wait until the guest has written once more."""
        self.guest.forget()
        self.counts.append(int(self.guest.hear(r"writer has written (\d+)")[1]))

    def begin(self) -> str:
        """Begin to move it slowly, and return the move's number once its disk is on its way."""
        self.cloud.pace(self.host, self.server_id, SLOW_MIB_S)
        self.operator.run(*MIGRATE, self.server_id)
        path = f"{COMPUTE}/servers/{self.server_id}/migrations"
        got = self.cloud.admin.until(
            path,
            lambda answer: any(one["disk_total_bytes"] for one in answer.key("migrations")),
            version="2.90",
        )
        [found] = got.key("migrations")
        assert found["status"] == "running"
        assert 0 < found["disk_processed_bytes"] <= found["disk_total_bytes"]
        return str(found["id"])

    def is_kept_back(self) -> None:
        """Begin to move it, and abort that: it stays where it is."""
        source = self.host
        self.operator.run(*MIGRATION, "abort", self.server_id, self.begin())
        self.guest.until("ACTIVE")
        assert self.newest() == "cancelled"
        self.is_only_at(source)

    def moves(self) -> None:
        """Move it to the other host, as fast as it goes."""
        (there,) = {*HOSTS} - {self.host}
        self.cloud.pace(self.host, self.server_id, FAST_MIB_S)
        assert "Complete" in self.operator.run(*MIGRATE, "--wait", self.server_id)
        assert self.newest() == "completed"
        self.is_only_at(there)
        self.guest.begin_anew()

    def moves_without_control_plane(self) -> None:
        """Begin to move it, kill the control plane, and start that again."""
        source = self.host
        (there,) = {*HOSTS} - {source}
        self.begin()
        self.cloud.process.popen.kill()
        assert self.cloud.ended() == -signal.SIGKILL
        self.cloud.pace(source, self.server_id, FAST_MIB_S)
        self.cloud.start()
        self.guest.until("ACTIVE")
        assert self.newest() == "completed"
        self.is_only_at(there)
        self.guest.begin_anew()

    def is_forced(self) -> None:
        """Begin to move it slowly, and force that: it stands still until it is there."""
        source = self.host
        (there,) = {*HOSTS} - {source}
        number = self.begin()
        self.operator.run(*MIGRATION, "force", "complete", self.server_id, number)
        Departing(self.cloud, source, self.server_id).stands_still()
        self.cloud.pace(source, self.server_id, FAST_MIB_S)
        self.guest.until("ACTIVE")
        assert self.newest() == "completed"
        self.is_only_at(there)
        self.guest.begin_anew()

    def newest(self) -> str:
        """Return how its newest move went."""
        listed = self.operator.ask(*MIGRATION, "list", "--server", self.server_id)
        return listed[0]["Status"]

    def read_disk(self, work: Path) -> int:
        """Return up to which number the guest, which is off, has written; all else is the image's.

        `work` is a directory that takes a copy.
        """
        own = self.directory(self.host) / "root.qcow2"
        raw = work / "root.raw"
        convert = ["qemu-img", "convert", "-f", "qcow2", "-O", "raw", str(own), str(raw)]
        subprocess.run(convert, check=True)
        assert raw.stat().st_size == GIB
        count = ROOT_FIRST
        with raw.open("rb") as file:
            start = file.read((count + 1) * BLOCK)
            while (block := file.read(BLOCK)) == content(count + 1):
                count += 1
            # What the writer has not come to is the image's; behind that there is nothing.
            rest = block + file.read(len(self.image))
        assert start == self.image[: len(start)]
        assert rest.rstrip(b"\0") == self.image[(count + 1) * BLOCK :].rstrip(b"\0")
        return count


def test_a_guest_writes_on_to_its_own_disk_while_it_moves(
    cloud: MovingCloud, tmp_path: Path
) -> None:
    writer = RootWriter(cloud)
    first = writer.host
    (second,) = {*HOSTS} - {first}
    images = {host: writer.directory(host) / "root.qcow2" for host in HOSTS}
    ledger = LocalLedger(cloud, writer.server_id, images)
    ledger.start()
    try:
        writer.writes_on()
        for befall in (
            writer.is_kept_back,
            writer.moves,
            writer.moves_without_control_plane,
            writer.is_forced,
        ):
            befall()
            writer.writes_on()
    finally:
        ledger.end()
    assert writer.counts == sorted(set(writer.counts))
    assert ledger.writers == [first, second, first, second]
    assert (ledger.doubles, ledger.shared) == ([], [])
    assert ledger.copied > 0
    assert len(cloud.emulators(writer.server_id)) == 1
    cloud.settle()
    writer.guest.act("os-stop")
    writer.guest.until("SHUTOFF")
    assert writer.read_disk(tmp_path) >= writer.counts[-1]
    cloud.delete(writer.guest.path)
    assert cloud.emulators(writer.server_id) == []
    assert not any(writer.directory(host).exists() for host in HOSTS)
    cloud.settle()
