"""Two real guests on two real hosts write to one volume, each to a half of it, while one moves.

The volume is of a type for several servers, so it is raw, and each guest's writes go past the cache
of its host. Afterwards both halves have every block that their guests told of, and no other.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.contract.clients import COMPUTE, VOLUME
from tests.hosts.moving_cloud import POOL, Ledger, MovingCloud
from tests.hosts.real_cloud import Guest
from tests.hosts.test_moves_story import FAST_MIB_S, MIGRATE
from tests.hosts.writer import HOST
from tests.hosts.written import BLOCK, SHARED, read_halves

pytestmark = pytest.mark.hosts
SINCE = "2.60"
"""The version of compute's API that gives servers volumes which others may have, too."""


@pytest.fixture(scope="module")
def cloud(two_hosts: MovingCloud) -> MovingCloud:
    return two_hosts


class Sharer:
    """A server that boots from a volume of its own, and writes to its half of another one."""

    def __init__(self, cloud: MovingCloud, image: bytes, volume_id: str) -> None:
        self.cloud = cloud
        root = cloud.make_volume(cloud.kind, cloud.demo.image("guest", image, "qcow2"))
        mapping = {"boot_index": 0, "uuid": root}
        mapping |= {"source_type": "volume", "destination_type": "volume"}
        self.guest: Guest = cloud.boot("sharer", block_device_mapping_v2=[mapping])
        path = f"{self.guest.path}/os-volume_attachments"
        body = {"volumeAttachment": {"volumeId": volume_id}}
        answer = cloud.demo.ask("POST", path, body, version=SINCE)
        assert answer.status == 200, answer
        self.guest.hear("vdb writer begins and finds 0 blocks")
        self.ledger = Ledger(cloud, self.guest.server_id, cloud.file_of(volume_id))
        self.count = 0
        """The last block that it said it had written."""

    @property
    def host(self) -> str:
        """Where it is."""
        shown = self.cloud.admin.ask("GET", f"{COMPUTE}/servers/{self.guest.server_id}")
        return shown.key("server")[HOST]

    def writes_on(self) -> None:
        """Wait until the guest has written once more."""
        self.guest.forget()
        count = int(self.guest.hear(r"vdb writer has written (\d+)")[1])
        assert count > self.count
        self.count = count

    def moves(self) -> None:
        """Move it to the other host."""
        source, server_id = self.host, self.guest.server_id
        self.cloud.pace(source, server_id, FAST_MIB_S)
        assert "Complete" in self.cloud.operator().run(*MIGRATE, "--wait", server_id)
        assert self.host != source


def make_shared(cloud: MovingCloud) -> str:
    """Make the volume that both are to have, and return its id."""
    kind = cloud.make_type(POOL, name="several", multiattach="<is> True")
    label = cloud.demo.image("label", SHARED.ljust(BLOCK, b"\0"))
    return cloud.make_volume(kind, label)


def write_on_after(sharers: list[Sharer], befalls: list[Callable[[], None]]) -> None:
    """See that both guests write on, at first and after all that befalls them."""
    for sharer in sharers:
        sharer.ledger.start()
    try:
        for befall in (lambda: None, *befalls):
            befall()
            for sharer in sharers:
                sharer.writes_on()
    finally:
        for sharer in sharers:
            sharer.ledger.end()


def test_two_guests_write_to_halves_of_one_volume_while_one_of_them_moves(
    cloud: MovingCloud, guest_image: bytes, second_image: bytes
) -> None:
    volume_id = make_shared(cloud)
    sharers = [Sharer(cloud, image, volume_id) for image in (guest_image, second_image)]
    staying, moving = sharers
    assert staying.host != moving.host
    # Both are at one host in between.
    write_on_after(sharers, [moving.moves, moving.moves])
    assert staying.host != moving.host
    for sharer, emulators in ((staying, 1), (moving, 3)):
        assert sharer.ledger.doubles == []
        assert len(sharer.ledger.writers) == emulators
    cloud.settle()
    image = cloud.file_of(volume_id)
    for sharer in sharers:
        cloud.delete(sharer.guest.path)
    first, second = read_halves(image)
    half = image.stat().st_size // BLOCK // 2
    assert (first >= staying.count, half + second >= moving.count) == (True, True)
    assert moving.count > half
    cloud.delete(f"{VOLUME}/volumes/{volume_id}")
    cloud.settle()
