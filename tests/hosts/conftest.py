"""What every test with real guests begins with."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from mooring.errors import Invalid
from mooring.lab.namespaces import check_able
from tests.agent.hosts import CHECKOUT, GUEST_IMAGE, why_no_real_guests
from tests.contract.clients import IMAGE
from tests.hosts.moving_cloud import MovingCloud, two_real_hosts
from tests.hosts.real_cloud import Guest, RealCloud, tended
from tests.hosts.written import labelled


def require_guests() -> None:
    """Make the disks that guests boot from, when needed; skip where no real guest can run."""
    if shutil.which("syslinux"):
        subprocess.run([CHECKOUT / "scripts" / "build_guest"], check=True)
    if reason := why_no_real_guests():
        pytest.skip(f"no real guests here: {reason}")


@pytest.fixture(scope="session")
def several_hosts() -> None:
    """Skip where no real hosts can be made of this machine."""
    try:
        asyncio.run(check_able(2))
    except Invalid as error:
        pytest.skip(error.public)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a cloud with real guests can live."""
    require_guests()
    return tmp_path_factory.mktemp("cloud")


@pytest.fixture(scope="session")
def guest_image() -> bytes:
    """The disk, in qcow2, whose guest says `image first`."""
    require_guests()
    return GUEST_IMAGE.read_bytes()


@pytest.fixture(scope="session")
def writing_image() -> bytes:
    """The same, raw, whose guest writes to its own disk without end."""
    require_guests()
    return labelled(GUEST_IMAGE.with_name("guest.raw").read_bytes())


@pytest.fixture(scope="session")
def second_image() -> bytes:
    """The same, whose guest says `image second`."""
    require_guests()
    return GUEST_IMAGE.with_name("second.qcow2").read_bytes()


@pytest.fixture(scope="module")
def cloud(directory: Path) -> Generator[RealCloud]:
    """A cloud for all the tests of a module, which leave it as they found it."""
    with tended(RealCloud(directory)) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def image(cloud: RealCloud, guest_image: bytes) -> Generator[str]:
    """The id of the test guest's image."""
    image_id = cloud.demo.image("guest", guest_image, "qcow2")
    yield image_id
    cloud.delete(f"{IMAGE}/images/{image_id}")


@pytest.fixture
def guest(cloud: RealCloud, guest_image: bytes) -> Generator[Guest]:
    """A guest that has booted from an image, for one test."""
    image_id = cloud.demo.image("guest", guest_image, "qcow2")
    guest = cloud.boot("writer", imageRef=image_id)
    yield guest
    cloud.delete(guest.path)
    cloud.delete(f"{IMAGE}/images/{image_id}")


@pytest.fixture(scope="module")
def two_hosts(
    tmp_path_factory: pytest.TempPathFactory, several_hosts: None
) -> Generator[MovingCloud]:
    """A cloud of two real hosts for all the tests of a module."""
    del several_hosts
    require_guests()
    with two_real_hosts(tmp_path_factory.mktemp("cloud")) as cloud:
        yield cloud
