"""A volume grows under a real guest that writes to it, whatever dies meanwhile (spec 000)."""

from __future__ import annotations

import os
import signal
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


def begin_extend(cloud: PooledCloud, volume_id: str, gib: int) -> int:
    """Ask for a volume to grow, and return the status of the answer."""
    path, body = f"{VOLUME}/volumes/{volume_id}/action", {"os-extend": {"new_size": gib}}
    return cloud.demo.ask("POST", path, body, version="3.42").status


def grown_everywhere(cloud: PooledCloud, guest: Guest, volume: tuple[str, str], gib: int) -> None:
    """See that guest, API, quota and file tell one size, and that the guest writes up there."""
    guest.sees(volume[0], gib)
    guest.hear(f"vdb writer goes on at block {(gib - 1) * GIB // BLOCK}")
    guest.forget()
    guest.hear("vdb writer has written")
    all_agree(cloud, volume, "in-use", gib)
    cloud.settle()


def all_agree(cloud: PooledCloud, volume: tuple[str, str], status: str, gib: int) -> None:
    """See that API, quota and file tell one size of a volume that has reached a status."""
    volume_id, image_format = volume
    cloud.demo.until_volume(volume_id, status)
    shown = cloud.demo.ask("GET", f"{VOLUME}/volumes/{volume_id}").key("volume")
    assert shown["size"] == gib
    assert "extend_new_size" not in shown["metadata"]
    assert cloud.used_gib() == gib
    assert cloud.file_bytes(volume_id, image_format) == gib * GIB


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
@pytest.mark.kill
@pytest.mark.cases(
    [
        "volume.extend_volume/send_event/forward/after",
        "compute.extend_volume/resize_disk/forward/after",
        "compute.extend_volume/complete_extend/forward/after",
    ],
    1,
)
def test_an_extend_ends_whose_cloud_is_killed_while_the_guest_writes_on(
    cloud: PooledCloud, guest: Guest, volume: tuple[str, str], case: str, tmp_path: Path
) -> None:
    guest.forget()
    process_id = guest.process_id()
    cloud.killed_in(case, lambda: begin_extend(cloud, volume[0], 2))
    cloud.start()
    grown_everywhere(cloud, guest, volume, 2)
    assert guest.process_id() == process_id
    let_go_and_read(cloud, guest, volume, tmp_path)


def test_a_size_that_no_quota_allows_changes_nothing(
    cloud: PooledCloud, guest: Guest, volume: tuple[str, str]
) -> None:
    volume_id, image_format = volume
    assert begin_extend(cloud, volume_id, 100_000) == 413
    cloud.demo.until_volume(volume_id, "in-use")
    assert cloud.file_bytes(volume_id, image_format) == GIB
    guest.detach(volume_id)
    guest.hear("disk vdb gone")


def test_a_paused_guest_has_the_new_size_when_it_goes_on(
    cloud: PooledCloud, guest: Guest, volume: tuple[str, str], tmp_path: Path
) -> None:
    guest.forget()
    process_id = guest.process_id()
    cloud.order("suspend", guest.server_id)
    assert begin_extend(cloud, volume[0], 2) == 202
    all_agree(cloud, volume, "in-use", 2)
    cloud.order("resume", guest.server_id)
    grown_everywhere(cloud, guest, volume, 2)
    assert guest.process_id() == process_id
    let_go_and_read(cloud, guest, volume, tmp_path)


@pytest.mark.parametrize("volume", ["thin"], indirect=True)
def test_a_guest_that_ended_before_compute_heard_of_it_boots_with_the_new_size(
    cloud: PooledCloud, guest: Guest, volume: tuple[str, str], tmp_path: Path
) -> None:
    volume_id, image_format = volume
    point = "volume.extend_volume/send_event/forward/before"
    cloud.killed_in(point, lambda: begin_extend(cloud, volume_id, 2))
    os.kill(guest.process_id(), signal.SIGKILL)
    cloud.start()
    all_agree(cloud, volume, "in-use", 2)
    guest.forget()
    guest.act("reboot", {"type": "HARD"})
    guest.until("ACTIVE")
    guest.sees(volume_id, 2)
    guest.hear("vdb writer has written")
    guest.detach(volume_id)
    guest.hear("disk vdb gone")
    assert read_written(cloud.file_of(volume_id), image_format, GIB, tmp_path).before >= 32


@pytest.mark.parametrize("volume", ["thin"], indirect=True)
def test_a_server_that_is_deleted_while_its_volume_grows_leaves_the_volume_in_order(
    cloud: PooledCloud, guest: Guest, volume: tuple[str, str], guest_image: bytes
) -> None:
    volume_id, _ = volume
    guest.detach(volume_id)
    guest.hear("disk vdb gone")
    image_id = cloud.demo.image("doomed", guest_image, "qcow2")
    doomed = cloud.boot("doomed", imageRef=image_id)
    doomed.attach(volume_id)
    doomed.hear("vdb writer has written")
    process_id = doomed.process_id()
    # A guest that stands still is told nothing: the deletion comes in the middle of it.
    os.kill(process_id, signal.SIGSTOP)
    assert begin_extend(cloud, volume_id, 2) == 202
    assert cloud.demo.ask("DELETE", doomed.path).status == 204
    os.kill(process_id, signal.SIGCONT)
    cloud.demo.until(doomed.path, lambda got: got.status == 404)
    cloud.settle()
    shown = cloud.demo.ask("GET", f"{VOLUME}/volumes/{volume_id}").key("volume")
    # Where the deletion was quicker than the order to grow, nothing grew, and nothing is amiss.
    all_agree(cloud, volume, "available", shown["size"])
    assert begin_extend(cloud, volume_id, 3) == 202
    all_agree(cloud, volume, "available", 3)
    cloud.delete(f"{IMAGE}/images/{image_id}")
