"""The disks of a new server: which requests make sense, and what the disks are called."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.clients.volume import Volume
from mooring.compute.create.block_devices import (
    NewBlockDevice,
    Wanted,
    check_count,
    check_device_name,
    choose_device_name,
    plan,
)
from mooring.errors import Conflict, Forbidden, Invalid

IMAGE, VOLUME = "image", "volume"
ROOM = Wanted(image_id=IMAGE, image_min_disk_gib=2, disk_gib=10, ephemeral_gib=0, swap_mib=0)
BARE = Wanted(image_id="", image_min_disk_gib=0, disk_gib=10, ephemeral_gib=0, swap_mib=0)
VOLUMES = {VOLUME: Volume(VOLUME, "available", 5, bootable="true")}


def item(source: str, destination: str | None, **more: Any) -> NewBlockDevice:
    return NewBlockDevice(source_type=source, destination_type=destination, **more)


def shape(planned: list[NewBlockDevice]) -> list[tuple[str, str | None, str | None]]:
    return [(one.source_type, one.destination_type, one.device_name) for one in planned]


def test_image_alone_is_a_local_root() -> None:
    assert shape(plan([], ROOM, {})) == [("image", "local", "/dev/vda")]


def test_image_with_its_own_local_item_is_the_same_root() -> None:
    same = item("image", "local", uuid=IMAGE, boot_index=0)
    assert shape(plan([same], ROOM, {})) == [("image", "local", "/dev/vda")]


def test_root_comes_first_and_a_volume_brings_its_size() -> None:
    extra = item("blank", "volume", volume_size_gib=1, boot_index=-1)
    planned = plan([extra, item("volume", None, uuid=VOLUME, boot_index=0)], BARE, VOLUMES)
    assert shape(planned) == [("volume", "volume", "/dev/vda"), ("blank", "volume", "/dev/vdb")]
    assert planned[0].volume_size_gib == 5


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        ([], BARE),
        ([item("blank", "volume", volume_size_gib=1)], BARE),
        ([item("volume", None, uuid=VOLUME, boot_index=1)], BARE),
        ([item("volume", None, uuid=VOLUME, boot_index=0)] * 2, BARE),
        ([item("blank", "volume", volume_size_gib=1, boot_index=2)], ROOM),
        ([item("volume", "local", uuid=VOLUME)], ROOM),
        ([item("snapshot", "local", uuid="s")], ROOM),
        ([item("snapshot", "volume", volume_size_gib=1)], ROOM),
        ([item("tape", "volume", uuid="s")], ROOM),
        ([item("blank", "shelf")], ROOM),
        ([item("blank", "volume")], ROOM),
        ([item("blank", "volume", uuid="x", volume_size_gib=1)], ROOM),
        ([item("blank", "local", volume_size_gib=1)], ROOM),
        ([item("image", "volume", volume_size_gib=1)], ROOM),
        ([item("image", "volume", uuid=IMAGE, boot_index=0, volume_size_gib=1)], ROOM),
        ([item("image", "local", uuid="another")], ROOM),
        ([item("blank", "volume", volume_size_gib=1, disk_bus="string")], ROOM),
        ([item("volume", None, uuid=VOLUME, volume_type="fast")], ROOM),
        ([item("volume", None, uuid=VOLUME), item("volume", None, uuid=VOLUME)], ROOM),
        ([item("blank", "volume", volume_size_gib=1, device_name="/dev/sp ace")], ROOM),
    ],
)
def test_disks_that_make_no_sense_are_invalid(items: list[NewBlockDevice], wanted: Wanted) -> None:
    with pytest.raises(Invalid):
        plan(items, wanted, VOLUMES)


def test_volume_that_is_not_bootable_is_no_root() -> None:
    data = {VOLUME: Volume(VOLUME, "available", 5)}
    with pytest.raises(Invalid, match="not bootable"):
        plan([item("volume", None, uuid=VOLUME, boot_index=0)], BARE, data)


def test_device_names_go_on_after_z() -> None:
    used = [f"/dev/vd{chr(97 + n)}" for n in range(26)]
    assert choose_device_name(used) == "/dev/vdaa"
    assert choose_device_name([*used, "/dev/vdaa"]) == "/dev/vdab"
    assert choose_device_name(["/dev/vda", "/dev/vdc"]) == "/dev/vdb"


def test_requested_name_takes_the_roots_prefix() -> None:
    assert choose_device_name(["/dev/vda"], requested="/dev/sdf") == "/dev/vdf"
    with pytest.raises(Conflict):
        choose_device_name(["/dev/vda"], requested="/dev/sda")


@pytest.mark.parametrize("name", ["vdb", "/dev/", "/dev/vdb; reboot", "/etc/passwd"])
def test_what_is_no_device_is_invalid(name: str) -> None:
    with pytest.raises(Invalid):
        check_device_name(name)


def test_there_are_no_more_disks_than_a_guest_may_have_and_than_are_set() -> None:
    check_count(25, -1)
    check_count(1, 2)
    for present, most in ((2, 2), (26, -1), (26, 500)):
        with pytest.raises(Forbidden):
            check_count(present, most)
