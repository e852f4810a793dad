"""A real guest that writes goes on with another volume, and moves between two real hosts with that.

First its volume is swapped for another one, then that one goes to another pool by a retype. After
each the guest moves, and at the end lets go of the volume that it has by then. Both hosts reach
both pools, whose volumes have different formats.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.contract.clients import VOLUME
from tests.hosts.conftest import require_guests
from tests.hosts.moving_cloud import POOL, Ledger, MovingCloud, two_real_hosts
from tests.hosts.real_cloud import GIB
from tests.hosts.test_migrated_volumes_story import act, pool_of
from tests.hosts.test_moves_story import LiveWriter
from tests.hosts.test_swap_story import swap
from tests.hosts.written import read_written

pytestmark = pytest.mark.hosts
POOLS = {POOL: "qcow2", "thick": "raw"}


@pytest.fixture
def cloud(tmp_path_factory: pytest.TempPathFactory, several_hosts: None) -> Generator[MovingCloud]:
    """A cloud of two real hosts with two pools."""
    del several_hosts
    require_guests()
    with two_real_hosts(tmp_path_factory.mktemp("cloud"), POOLS) as cloud:
        yield cloud


def make_empty(cloud: MovingCloud, volume_type: str) -> str:
    """Make an empty volume, and return its id once it is available."""
    body = {"volume": {"size": 1, "volume_type": volume_type}}
    volume_id = cloud.demo.ask("POST", f"{VOLUME}/volumes", body).key("volume")["id"]
    cloud.demo.until_volume(volume_id, "available")
    return volume_id


def retype(cloud: MovingCloud, volume_id: str, new_type: str) -> None:
    """Let a volume in use go to the pool of another type."""
    wanted = {"new_type": new_type, "migration_policy": "on-demand"}
    act(cloud, volume_id, "os-retype", wanted)
    cloud.settle()
    cloud.demo.until_volume(volume_id, "in-use")
    assert pool_of(cloud, volume_id) == new_type


def moves_with(writer: LiveWriter, volume_id: str) -> None:
    """See that the guest writes to a volume, moves, and writes on to it."""
    writer.counts.append(writer.writes_on())
    ledger = Ledger(writer.cloud, writer.server_id, writer.cloud.file_of(volume_id))
    ledger.start()
    try:
        writer.moves()
        writer.counts.append(writer.writes_on())
    finally:
        ledger.end()
    assert (ledger.doubles, len(ledger.writers)) == ([], 2)
    assert volume_id in writer.guest.attachments()


def test_a_guest_that_writes_moves_with_what_its_volume_was_swapped_and_retyped_for(
    cloud: MovingCloud, guest_image: bytes, tmp_path: Path
) -> None:
    cloud.make_type("thick")
    writer = LiveWriter(cloud, guest_image)
    first, second = writer.volume_id, make_empty(cloud, "thick")
    writer.counts.append(writer.writes_on())
    swap(cloud, writer.guest, first, second)
    cloud.demo.until_volume(first, "available")
    cloud.settle()
    moves_with(writer, second)
    retype(cloud, second, POOL)
    moves_with(writer, second)
    assert writer.counts == sorted(set(writer.counts))
    writer.guest.detach(second)
    writer.guest.hear("disk vdb gone")
    written = read_written(cloud.file_of(second), POOLS[POOL], GIB, tmp_path)
    assert written.before >= writer.counts[-1]
    assert read_written(cloud.file_of(first), POOLS[POOL], GIB, tmp_path).before >= writer.counts[0]
    cloud.settle()
    cloud.delete(writer.guest.path)
    for volume_id in (first, second):
        cloud.delete(f"{VOLUME}/volumes/{volume_id}")
    cloud.settle()
