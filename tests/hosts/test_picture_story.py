"""An image is made of the disks of a real guest that writes; another one boots from it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from mooring.agent.guest_files import ROOT, ROOT_FORMAT
from tests.contract.clients import COMPUTE, IMAGE, MIB, VOLUME
from tests.hosts.pooled_cloud import PooledCloud
from tests.hosts.real_cloud import GIB, Guest, tended
from tests.hosts.written import LABEL, ROOT_FIRST, UNKEPT, read_written

pytestmark = pytest.mark.hosts
POOLS = {"thin": "qcow2"}


@pytest.fixture(scope="module")
def cloud(directory: Path) -> Generator[PooledCloud]:
    """A cloud with a pool whose volumes have snapshots."""
    with tended(PooledCloud(directory, POOLS)) as cloud:
        cloud.make_type("thin")
        yield cloud


@pytest.fixture
def guest(cloud: PooledCloud, guest_image: bytes) -> Generator[Guest]:
    """A guest that boots from a volume, and writes to another one all the time."""
    image_id = cloud.demo.image("guest", guest_image, "qcow2")
    root = {"source_type": "image", "destination_type": "volume", "boot_index": 0}
    root |= {"uuid": image_id, "volume_size": 1, "volume_type": "thin"}
    guest = cloud.boot("writer", block_device_mapping_v2=[root])
    guest.hear(f"boot marker written {guest.server_id}")
    label_id = cloud.demo.image("label", LABEL.ljust(MIB, b"\0"))
    guest.attach(cloud.make_volume("thin", label_id))
    yield guest
    clean(cloud, guest)
    for one in (image_id, label_id):
        cloud.delete(f"{IMAGE}/images/{one}")
    cloud.settle()


def clean(cloud: PooledCloud, guest: Guest) -> None:
    """Delete a server and its volumes."""
    volumes = [*guest.attachments()]
    cloud.delete(guest.path)
    for volume_id in volumes:
        cloud.delete(f"{VOLUME}/volumes/{volume_id}")


def writes_on(guest: Guest, disk: str = "vdb", first: int = 0) -> int:
    """Wait until the guest has written once more; return how many blocks it says it wrote.

    They are numbered from the one behind `first`.
    """
    guest.forget()
    return int(guest.hear(rf"{disk} writer has written (\d+)")[1]) - first


def writes_to_its_own(guest: Guest) -> int:
    """Do so of a guest that writes to its root disk."""
    return writes_on(guest, "vda", ROOT_FIRST)


def begin_picture(cloud: PooledCloud, guest: Guest) -> None:
    """Ask for an image of the server."""
    path, body = f"{COMPUTE}/servers/{guest.server_id}/action", {"createImage": {"name": "picture"}}
    assert cloud.demo.ask("POST", path, body).status == 202


def test_a_guest_boots_from_the_image_of_another_that_goes_on_writing(
    cloud: PooledCloud, guest: Guest
) -> None:
    before, process_id = writes_on(guest), guest.process_id()
    # The whole cloud dies once with the snapshots asked for, and none of them waited for.
    point = "compute.picture_volumes/await_snapshot/forward/before"
    cloud.killed_in(point, lambda: begin_picture(cloud, guest))
    cloud.start()
    cloud.settle()
    [image] = cloud.demo.ask("GET", f"{IMAGE}/images?name=picture").key("images")
    assert (image["status"], image["size"]) == ("active", 0)
    assert writes_on(guest) > before
    assert guest.process_id() == process_id
    copy = cloud.boot("copy", imageRef=image["id"])
    copy.hear(f"boot marker read {guest.server_id}")
    assert int(copy.hear(r"vdb writer begins and finds (\d+) blocks")[1]) >= before
    assert not {*copy.attachments()} & {*guest.attachments()}
    clean(cloud, copy)
    cloud.delete(f"{IMAGE}/images/{image['id']}")
    for one in cloud.demo.ask("GET", f"{VOLUME}/snapshots").key("snapshots"):
        cloud.delete(f"{VOLUME}/snapshots/{one['id']}")
    assert writes_on(guest) > before


def test_a_guest_boots_from_the_image_of_the_disk_that_another_writes_to(
    cloud: PooledCloud, writing_image: bytes, tmp_path: Path
) -> None:
    """Without a gap it has all that was written before it was asked for, and nothing it may not."""
    image_id = cloud.demo.image("writing", writing_image)
    guest = cloud.boot("writer", imageRef=image_id)
    before, process_id = writes_to_its_own(guest), guest.process_id()
    begin_picture(cloud, guest)
    cloud.settle()
    [image] = cloud.demo.ask("GET", f"{IMAGE}/images?name=picture").key("images")
    assert (image["status"], image["disk_format"]) == ("active", "qcow2")
    went_on = writes_to_its_own(guest)
    assert guest.process_id() == process_id
    written = read_written(
        download(cloud, image["id"], tmp_path), "qcow2", GIB, tmp_path, first=ROOT_FIRST
    )
    assert before <= written.before < went_on
    copy = cloud.boot("copy", imageRef=image["id"])
    found = int(copy.hear(r"vda writer begins and finds (\d+) blocks")[1])
    # The last few may have gaps, behind one of which the guest may look.
    assert written.before <= found < written.before + UNKEPT
    for one, least in ((copy, written.before), (guest, went_on)):
        goes_on_without_gap(cloud, one, least, tmp_path)
    for path in (
        copy.path,
        guest.path,
        f"{IMAGE}/images/{image['id']}",
        f"{IMAGE}/images/{image_id}",
    ):
        cloud.delete(path)


def goes_on_without_gap(cloud: PooledCloud, guest: Guest, least: int, work: Path) -> None:
    """See that a guest writes on to its own disk, and that this has every block that it told of."""
    said = writes_to_its_own(guest)
    assert said > least
    guest.act("os-stop")
    guest.until("SHUTOFF")
    [root] = cloud.files(guest.server_id, ROOT)
    assert read_written(root, ROOT_FORMAT, GIB, work, first=ROOT_FIRST).before >= said


def download(cloud: PooledCloud, image_id: str, work: Path) -> Path:
    """Return a file with an image's data."""
    file = work / image_id
    headers = {"X-Auth-Token": cloud.demo.token}
    answer = cloud.demo.client.get(f"{IMAGE}/images/{image_id}/file", headers=headers)
    assert answer.status_code == 200, answer
    file.write_bytes(answer.content)
    return file
