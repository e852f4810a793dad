"""Disks of servers on the bus that their mapping or their image asks for."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.agent_api.servers import Guest
from mooring.errors import NoCapacity
from tests.compute.cloud import IMAGE, NEW, ComputeCloud
from tests.compute.rescuing import guest_of

pytestmark = pytest.mark.anyio
ON = "7d1f7f30-35a4-4f0e-8d51-0b5b6a5d2c55"
"""An image whose properties each test says."""
BUSES = frozenset(f"COMPUTE_STORAGE_BUS_{bus}" for bus in ("SATA", "SCSI", "USB", "VIRTIO"))
HEEDS = "CUSTOM_COMPUTE_DISK_BUSES"
BLANK = {"source_type": "blank", "destination_type": "volume", "volume_size": 1}


def put_image(cloud: ComputeCloud, **properties: str) -> str:
    cloud.shelf.put(ON, b"on a bus" * 8192, **properties)
    return ON


def root_on(bus: str) -> dict[str, Any]:
    """Return what stands for the image as the root disk, on a bus of its own."""
    given = {"source_type": "image", "destination_type": "local", "uuid": ON, "boot_index": 0}
    return {**given, "disk_bus": bus}


def places(guest: Guest) -> list[tuple[str, str]]:
    return [(disk.device, disk.bus) for disk in guest.disks]


async def shown(cloud: ComputeCloud, server_id: str) -> tuple[str, list[str]]:
    """Return what the API calls the root disk, and the volumes."""
    server = await cloud.server(server_id)
    names = [one["device"] for one in await cloud.attachments(server_id)]
    return server["OS-EXT-SRV-ATTR:root_device_name"], names


async def post(cloud: ComputeCloud, **server: Any) -> Any:
    wanted = {"name": "s", "flavorRef": "1", "imageRef": ON, "networks": "none", **server}
    return await cloud.ask("POST", "/servers", {"server": wanted})


@pytest.mark.parametrize(
    ("word", "bus", "prefix"),
    [
        ("scsi", "scsi", "/dev/sd"),
        ("sata", "sata", "/dev/sd"),
        ("ide", "sata", "/dev/sd"),
        ("usb", "usb", "/dev/sd"),
        ("virtio", "virtio", "/dev/vd"),
        ("", "virtio", "/dev/vd"),
    ],
)
async def test_an_image_says_what_all_disks_of_a_server_are_on(
    any_cloud: ComputeCloud, word: str, bus: str, prefix: str
) -> None:
    cloud = any_cloud
    image = put_image(cloud, **({"hw_disk_bus": word} if word else {}))
    server_id = await cloud.make_server(imageRef=image, block_device_mapping_v2=[BLANK])
    assert await shown(cloud, server_id) == (f"{prefix}a", [f"{prefix}b"])
    guest = await guest_of(cloud, server_id)
    assert (guest.root_device, places(guest)) == (f"{prefix}a", [(f"{prefix}b", bus)])


async def test_a_mapping_goes_before_the_image(cloud: ComputeCloud) -> None:
    image = put_image(cloud, hw_disk_bus="scsi")
    disks = [
        root_on("virtio"),
        {**BLANK, "disk_bus": "virtio"},
        {**BLANK, "disk_bus": "ide"},
        BLANK,
    ]
    server_id = await cloud.make_server(imageRef=image, block_device_mapping_v2=disks)
    expected = [("/dev/vdb", "virtio"), ("/dev/sda", "sata"), ("/dev/sdb", "scsi")]
    assert await shown(cloud, server_id) == ("/dev/vda", [device for device, _ in expected])
    guest = await guest_of(cloud, server_id)
    assert (guest.root_device, places(guest)) == ("/dev/vda", expected)
    # What comes later is on the image's bus.
    assert (await cloud.attach(server_id, await cloud.make_volume())).status == 200
    await cloud.settle()
    assert places(await guest_of(cloud, server_id)) == [*expected, ("/dev/sdc", "scsi")]


@pytest.mark.parametrize("source", ["volume", "image", "snapshot"])
async def test_a_server_that_boots_from_a_volume_heeds_its_image(
    cloud: ComputeCloud, source: str
) -> None:
    image = put_image(cloud, hw_disk_bus="scsi")
    found = image
    if source != "image":
        body = {"volume": {"size": 1, "imageRef": image}}
        found = (await cloud.volume_api("POST", "/volumes", body))["volume"]["id"]
        await cloud.settle()
    if source == "snapshot":
        body = {"snapshot": {"volume_id": found}}
        found = (await cloud.volume_api("POST", "/snapshots", body))["snapshot"]["id"]
        await cloud.settle()
    root = {"source_type": source, "destination_type": "volume", "uuid": found, "boot_index": 0}
    more = {"volume_size": 1} if source == "image" else {}
    server_id = await cloud.make_server(imageRef="", block_device_mapping_v2=[{**root, **more}])
    assert await shown(cloud, server_id) == ("/dev/sda", ["/dev/sda"])
    assert places(await guest_of(cloud, server_id)) == [("/dev/sda", "scsi")]


async def test_a_server_is_made_of_a_snapshot_whose_volume_was_given_away(
    cloud: ComputeCloud,
) -> None:
    made = await cloud.volume_api("POST", "/volumes", {"volume": {"size": 1, "imageRef": IMAGE}})
    volume_id = made["volume"]["id"]
    await cloud.settle()
    body: dict[str, Any] = {"snapshot": {"volume_id": volume_id}}
    snapshot_id = (await cloud.volume_api("POST", "/snapshots", body))["snapshot"]["id"]
    await cloud.settle()
    body = {"transfer": {"volume_id": volume_id, "no_snapshots": True}}
    gift = (await cloud.volume_api("POST", "/volume-transfers", body))["transfer"]
    body = {"accept": {"auth_key": gift["auth_key"]}}
    path = f"/volume-transfers/{gift['id']}/accept"
    await cloud.volume_api("POST", path, body, user="stranger")
    root = {"source_type": "snapshot", "destination_type": "volume", "uuid": snapshot_id}
    disks = [{**root, "boot_index": 0}]
    server_id = await cloud.make_server(imageRef="", block_device_mapping_v2=disks)
    assert places(await guest_of(cloud, server_id)) == [("/dev/vda", "virtio")]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"hw_disk_bus": "xen"}, "disks are on one of virtio, scsi, sata, ide, usb"),
        ({"hw_disk_bus": "fdc"}, "disks are on one of"),
        ({"hw_disk_bus": "scsi", "hw_scsi_model": "lsilogic"}, "is virtio-scsi"),
        ({"hw_cdrom_bus": "virtio"}, "on one of scsi, sata, ide, usb"),
    ],
)
async def test_what_there_is_not_is_refused_before_anything_happens(
    cloud: ComputeCloud, said: dict[str, str], why: str
) -> None:
    put_image(cloud, **said)
    answer = await post(cloud)
    assert (answer.status, why in answer.text) == (400, True), answer.text
    server_id = await cloud.make_server()
    before = await cloud.server(server_id)
    body = {"rebuild": {"imageRef": ON}}
    answer = await cloud.ask("POST", f"/servers/{server_id}/action", body)
    assert (answer.status, why in answer.text) == (400, True), answer.text
    assert await cloud.server(server_id) == before
    assert len((await cloud.ask("GET", "/servers")).body["servers"]) == 1


async def test_an_unknown_bus_of_a_mapping_is_refused_with_the_list(cloud: ComputeCloud) -> None:
    put_image(cloud)
    for word in ("xen", "uml", "nonsense"):
        answer = await post(cloud, block_device_mapping_v2=[{**BLANK, "disk_bus": word}])
        assert answer.status == 400
        assert "disks are on one of virtio, scsi, sata, ide, usb" in answer.text


async def test_a_bus_has_so_many_places(cloud: ComputeCloud) -> None:
    image = put_image(cloud, hw_disk_bus="sata", hw_cdrom_bus="sata")
    answer = await post(cloud, config_drive=True, block_device_mapping_v2=[BLANK] * 5)
    assert (answer.status, "(6) on sata" in answer.text) == (403, True), answer.text
    disks = [BLANK] * 5
    server_id = await cloud.make_server(imageRef=image, block_device_mapping_v2=disks)
    assert len(places(await guest_of(cloud, server_id))) == 5
    await cloud.act(server_id, "os-stop")
    await cloud.settle()
    answer = await cloud.attach(server_id, await cloud.make_volume())
    assert (answer.status, "(6) on sata" in answer.text) == (403, True), answer.text
    put_image(cloud, hw_rescue_bus="sata")
    body = {"rescue": {"rescue_image_ref": ON}}
    answer = await cloud.ask("POST", f"/servers/{server_id}/action", body)
    assert (answer.status, "(6) on sata" in answer.text) == (403, True), answer.text


async def test_a_disk_on_sata_comes_and_goes_while_the_server_is_off(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server(imageRef=put_image(cloud, hw_disk_bus="sata"))
    volume_id = await cloud.make_volume()
    answer = await cloud.attach(server_id, volume_id)
    assert (answer.status, "stop the server first" in answer.text) == (409, True)
    assert await cloud.volume_status(volume_id) == "available"
    await cloud.act(server_id, "os-stop")
    await cloud.settle()
    assert (await cloud.attach(server_id, volume_id)).status == 200
    await cloud.settle()
    await cloud.act(server_id, "os-start")
    await cloud.settle()
    assert places(await guest_of(cloud, server_id)) == [("/dev/sdb", "sata")]
    answer = await cloud.detach(server_id, volume_id)
    assert (answer.status, "stop the server first" in answer.text) == (409, True)
    assert await cloud.volume_status(volume_id) == "in-use"
    await cloud.act(server_id, "os-stop")
    await cloud.settle()
    assert (await cloud.detach(server_id, volume_id)).status == 202
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "available"


async def test_a_rebuild_follows_the_new_image_and_leaves_volumes_where_they_are(
    cloud: ComputeCloud,
) -> None:
    server_id, _ = await cloud.make_attached()
    image = put_image(cloud, hw_disk_bus="scsi")
    assert await cloud.act(server_id, "rebuild", {"imageRef": image}) == 202
    await cloud.settle()
    assert await shown(cloud, server_id) == ("/dev/sda", ["/dev/vdb"])
    guest = await guest_of(cloud, server_id)
    assert (guest.root_device, places(guest)) == ("/dev/sda", [("/dev/vdb", "virtio")])
    assert (await cloud.attach(server_id, await cloud.make_volume())).status == 200
    await cloud.settle()
    both = [("/dev/vdb", "virtio"), ("/dev/sdb", "scsi")]
    assert places(await guest_of(cloud, server_id)) == both
    assert await cloud.act(server_id, "rebuild", {"imageRef": NEW}) == 202
    await cloud.settle()
    guest = await guest_of(cloud, server_id)
    assert (guest.root_device, places(guest)) == ("/dev/vda", both)


async def test_a_rebuild_that_is_undone_gives_the_former_name_back(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    before = await guest_of(cloud, server_id)
    damaged = {"os_hash_algo": "sha512", "os_hash_value": "0" * 128}
    image = put_image(cloud, hw_disk_bus="scsi", **damaged)
    assert await cloud.act(server_id, "rebuild", {"imageRef": image}) == 202
    await cloud.settle()
    assert (await cloud.actions(server_id))[-1] == ("rebuild", "Error")
    assert await shown(cloud, server_id) == ("/dev/vda", [])
    assert await guest_of(cloud, server_id) == before
    assert (await cloud.attach(server_id, await cloud.make_volume())).status == 200
    await cloud.settle()
    assert places(await guest_of(cloud, server_id)) == [("/dev/vdb", "virtio")]


async def test_a_rebuild_that_failed_is_done_again_with_another_bus(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    before = await guest_of(cloud, server_id)
    image = put_image(cloud, hw_disk_bus="scsi")
    cloud.hypervisor().knobs.fail("make_root", NoCapacity("There is no room."))
    assert await cloud.act(server_id, "rebuild", {"imageRef": image}) == 202
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ERROR"
    # The image stays: the next rebuild, with any, makes the disk that is missing.
    assert await shown(cloud, server_id) == ("/dev/sda", [])
    assert await cloud.act(server_id, "rebuild", {"imageRef": IMAGE}) == 202
    await cloud.settle()
    assert await guest_of(cloud, server_id) == before


async def test_a_root_disk_does_not_take_the_name_of_a_volume(cloud: ComputeCloud) -> None:
    disks = [{**BLANK, "disk_bus": "scsi"}]
    server_id = await cloud.make_server(block_device_mapping_v2=disks)
    assert await shown(cloud, server_id) == ("/dev/vda", ["/dev/sda"])
    before = await cloud.server(server_id)
    body = {"rebuild": {"imageRef": put_image(cloud, hw_disk_bus="scsi")}}
    answer = await cloud.ask("POST", f"/servers/{server_id}/action", body)
    assert (answer.status, "a root disk called /dev/sda" in answer.text) == (409, True)
    assert await cloud.server(server_id) == before


@pytest.mark.parametrize(
    ("hidden", "lacks"),
    [
        (BUSES | {HEEDS}, "COMPUTE_STORAGE_BUS_SCSI"),
        # The release before rescues by them, and hears of no bus beside.
        (frozenset({HEEDS}), HEEDS),
    ],
)
async def test_an_older_agent_gets_no_server_whose_disks_are_on_another_bus(
    cloud: ComputeCloud, hidden: frozenset[str], lacks: str
) -> None:
    server_id = await cloud.make_server(imageRef=IMAGE)
    await cloud.change_host("host1", hidden_traits=hidden)
    image = put_image(cloud, hw_disk_bus="scsi")
    body = {"rebuild": {"imageRef": image}}
    answer = await cloud.ask("POST", f"/servers/{server_id}/action", body)
    assert (answer.status, f"lacks the trait {lacks}" in answer.text) == (409, True)
    for more in (
        {"imageRef": image},
        {"imageRef": IMAGE, "block_device_mapping_v2": [{**BLANK, "disk_bus": "usb"}]},
    ):
        other = await cloud.make_server(**more)
        assert (await cloud.server(other))["status"] == "ERROR"
    assert (await cloud.server(await cloud.make_server()))["status"] == "ACTIVE"


async def test_a_config_drive_says_the_bus_of_disks_with_a_tag(cloud: ComputeCloud) -> None:
    image = put_image(cloud, hw_disk_bus="scsi", hw_cdrom_bus="usb")
    disks = [{**root_on("virtio"), "tag": "system"}, {**BLANK, "tag": "data"}]
    server_id = await cloud.make_server(
        imageRef=image, config_drive=True, block_device_mapping_v2=disks
    )
    said = await cloud.known_agents["host1"].read_console(server_id)
    told = said[said.index("mooring-guest: drive {") :]
    assert '"bus":"scsi"' in told.replace(" ", "")
    assert '"bus":"none"' in told.replace(" ", "")
    assert (await guest_of(cloud, server_id)).has_drive
