"""A real guest numbers what it writes while its volume is backed up, in full and again."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.contract.clients import IMAGE, MIB, VOLUME
from tests.hosts.pooled_cloud import PooledCloud
from tests.hosts.real_cloud import GIB, Guest, tended
from tests.hosts.test_swap_story import writes_on
from tests.hosts.written import LABEL, read_written

pytestmark = pytest.mark.hosts
POOLS = {"thin": "qcow2"}
POINTS = ("volume.create_snapshot/switch_guest", "volume.store_backup/store_data")


@pytest.fixture
def cloud(directory: Path) -> Generator[PooledCloud]:
    with tended(PooledCloud(directory, POOLS)) as cloud:
        cloud.make_type("thin")
        yield cloud


@pytest.fixture
def volume_id(cloud: PooledCloud, guest: Guest) -> Generator[str]:
    """A volume to which the guest writes."""
    image_id = cloud.demo.image("label", LABEL.ljust(MIB, b"\0"))
    made = cloud.make_volume("thin", image_id)
    guest.attach(made)
    guest.hear("vdb writer has written")
    yield made
    guest.detach(made)
    cloud.delete(f"{VOLUME}/volumes/{made}")
    cloud.delete(f"{IMAGE}/images/{image_id}")
    cloud.settle()


def until_available(cloud: PooledCloud, backup_id: str) -> None:
    """Wait for a backup, or for the end of its restore."""
    cloud.demo.until(
        f"{VOLUME}/backups/{backup_id}",
        lambda answer: answer.key("backup")["status"] == "available",
    )


def backed_up(cloud: PooledCloud, volume_id: str, point: str, made: list[str]) -> str:
    """Back a volume up with force, the whole cloud killed in the middle; return the backup's id."""
    wanted = {"volume_id": volume_id, "force": True, "incremental": bool(made)}
    path, body = f"{VOLUME}/backups", {"backup": wanted}
    cloud.killed_in(f"{point}/forward/after", lambda: cloud.demo.ask("POST", path, body))
    cloud.start()
    listed = {one["id"] for one in cloud.demo.ask("GET", path).key("backups")}
    [new] = listed.difference(made)
    until_available(cloud, new)
    cloud.settle()
    return new


def restored(cloud: PooledCloud, backup_id: str, work: Path) -> int:
    """Restore a backup to a new volume, and return how many blocks the guest had written by it."""
    path = f"{VOLUME}/backups/{backup_id}/restore"
    new = cloud.demo.ask("POST", path, {"restore": {}}).key("restore")["volume_id"]
    cloud.demo.until_volume(new, "available")
    until_available(cloud, backup_id)
    count = read_written(cloud.file_of(new), "qcow2", GIB, work).before
    cloud.delete(f"{VOLUME}/volumes/{new}")
    return count


def test_a_backup_under_a_guest_that_writes_is_of_one_moment(
    cloud: PooledCloud, guest: Guest, volume_id: str, tmp_path: Path
) -> None:
    process_id, made = guest.process_id(), list[str]()
    counts = [writes_on(guest)]
    for point in POINTS:
        made.append(backed_up(cloud, volume_id, point, made))
        counts.append(writes_on(guest))
    assert guest.process_id() == process_id
    assert cloud.demo.ask("GET", f"{VOLUME}/snapshots").key("snapshots") == []
    first, second = (restored(cloud, one, tmp_path) for one in made)
    assert counts[0] <= first <= counts[1] <= second <= counts[2]
    for backup_id in reversed(made):
        cloud.delete(f"{VOLUME}/backups/{backup_id}")
