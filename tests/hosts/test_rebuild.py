"""A real guest that boots from a volume gets another image, whatever fails or dies meanwhile.

Specs 002 and 004, facts/compute.md 5. The image of each guest says a word on its console; both the
boot disk and the data volume have a marker, which tells who wrote it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contract.clients import IMAGE, VOLUME
from tests.hosts.pooled_cloud import PooledCloud
from tests.hosts.real_cloud import tended

pytestmark = pytest.mark.hosts

POOLS = {"thin": "qcow2", "plain": "raw"}
"""Each pool, which is a volume type as well, and the format of its files."""
KEEPS = "keeps"
"""The volume type whose volumes keep their data when reimaging fails."""


@pytest.fixture(scope="module")
def cloud(directory: Path) -> Generator[PooledCloud]:
    """A cloud for all the tests here, which leave it as they found it."""
    with tended(PooledCloud(directory, POOLS)) as cloud:
        for pool in POOLS:
            cloud.make_type(pool)
        cloud.make_type("thin", name=KEEPS, reimage_keep_snapshot="true")
        yield cloud


@pytest.fixture(scope="module")
def first(cloud: PooledCloud, guest_image: bytes) -> Generator[str]:
    """The id of the image that servers boot from."""
    image_id = cloud.demo.image("first", guest_image, "qcow2")
    yield image_id
    cloud.delete(f"{IMAGE}/images/{image_id}")


@pytest.fixture
def second(cloud: PooledCloud, second_image: bytes) -> Generator[str]:
    """The id of the image that they are rebuilt with, which no host has yet."""
    image_id = cloud.demo.image("second", second_image, "qcow2")
    yield image_id
    cloud.delete(f"{IMAGE}/images/{image_id}")


class Booted:
    """A server that booted from volume `root`, and has volume `data`; its guest marked both."""

    def __init__(self, cloud: PooledCloud, volume_type: str, image_id: str) -> None:
        self.cloud = cloud
        disk = {
            "boot_index": 0,
            "uuid": image_id,
            "source_type": "image",
            "destination_type": "volume",
            "volume_size": 1,
            "volume_type": volume_type,
            "delete_on_termination": True,
        }
        self.guest = cloud.boot("booted", block_device_mapping_v2=[disk])
        [self.root] = self.guest.attachments()
        self.data = cloud.demo.volume("data")
        self.guest.attach(self.data)
        for name in ("boot", "vdb"):
            self.guest.hear(f"{name} marker written {self.guest.server_id}")
        self.guest.hear("image first")

    def begin_rebuild(self, image_id: str) -> None:
        """Ask for the image to replace what the server boots from."""
        path, body = f"{self.guest.path}/action", {"rebuild": {"imageRef": image_id}}
        answer = self.cloud.demo.ask("POST", path, body, version="2.93")
        assert answer.status == 202, answer

    def runs(self, word: str, marker: str) -> None:
        """See that the guest which runs now is of an image; `marker` tells whose its disk is.

        It has the data volume with the marker that the first one wrote.
        """
        guest = self.guest
        guest.until("ACTIVE")
        guest.begin_anew()
        for line in (f"image {word}", f"boot marker {marker}", "vdb marker read"):
            guest.hear(f"{line}.*")
        assert guest.sees(self.root) == "vda"
        assert guest.sees(self.data) == "vdb"
        assert guest.attachments().keys() == {self.root, self.data}
        for volume_id in (self.root, self.data):
            self.cloud.demo.until_volume(volume_id, "in-use")
        self.cloud.settle()

    def last_action(self) -> dict[str, Any]:
        """What the server's history says of the newest action."""
        path = f"{self.guest.path}/os-instance-actions"
        newest = self.cloud.demo.ask("GET", path).key("instanceActions")[0]
        assert newest["action"] == "rebuild"
        return newest

    def image(self) -> str:
        """The image whose content the root volume has, as the volume service tells."""
        shown = self.cloud.demo.ask("GET", f"{VOLUME}/volumes/{self.root}").key("volume")
        return shown["volume_image_metadata"]["image_id"]

    def remove(self) -> None:
        """Delete the server and its volumes."""
        self.cloud.delete(self.guest.path)
        self.cloud.delete(f"{VOLUME}/volumes/{self.data}")
        for volume_id in (self.root, self.data):
            self.cloud.demo.until(f"{VOLUME}/volumes/{volume_id}", lambda got: got.status == 404)
        self.cloud.settle()
        assert self.cloud.files(self.root) + self.cloud.files(self.guest.server_id) == []


@pytest.fixture
def booted(cloud: PooledCloud, first: str, request: pytest.FixtureRequest) -> Generator[Booted]:
    """A server whose root volume has the type that the test names, or `thin`."""
    server = Booted(cloud, getattr(request, "param", "thin"), first)
    yield server
    server.remove()


@contextmanager
def damaged(cloud: PooledCloud, image_id: str) -> Generator[None]:
    """The image service has other data than was uploaded, until the cause is mended."""
    [file] = (cloud.state_dir / "images").glob(f"{image_id}*")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    yield
    file.write_bytes(whole)


@pytest.mark.parametrize("booted", POOLS, indirect=True)
def test_the_stock_command_replaces_what_a_guest_boots_from_and_keeps_its_data_volume(
    cloud: PooledCloud, booted: Booted, second: str
) -> None:
    ask = ("--os-compute-api-version", "2.93", "server", "rebuild", "--image", second)
    cloud.shell().run(*ask, "--reimage-boot-volume", "--wait", booted.guest.server_id)
    booted.runs("second", "written")
    assert booted.image() == second
    assert booted.last_action()["message"] is None


def test_a_stopped_server_boots_the_new_image_when_it_is_started(
    booted: Booted, second: str
) -> None:
    booted.guest.act("os-stop")
    booted.guest.until("SHUTOFF")
    booted.begin_rebuild(second)
    booted.guest.until("SHUTOFF")
    assert booted.guest.server_id not in booted.cloud.processes()
    booted.guest.act("os-start")
    booted.runs("second", "written")


def test_a_rebuild_with_a_damaged_image_fails_and_succeeds_once_the_image_is_mended(
    cloud: PooledCloud, booted: Booted, second: str
) -> None:
    with damaged(cloud, second):
        booted.begin_rebuild(second)
        booted.guest.until("ERROR")
    assert booted.last_action()["message"].startswith("Error")
    messages = cloud.demo.ask("GET", f"{VOLUME}/messages", version="3.5").key("messages")
    [why] = [one["user_message"] for one in messages if one["resource_uuid"] == booted.root]
    assert "The image's data are not what its format says" in why
    cloud.demo.until_volume(booted.root, "error")
    cloud.demo.until_volume(booted.data, "in-use")
    cloud.settle()
    booted.begin_rebuild(second)
    booted.runs("second", "written")
    assert booted.image() == second


@pytest.mark.parametrize("booted", [KEEPS], indirect=True)
def test_a_failed_rebuild_leaves_the_first_image_booting_where_the_type_keeps_data(
    cloud: PooledCloud, booted: Booted, first: str, second: str
) -> None:
    with damaged(cloud, second):
        booted.begin_rebuild(second)
        booted.runs("first", "read")
    assert booted.last_action()["message"].startswith("Error")
    assert booted.image() == first
    booted.begin_rebuild(second)
    booted.runs("second", "written")


def test_a_refused_reimage_leaves_the_first_image_booting(
    cloud: PooledCloud, booted: Booted, first: str, second: str
) -> None:
    process_id = booted.guest.process_id()
    # A guest that stands still cannot be switched off: the image goes between the two services.
    os.kill(process_id, signal.SIGSTOP)
    booted.begin_rebuild(second)
    path = f"{IMAGE}/images/{second}/actions"
    assert cloud.admin.ask("POST", f"{path}/deactivate").status == 204
    os.kill(process_id, signal.SIGCONT)
    booted.runs("first", "read")
    assert booted.last_action()["message"].startswith("Error")
    assert booted.image() == first
    assert cloud.admin.ask("POST", f"{path}/reactivate").status == 204


@pytest.mark.kill
@pytest.mark.cases(
    [
        "compute.rebuild_server/destroy_guest/forward/after",
        "volume.reimage_volume/replace_content/forward/after",
        "compute.rebuild_server/spawn_guest/forward/after",
    ],
    1,
)
def test_a_rebuild_ends_whose_cloud_is_killed(
    cloud: PooledCloud, booted: Booted, second: str, case: str
) -> None:
    cloud.killed_in(case, lambda: booted.begin_rebuild(second))
    cloud.start()
    booted.runs("second", "written")
    assert booted.image() == second
    assert booted.last_action()["message"] is None


@pytest.mark.parametrize("booted", [KEEPS], indirect=True)
def test_a_rebuild_that_fails_brings_the_first_image_back_although_its_cloud_is_killed(
    cloud: PooledCloud, booted: Booted, first: str, second: str
) -> None:
    with damaged(cloud, second):
        point = "compute.rebuild_server/return_guest/failing/after"
        cloud.killed_in(point, lambda: booted.begin_rebuild(second))
        process_id = booted.guest.process_id()
        cloud.start()
        booted.runs("first", "read")
    assert booted.guest.process_id() == process_id
    assert booted.last_action()["message"].startswith("Error")
    assert booted.image() == first
