"""A real guest boots from a disk on scsi, and gets a volume by it and loses that while it runs."""

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
def images(cloud: PooledCloud, guest_image: bytes) -> Generator[list[str]]:
    """The image that asks for scsi, and what the volume is made of."""
    made = [
        cloud.demo.image("guest", guest_image, "qcow2", hw_disk_bus="scsi"),
        cloud.demo.image("label", LABEL.ljust(MIB, b"\0")),
    ]
    yield made
    for image_id in made:
        cloud.delete(f"{IMAGE}/images/{image_id}")


@pytest.fixture
def guest(cloud: PooledCloud, images: list[str]) -> Generator[Guest]:
    """A guest that has booted from an image, with a config drive beside its disk."""
    guest = cloud.boot("on scsi", imageRef=images[0], config_drive=True)
    yield guest
    cloud.delete(guest.path)


def test_a_guest_on_scsi_has_a_volume_while_it_runs_and_from_its_next_start_on(
    cloud: PooledCloud, guest: Guest, images: list[str]
) -> None:
    guest.hear("image first")
    guest.hear(r"disk sda \d+ bytes serial=\s")
    guest.hear(rf"boot marker written {guest.server_id}")
    volume = cloud.make_volume(POOL, images[1])
    guest.attach(volume)
    path = f"{guest.path}/os-volume_attachments/{volume}"
    assert cloud.demo.ask("GET", path).key("volumeAttachment")["device"] == "/dev/sdb"
    assert guest.sees(volume) == "sdb"
    guest.hear("sdb writer has written")
    guest.forget()
    guest.act("reboot", {"type": "HARD"})
    guest.until("ACTIVE")
    guest.hear(rf"boot marker read {guest.server_id}")
    guest.hear("sd. writer begins and finds [1-9]")
    guest.detach(volume)
    guest.hear("sd. gone")
    assert guest.attachments() == {}
    cloud.delete(f"{VOLUME}/volumes/{volume}")
