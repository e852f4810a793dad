"""A volume grows under a real guest that writes to it, whatever dies meanwhile (spec 000)."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.contract.clients import IMAGE, MIB, VOLUME
from tests.hosts.pooled_cloud import PooledCloud
from tests.hosts.real_cloud import GIB, Guest, tended
from tests.hosts.written import BLOCK, LABEL, read_written

pytestmark = pytest.mark.hosts

POOLS = {"thin": "qcow2", "plain": "raw"}
"""Each pool, which is a volume type as well, and the format of its files."""


@pytest.fixture(scope="module")
def cloud(directory: Path) -> Generator[PooledCloud]:
    """A cloud for all the tests here, which leave it as they found it."""
    with tended(PooledCloud(directory, POOLS)) as cloud:
        for pool in POOLS:
            cloud.make_type(pool)
        yield cloud


@pytest.fixture(scope="module")
def guest(cloud: PooledCloud, guest_image: bytes) -> Generator[Guest]:
    """A guest that has booted from an image."""
    image_id = cloud.demo.image("guest", guest_image, "qcow2")
    guest = cloud.boot("writer", imageRef=image_id)
    yield guest
    cloud.delete(guest.path)
    cloud.delete(f"{IMAGE}/images/{image_id}")


@pytest.fixture(params=POOLS)
def volume(
    cloud: PooledCloud, guest: Guest, request: pytest.FixtureRequest
) -> Generator[tuple[str, str]]:
    """The id and format of a volume of 1 GiB to which the guest writes from the first moment."""
    image_id = cloud.demo.image("label", LABEL.ljust(MIB, b"\0"))
    volume_id = cloud.make_volume(request.param, image_id)
    guest.forget()
    guest.attach(volume_id)
    assert guest.sees(volume_id) == "vdb"
    guest.hear("vdb writer has written")
    yield volume_id, POOLS[request.param]
    cloud.delete(f"{VOLUME}/volumes/{volume_id}")
    cloud.delete(f"{IMAGE}/images/{image_id}")
    cloud.settle()


def grown_everywhere(cloud: PooledCloud, guest: Guest, volume: tuple[str, str], gib: int) -> None:
    """See that guest, API, quota and file tell one size, and that the guest writes up there."""
    volume_id, image_format = volume
    guest.sees(volume_id, gib)
    guest.hear(f"vdb writer goes on at block {(gib - 1) * GIB // BLOCK}")
    guest.forget()
    guest.hear("vdb writer has written")
    cloud.demo.until_volume(volume_id, "in-use")
    shown = cloud.demo.ask("GET", f"{VOLUME}/volumes/{volume_id}").key("volume")
    assert shown["size"] == gib
    assert "extend_new_size" not in shown["metadata"]
    assert cloud.used_gib() == gib
    assert cloud.file_bytes(volume_id, image_format) == gib * GIB
    cloud.settle()


def let_go_and_read(cloud: PooledCloud, guest: Guest, volume: tuple[str, str], work: Path) -> None:
    """Detach the volume while the guest writes, and see that all it wrote is there."""
    volume_id, image_format = volume
    guest.detach(volume_id)
    guest.hear("disk vdb gone")
    written = read_written(cloud.file_of(volume_id), image_format, GIB, work)
    assert written.before >= 32
    assert written.after >= 32


def test_a_volume_grows_by_the_stock_command_while_its_guest_writes(
    cloud: PooledCloud, guest: Guest, volume: tuple[str, str], tmp_path: Path
) -> None:
    guest.forget()
    process_id = guest.process_id()
    command = ("--os-volume-api-version", "3.71", "volume", "set", "--size", "2", volume[0])
    cloud.shell().run(*command)
    grown_everywhere(cloud, guest, volume, 2)
    assert guest.process_id() == process_id
    let_go_and_read(cloud, guest, volume, tmp_path)


@pytest.mark.parametrize("volume", ["thin"], indirect=True)
@pytest.mark.parametrize(
    "point",
    [
        "volume.extend_volume/send_event/forward/after",
        "compute.extend_volume/resize_disk/forward/after",
        "compute.extend_volume/complete_extend/forward/after",
    ],
)
def test_an_extend_ends_whose_cloud_is_killed_while_the_guest_writes_on(
    cloud: PooledCloud, guest: Guest, volume: tuple[str, str], point: str, tmp_path: Path
) -> None:
    guest.forget()
    process_id = guest.process_id()
    path = f"{VOLUME}/volumes/{volume[0]}/action"
    body = {"os-extend": {"new_size": 2}}
    cloud.killed_in(point, lambda: cloud.demo.ask("POST", path, body, version="3.42"))
    cloud.start()
    grown_everywhere(cloud, guest, volume, 2)
    assert guest.process_id() == process_id
    let_go_and_read(cloud, guest, volume, tmp_path)


def test_a_size_that_no_quota_allows_changes_nothing(
    cloud: PooledCloud, guest: Guest, volume: tuple[str, str]
) -> None:
    volume_id, image_format = volume
    path = f"{VOLUME}/volumes/{volume_id}/action"
    answer = cloud.demo.ask("POST", path, {"os-extend": {"new_size": 100_000}}, version="3.42")
    assert answer.status == 413
    cloud.demo.until_volume(volume_id, "in-use")
    assert cloud.file_bytes(volume_id, image_format) == GIB
    guest.detach(volume_id)
    guest.hear("disk vdb gone")
