"""A real guest stands still while it moves to another host and back, and is worked on there.

A guest that arrives paused runs nowhere, so its emulator has not taken hold of its disks. One of
them grows there, they get snapshots, which are merged again, and it is sent on before it runs.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contract.clients import IMAGE, VOLUME
from tests.hosts.moving_cloud import Ledger, MovingCloud
from tests.hosts.real_cloud import GIB
from tests.hosts.writer import Writer
from tests.hosts.written import BLOCK, read_written

pytestmark = pytest.mark.hosts
PICTURE, SNAPSHOTS = "picture", f"{VOLUME}/snapshots"


@pytest.fixture(scope="module")
def cloud(two_hosts: MovingCloud) -> MovingCloud:
    return two_hosts


class StillWriter(Writer):
    """A writer, and what is done to it while it stands still."""

    def moves(self) -> None:
        """Send it to the other host, where it stands still as before."""
        source = self.host
        self.cloud.operator().run("server", "migrate", "--live-migration", self.server_id)
        self.cloud.settle()
        self.guest.until("PAUSED")
        assert self.host != source
        assert len(self.cloud.emulators(self.server_id)) == 1

    def grows(self) -> None:
        """Have the volume to which it writes grow by 1 GiB."""
        path, body = f"{VOLUME}/volumes/{self.volume_id}", {"os-extend": {"new_size": 2}}
        asked = self.cloud.demo.ask("POST", f"{path}/action", body, version="3.42")
        assert asked.status == 202, asked
        self.cloud.demo.until_volume(self.volume_id, "in-use")
        assert self.cloud.demo.ask("GET", path).key("volume")["size"] == 2

    def is_pictured(self) -> None:
        """Have an image made of it, which is of snapshots of its volumes."""
        self.guest.act("createImage", {"name": PICTURE})
        self.cloud.settle()
        [image] = self.cloud.demo.ask("GET", f"{IMAGE}/images?name={PICTURE}").key("images")
        assert image["status"] == "active"
        self.cloud.delete(f"{IMAGE}/images/{image['id']}")

    def has_its_snapshots_merged(self) -> None:
        """Delete the snapshots of its volumes: what lies below is drawn into the overlay."""
        found = self.cloud.demo.ask("GET", SNAPSHOTS).key("snapshots")
        assert len(found) == 2
        for one in found:
            self.cloud.delete(f"{SNAPSHOTS}/{one['id']}")
        self.cloud.settle()
        [self.image] = self.image.parent.glob(f"volume-{self.volume_id}.*")


@contextmanager
def written_by_one(writer: StillWriter) -> Generator[None]:
    """See that no two emulators may write to the image at one time."""
    ledger = Ledger(writer.cloud, writer.server_id, writer.image)
    ledger.start()
    try:
        yield
    finally:
        ledger.end()
    # An emulator whose guest has never run there need not have asked to write.
    assert (ledger.writers != [], ledger.doubles) == (True, [])


def test_a_guest_that_stands_still_is_worked_on_between_two_moves_and_writes_on(
    cloud: MovingCloud, guest_image: bytes, tmp_path: Path
) -> None:
    writer = StillWriter(cloud, guest_image)
    guest = writer.guest
    with written_by_one(writer):
        before = writer.writes_on()
        guest.act("pause")
        guest.until("PAUSED")
        writer.moves()
        writer.grows()
    writer.is_pictured()
    writer.has_its_snapshots_merged()
    with written_by_one(writer):
        writer.moves()
        guest.forget()
        guest.act("unpause")
        guest.hear(f"writer goes on at block {GIB // BLOCK}")
        assert writer.writes_on() > before
    # It writes on out of its memory: what a guest says when it starts is not on this console.
    assert "writer begins" not in guest.said()
    guest.detach(writer.volume_id)
    written = read_written(writer.image, "qcow2", GIB, tmp_path)
    assert (written.before >= before, written.after >= 32) == (True, True)
    cloud.delete(guest.path)
    cloud.delete(f"{VOLUME}/volumes/{writer.volume_id}")
    cloud.settle()
