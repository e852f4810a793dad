"""A real guest numbers what it writes while its volume is migrated and retyped under it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.contract.clients import IMAGE, MIB, VOLUME
from tests.hosts.pooled_cloud import HOST, PooledCloud
from tests.hosts.real_cloud import GIB, Guest, tended
from tests.hosts.test_swap_story import writes_on
from tests.hosts.written import BLOCK, LABEL, read_written

pytestmark = pytest.mark.hosts
POOLS = {"thin": "qcow2", "thick": "raw"}
SAGA = "compute.swap_migrated_volume"


@pytest.fixture
def cloud(directory: Path) -> Generator[PooledCloud]:
    """A cloud with two pools of different formats, a volume type for each, and one for both."""
    with tended(PooledCloud(directory, POOLS)) as cloud:
        for pool in POOLS:
            cloud.make_type(pool)
        cloud.admin.ask("POST", f"{VOLUME}/types", {"volume_type": {"name": "either"}})
        yield cloud


@pytest.fixture
def volume_id(cloud: PooledCloud, guest: Guest) -> Generator[str]:
    """A volume to which the guest writes."""
    image_id = cloud.demo.image("label", LABEL.ljust(MIB, b"\0"))
    made = cloud.make_volume("either", image_id)
    guest.attach(made)
    guest.hear("vdb writer has written")
    yield made
    cloud.delete(f"{VOLUME}/volumes/{made}")
    cloud.delete(f"{IMAGE}/images/{image_id}")
    cloud.settle()


def pool_of(cloud: PooledCloud, volume_id: str) -> str:
    """Return the pool that a volume is in."""
    shown = cloud.admin.ask("GET", f"{VOLUME}/volumes/{volume_id}").key("volume")
    return shown["os-vol-host-attr:host"].rpartition("#")[2]


def act(cloud: PooledCloud, volume_id: str, action: str, value: object) -> None:
    """Ask for an action of a volume, as an administrator."""
    path = f"{VOLUME}/volumes/{volume_id}/action"
    answer = cloud.admin.ask("POST", path, {action: value}, version="3.60")
    assert answer.status == 202, answer


def killed_and_done(
    cloud: PooledCloud, volume_id: str, point: str, ask: Callable[[], object]
) -> None:
    """Ask, have the whole cloud die at a point of the swap, and wait until all is done."""
    cloud.killed_in(f"{SAGA}/{point}/forward/after", ask)
    cloud.start()
    cloud.settle()
    cloud.demo.until_volume(volume_id, "in-use")


def test_a_guest_that_writes_goes_on_in_other_pools(
    cloud: PooledCloud, guest: Guest, volume_id: str, tmp_path: Path
) -> None:
    process_id, first = guest.process_id(), pool_of(cloud, volume_id)
    [second] = POOLS.keys() - {first}
    migrate = {"host": f"{HOST}@directory#{second}"}
    killed_and_done(
        cloud, volume_id, "await_copy", lambda: act(cloud, volume_id, "os-migrate_volume", migrate)
    )
    assert pool_of(cloud, volume_id) == second
    counts = [writes_on(guest)]
    retype = {"new_type": first, "migration_policy": "on-demand"}
    killed_and_done(cloud, volume_id, "switch", lambda: act(cloud, volume_id, "os-retype", retype))
    assert pool_of(cloud, volume_id) == first
    counts.append(writes_on(guest))
    assert guest.attachments().keys() == {volume_id}
    assert guest.process_id() == process_id
    said = guest.said()
    assert (said.count("mooring-guest: up"), said.count("writer begins")) == (1, 1)
    act(cloud, volume_id, "os-extend", {"new_size": 2})
    guest.hear(f"vdb writer goes on at block {GIB // BLOCK}")
    counts.append(writes_on(guest))
    cloud.demo.until_volume(volume_id, "in-use")
    guest.detach(volume_id)
    written = read_written(cloud.file_of(volume_id), POOLS[first], GIB, tmp_path)
    assert 0 < counts[0] <= counts[1] <= counts[2] <= written.before + written.after
    assert written.after >= 32
    check_again(cloud, guest, volume_id, first)


def check_again(cloud: PooledCloud, guest: Guest, volume_id: str, pool: str) -> None:
    """See that there is one file of the volume, which a guest finds again, also at its start."""
    there = [one.parent.name for one in cloud.files(f"volume-{volume_id}") if not one.suffix]
    assert there == [pool]
    guest.forget()
    guest.attach(volume_id)
    guest.sees(volume_id, 2)
    guest.begin_anew()
    guest.act("os-stop")
    guest.until("SHUTOFF")
    guest.act("os-start")
    guest.until("ACTIVE")
    guest.sees(volume_id, 2)
    guest.detach(volume_id)
