"""Real guests see their volumes come and go, and outlive the cloud that is killed beside them."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.contract.clients import VOLUME
from tests.hosts.real_cloud import Guest, RealCloud

pytestmark = pytest.mark.hosts


@pytest.fixture(scope="module")
def first(cloud: RealCloud, image: str) -> Generator[Guest]:
    """A guest that has booted from the image."""
    guest = cloud.boot("first", imageRef=image)
    yield guest
    cloud.delete(guest.path)
    assert cloud.files(guest.server_id) == []


@pytest.fixture(scope="module")
def second(cloud: RealCloud, image: str) -> Generator[Guest]:
    """Another one."""
    guest = cloud.boot("second", imageRef=image)
    yield guest
    cloud.delete(guest.path)
    assert cloud.files(guest.server_id) == []


@pytest.fixture
def volume(cloud: RealCloud) -> Generator[str]:
    """The id of an empty volume, which no server may have at the end."""
    volume_id = cloud.demo.volume("data")
    yield volume_id
    cloud.delete(f"{VOLUME}/volumes/{volume_id}")
    cloud.settle()
    assert cloud.files(volume_id) == []


def test_what_one_guest_writes_on_a_volume_the_next_one_reads(
    first: Guest, second: Guest, volume: str
) -> None:
    for guest in (first, second):
        guest.forget()
    first.attach(volume)
    assert first.sees(volume) == "vdb"
    first.hear(f"vdb marker written {first.server_id}")
    first.detach(volume)
    first.hear("disk vdb gone")
    second.attach(volume)
    device = second.sees(volume)
    second.hear(f"{device} marker read {first.server_id}")
    second.detach(volume)
    second.hear(f"disk {device} gone")


def test_several_volumes_come_to_a_running_guest_and_go_at_once(
    cloud: RealCloud, first: Guest
) -> None:
    first.forget()
    volumes = [cloud.demo.volume(f"data-{number}", number) for number in (1, 2, 3)]
    with ThreadPoolExecutor(len(volumes)) as pool:
        list(pool.map(first.attach, volumes))
        found = {first.sees(one, size) for size, one in enumerate(volumes, 1)}
        assert found == {"vdb", "vdc", "vdd"}
        list(pool.map(first.detach, volumes))
    for device in found:
        first.hear(f"disk {device} gone")
    for one in volumes:
        cloud.delete(f"{VOLUME}/volumes/{one}")
    cloud.settle()


def test_a_guest_has_its_volume_after_each_reboot_and_stop(second: Guest, volume: str) -> None:
    second.forget()
    second.attach(volume)
    device = second.sees(volume)
    second.hear(f"{device} marker written {second.server_id}")
    attachments, process_id = second.attachments(), second.process_id()

    def holds_after_boot() -> None:
        second.until("ACTIVE")
        device = second.sees(volume)
        second.hear(f"{device} marker read {second.server_id}")
        second.hear(f"boot marker read {second.server_id}")
        assert second.attachments() == attachments

    second.forget()
    second.act("reboot", {"type": "SOFT"})
    second.hear("power button")
    holds_after_boot()
    second.forget()
    second.act("reboot", {"type": "HARD"})
    holds_after_boot()
    second.act("os-stop")
    second.until("SHUTOFF")
    assert second.server_id not in second.cloud.processes()
    second.forget()
    second.act("os-start")
    holds_after_boot()
    assert second.process_id() != process_id
    second.detach(volume)


def test_a_server_boots_from_a_volume_and_leaves_nothing(cloud: RealCloud, image: str) -> None:
    disk = {
        "boot_index": 0,
        "uuid": image,
        "source_type": "image",
        "destination_type": "volume",
        "volume_size": 1,
        "delete_on_termination": True,
    }
    third = cloud.boot("third", block_device_mapping_v2=[disk])
    [volume] = third.attachments()
    assert third.sees(volume) == "vda"
    third.hear(f"boot marker written {third.server_id}")
    third.forget()
    third.act("reboot", {"type": "HARD"})
    third.until("ACTIVE")
    assert third.sees(volume) == "vda"
    third.hear(f"boot marker read {third.server_id}")
    assert cloud.files(third.server_id)
    assert cloud.files(volume)
    cloud.delete(third.path)
    cloud.demo.until(f"{VOLUME}/volumes/{volume}", lambda got: got.status == 404)
    cloud.settle()
    assert third.server_id not in cloud.processes()
    assert cloud.files(third.server_id) + cloud.files(volume) == []


def test_guests_go_on_while_the_cloud_is_stopped_and_are_found_again(
    cloud: RealCloud, first: Guest, second: Guest
) -> None:
    before = cloud.processes()
    assert {first.server_id, second.server_id} <= before.keys()
    assert cloud.stop() == 0
    assert cloud.processes() == before
    cloud.start()
    cloud.settle()
    for guest in (first, second):
        guest.until("ACTIVE")
        guest.forget()
    assert cloud.processes() == before


def test_an_attach_ends_whose_cloud_is_killed_while_the_guest_runs_on(
    cloud: RealCloud, first: Guest, volume: str
) -> None:
    first.forget()
    process_id = first.process_id()
    point = "compute.attach_volume/give/forward/after"
    cloud.killed_in(point, lambda: first.begin_attach(volume))
    first.hear(f"vdb marker written {first.server_id}")
    cloud.start()
    cloud.demo.until_volume(volume, "in-use")
    cloud.settle()
    assert volume in first.attachments()
    first.detach(volume)
    first.hear("disk vdb gone")
    assert first.process_id() == process_id


def test_a_detach_ends_whose_cloud_is_killed_when_the_guest_has_let_go(
    cloud: RealCloud, first: Guest, volume: str
) -> None:
    first.forget()
    process_id = first.process_id()
    first.attach(volume)
    first.sees(volume)
    point = "compute.detach_volume/take/forward/after"
    cloud.killed_in(point, lambda: first.begin_detach(volume))
    first.hear("disk vdb gone")
    cloud.start()
    cloud.demo.until_volume(volume, "available")
    cloud.settle()
    assert first.attachments() == {}
    assert first.process_id() == process_id
