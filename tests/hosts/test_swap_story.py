"""A real guest numbers what it writes while its volume is swapped twice, and leaves no gap."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.contract.clients import IMAGE, MIB, VOLUME
from tests.hosts.pooled_cloud import PooledCloud
from tests.hosts.real_cloud import GIB, Guest, tended
from tests.hosts.written import BLOCK, LABEL, read_written

pytestmark = pytest.mark.hosts
POOLS = {"thin": "qcow2", "thick": "raw"}


@pytest.fixture
def cloud(directory: Path) -> Generator[PooledCloud]:
    """A cloud with two pools of different formats, each a volume type as well."""
    with tended(PooledCloud(directory, POOLS)) as cloud:
        for pool in POOLS:
            cloud.make_type(pool)
        yield cloud


@pytest.fixture
def volumes(cloud: PooledCloud, guest: Guest) -> Generator[list[str]]:
    """A volume to which the guest writes, and two to take its place; the last is larger."""
    image_id = cloud.demo.image("label", LABEL.ljust(MIB, b"\0"))
    made = [cloud.make_volume("thin", image_id)]
    guest.attach(made[0])
    guest.hear("vdb writer has written")
    for pool, size_gib in (("thick", 1), ("thin", 2)):
        body = {"volume": {"size": size_gib, "volume_type": pool}}
        volume_id = cloud.demo.ask("POST", f"{VOLUME}/volumes", body).key("volume")["id"]
        cloud.demo.until_volume(volume_id, "available")
        made.append(volume_id)
    yield made
    for volume_id in made:
        cloud.delete(f"{VOLUME}/volumes/{volume_id}")
    cloud.delete(f"{IMAGE}/images/{image_id}")
    cloud.settle()


def swap(cloud: PooledCloud, guest: Guest, old: str, new: str) -> None:
    """Ask for a swap, as an administrator."""
    path = f"{guest.path}/os-volume_attachments/{old}"
    answer = cloud.admin.ask("PUT", path, {"volumeAttachment": {"volumeId": new}})
    assert answer.status == 202, answer


def writes_on(guest: Guest) -> int:
    """Wait until the guest has written once more; return how many blocks it says it wrote."""
    guest.forget()
    return int(guest.hear(r"vdb writer has written (\d+)")[1])


def test_a_guest_that_writes_goes_on_with_other_volumes(
    cloud: PooledCloud, guest: Guest, volumes: list[str], tmp_path: Path
) -> None:
    process_id = guest.process_id()
    first, second, third = volumes
    # The whole cloud dies, once with the copy done, and once with the guest switched.
    point = "compute.swap_volume/await_copy/forward/after"
    cloud.killed_in(point, lambda: swap(cloud, guest, first, second))
    cloud.start()
    cloud.demo.until_volume(first, "available")
    counts = [writes_on(guest)]
    point = "compute.swap_volume/switch/forward/after"
    cloud.killed_in(point, lambda: swap(cloud, guest, second, third))
    cloud.start()
    cloud.demo.until_volume(second, "available")
    guest.hear(f"vdb writer goes on at block {GIB // BLOCK}")
    counts.append(writes_on(guest))
    cloud.settle()
    assert guest.attachments().keys() == {third}
    assert guest.process_id() == process_id
    said = guest.said()
    assert (said.count("mooring-guest: up"), said.count("writer begins")) == (1, 1)
    guest.detach(third)
    written = [
        read_written(cloud.file_of(volume_id), kind, GIB, tmp_path)
        for volume_id, kind in zip(volumes, ("qcow2", "raw", "qcow2"), strict=True)
    ]
    # Each of the old ones has what was written up to its switch, and nothing of what came later.
    assert 0 < written[0].before <= written[1].before <= written[2].before
    assert written[0].before <= counts[0] <= counts[1] <= written[2].before + written[2].after
    assert written[2].after >= 32
