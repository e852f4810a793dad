"""A real guest that writes stands still, in its emulator and in a file, and leaves no gap."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.contract.clients import IMAGE, MIB, VOLUME
from tests.hosts.pooled_cloud import PooledCloud
from tests.hosts.real_cloud import GIB, Guest, tended
from tests.hosts.written import BLOCK, LABEL, read_written

pytestmark = pytest.mark.hosts
POOL = "thin"


@pytest.fixture
def cloud(directory: Path) -> Generator[PooledCloud]:
    """A cloud with one pool, which is a volume type as well."""
    with tended(PooledCloud(directory, {POOL: "qcow2"})) as cloud:
        cloud.make_type(POOL)
        yield cloud


@pytest.fixture
def volume(cloud: PooledCloud, guest: Guest) -> Generator[str]:
    """A volume of 1 GiB to which the guest writes from the first moment."""
    image_id = cloud.demo.image("label", LABEL.ljust(MIB, b"\0"))
    volume_id = cloud.make_volume(POOL, image_id)
    guest.attach(volume_id)
    guest.hear("vdb writer has written")
    yield volume_id
    cloud.delete(f"{VOLUME}/volumes/{volume_id}")
    cloud.delete(f"{IMAGE}/images/{image_id}")
    cloud.settle()


def writes_on(guest: Guest) -> None:
    """Wait until the guest says that it has written once more."""
    guest.until("ACTIVE")
    guest.forget()
    guest.hear("vdb writer has written")


def test_a_guest_that_writes_keeps_its_memory(
    cloud: PooledCloud, guest: Guest, volume: str, tmp_path: Path
) -> None:
    process_id = guest.process_id()
    guest.act("pause")
    guest.until("PAUSED")
    assert guest.process_id() == process_id
    guest.act("unpause")
    writes_on(guest)
    guest.act("suspend")
    guest.until("SUSPENDED")
    assert guest.server_id not in cloud.processes()
    assert len(cloud.files(guest.server_id, ".save")) == 1
    path, body = f"{VOLUME}/volumes/{volume}/action", {"os-extend": {"new_size": 2}}
    assert cloud.demo.ask("POST", path, body, version="3.42").status == 202
    cloud.demo.until_volume(volume, "in-use")
    cloud.settle()
    guest.forget()
    point = "compute.resume_server/set_power/forward/after"
    cloud.killed_in(point, lambda: guest.act("resume"))
    cloud.start()
    guest.sees(volume, 2)
    guest.hear(f"vdb writer goes on at block {GIB // BLOCK}")
    writes_on(guest)
    assert cloud.files(guest.server_id, ".save") == []
    said = guest.said()
    assert (said.count("mooring-guest: up"), said.count("writer begins")) == (1, 1)
    guest.detach(volume)
    written = read_written(cloud.file_of(volume), "qcow2", GIB, tmp_path)
    assert min(written.before, written.after) >= 32
