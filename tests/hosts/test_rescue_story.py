"""A real guest is rescued: it boots another system, finds its own disk, and has it back then."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.contract.clients import IMAGE, MIB, VOLUME
from tests.hosts.pooled_cloud import PooledCloud
from tests.hosts.real_cloud import Guest, tended
from tests.hosts.written import LABEL

pytestmark = pytest.mark.hosts
POOL = "thin"


@pytest.fixture
def cloud(directory: Path) -> Generator[PooledCloud]:
    """A cloud with one pool, which is a volume type as well."""
    with tended(PooledCloud(directory, {POOL: "qcow2"})) as cloud:
        cloud.make_type(POOL)
        yield cloud


@pytest.fixture
def images(cloud: PooledCloud, guest_image: bytes, second_image: bytes) -> Generator[list[str]]:
    """The images that guests boot from and are rescued with, and what volumes are made of."""
    made = [
        cloud.demo.image("guest", guest_image, "qcow2"),
        cloud.demo.image("help", second_image, "qcow2"),
        cloud.demo.image("label", LABEL.ljust(MIB, b"\0")),
    ]
    yield made
    for image_id in made:
        cloud.delete(f"{IMAGE}/images/{image_id}")


@pytest.fixture
def guest(cloud: PooledCloud, images: list[str]) -> Generator[Guest]:
    """A guest that has booted from an image."""
    guest = cloud.boot("stuck", imageRef=images[0])
    yield guest
    cloud.delete(guest.path)


def test_a_guest_boots_another_system_beside_its_own_and_then_its_own_again(
    cloud: PooledCloud, guest: Guest, images: list[str]
) -> None:
    volume = cloud.make_volume(POOL, images[2])
    guest.attach(volume)
    guest.hear("vdb writer has written")
    guest.hear(f"boot marker (written|read) {guest.server_id}")
    guest.forget()
    point = "compute.rescue_server/start_rescue/forward/after"
    cloud.killed_in(point, lambda: guest.act("rescue", {"rescue_image_ref": images[1]}))
    cloud.start()
    guest.until("RESCUE")
    guest.hear("image second")
    guest.hear("disk vda .*serial=")
    # Its own disk is the second one, with what it left there when it booted from it.
    guest.hear(rf"disk vdb [^\n]*\n[^\n]*boot marker read {guest.server_id}")
    guest.hear("vdc writer begins and finds [1-9]")
    assert cloud.files(guest.server_id, "rescue.qcow2") != []
    guest.forget()
    point = "compute.unrescue_server/start_guest/forward/after"
    cloud.killed_in(point, lambda: guest.act("unrescue"))
    cloud.start()
    guest.until("ACTIVE")
    guest.hear("image first")
    guest.hear(f"boot marker read {guest.server_id}")
    guest.hear("vdb writer begins and finds [1-9]")
    assert cloud.files(guest.server_id, "rescue.qcow2") == []
    guest.detach(volume)
    cloud.delete(f"{VOLUME}/volumes/{volume}")
