"""Domain XML: golden files of what is written, and what is written is read again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mooring.agent.device_names import assign_devices, choose_device
from mooring.agent.hypervisor import DiskPlan, GuestPlan, RootPlan
from mooring.agent.rescues import RescuePlan
from mooring.agent.sources import Address, FileSource, NetworkSource
from mooring.agent_api.disks import Connected, DiskBus
from mooring.agent_api.moves import Arrival
from mooring.agent_api.servers import RescueDevice
from mooring.errors import NoCapacity

pytest.importorskip("libvirt", reason="libvirt's Python binding is not installed")

from mooring.agent.libvirt import drive_devices
from mooring.agent.libvirt.domain_xml import (
    Machine,
    arrive,
    build_disk,
    build_domain,
    move_disk,
    read_domain,
)
from mooring.agent.libvirt.open_files import (
    build_overlay,
    has_guest_agent,
    is_mirrored,
    read_files,
)
from mooring.agent.libvirt.start_disks import replace_start, replace_volumes
from mooring.agent.libvirt.xml_words import parse

SERVER = "6a1b5c1e-8f0a-4c57-9d53-0c1b8c2f0001"
TCG = Machine(
    domain_type="qemu",
    console=Path("/state/guests/1/console.log"),
    drive=Path("/state/guests/1/config-drive.iso"),
)
KVM = Machine(domain_type="kvm", console=Path("/state/guests/1/console.log"), direct=False)


def disk(number: int, device: str = "", boot_index: int | None = None) -> DiskPlan:
    return DiskPlan(
        volume_id=f"6a1b5c1e-8f0a-4c57-9d53-0000000000{number:02}",
        attachment_id=f"77777777-8f0a-4c57-9d53-0000000000{number:02}",
        source=FileSource(f"/state/volumes/volume-{number}", "qcow2"),
        device=device,
        boot_index=boot_index,
    )


IMAGE_BACKED = GuestPlan(
    server_id=SERVER,
    name="web <1> & more",
    vcpus=2,
    memory_mib=512,
    root=RootPlan(
        path=Path("/state/guests/1/root.qcow2"), format="qcow2", image_id="i1", size_bytes=1024**3
    ),
    disks=(
        disk(1),
        replace(
            disk(2),
            read_only=True,
            shareable=True,
            source=FileSource("/state/volumes/volume-2", "raw"),
        ),
    ),
    network="auto",
    metadata={"project_id": "p1", "user_id": "u1"},
)
VOLUME_BACKED = GuestPlan(
    server_id=SERVER,
    name="db",
    vcpus=1,
    memory_mib=128,
    root=None,
    disks=(
        disk(1, boot_index=0),
        replace(disk(2, "/dev/vdc"), source=FileSource("/dev/mapper/two", "qcow2")),
    ),
    network="none",
    metadata={},
)


@pytest.mark.parametrize(
    ("name", "plan", "machine"),
    [
        ("image_backed_tcg", IMAGE_BACKED, TCG),
        ("image_backed_kvm", IMAGE_BACKED, KVM),
        ("volume_backed_tcg", VOLUME_BACKED, TCG),
        ("config_drive_tcg", replace(IMAGE_BACKED, has_drive=True), TCG),
    ],
)
def test_a_guest_is_written_as_before(
    golden: Callable[[str, str], None], name: str, plan: GuestPlan, machine: Machine
) -> None:
    golden(f"tests/golden/domain_xml/{name}.xml", build_domain(plan, machine))


def test_a_disk_is_written_as_before(golden: Callable[[str, str], None]) -> None:
    golden("tests/golden/domain_xml/disk.xml", build_disk(disk(1), "/dev/vdb", direct=True))


RBD = NetworkSource(
    protocol="rbd",
    name="volumes/volume-1",
    hosts=(Address("192.0.2.1", 3300), Address("2001:db8::2")),
    user="cinder",
    secret_id="6a1b5c1e-8f0a-4c57-9d53-0c1b8c2f0009",
    config="/etc/ceph/ceph.conf",
)
NBD = NetworkSource(protocol="nbd", name="volume-1", hosts=(Address("127.0.0.1", 10809),))


@pytest.mark.parametrize(("name", "source"), [("disk_rbd", RBD), ("disk_nbd", NBD)])
def test_an_image_on_the_network_is_written_as_before_and_read_again(
    golden: Callable[[str, str], None], name: str, source: NetworkSource
) -> None:
    plan = replace(disk(1), source=source)
    golden(f"tests/golden/domain_xml/{name}.xml", build_disk(plan, "/dev/vdb", direct=True))
    whole = replace(IMAGE_BACKED, disks=(plan, disk(2)))
    found = read_domain(build_domain(whole, TCG))
    assert found is not None
    assert [one.source for one in found.volumes] == [source, disk(2).source]
    # A disk without direct access to its file is no reason to cache what others may have next.
    assert 'cache="none"' in build_disk(plan, "/dev/vdb", direct=False)


names = st.text(min_size=1, max_size=40)
plans = st.builds(
    GuestPlan,
    server_id=st.uuids().map(str),
    name=names,
    vcpus=st.integers(1, 64),
    memory_mib=st.integers(1, 1 << 20),
    root=st.sampled_from([None, IMAGE_BACKED.root]),
    disks=st.lists(st.integers(1, 99), max_size=20, unique=True).map(
        lambda numbers: tuple(disk(number) for number in numbers)
    ),
    network=st.sampled_from(["auto", "none"]),
    metadata=st.dictionaries(names, st.text(max_size=40), max_size=4),
)


@given(plan=plans)
def test_what_is_written_is_read_again(plan: GuestPlan) -> None:
    found = read_domain(build_domain(plan, TCG))
    assert found is not None
    assert (found.server_id, found.vcpus, found.memory_mib) == (
        plan.server_id,
        plan.vcpus,
        plan.memory_mib,
    )
    assert found.name == "".join(letter for letter in plan.name if letter.isprintable())
    assert [one.volume_id for one in found.volumes] == [one.volume_id for one in plan.disks]
    assert [one.attachment_id for one in found.volumes] == [one.attachment_id for one in plan.disks]
    assert len({one.device for one in found.disks}) == len(found.disks)


def test_exactly_the_given_volumes_stay_beside_the_root_disk() -> None:
    xml = build_domain(IMAGE_BACKED, TCG)
    found = read_domain(replace_volumes(xml, (disk(3), disk(1, "/dev/vdb")), direct=True))
    assert found is not None
    assert [(one.volume_id[-2:], one.device) for one in found.disks] == [
        ("", "/dev/vda"),
        ("03", "/dev/vdc"),
        ("01", "/dev/vdb"),
    ]
    assert found.image_id == "i1"
    assert found.root_device == "/dev/vda"


def rescue(
    *, is_stable: bool, device: RescueDevice = "disk", bus: DiskBus = "virtio"
) -> RescuePlan:
    return RescuePlan(
        path=Path("/state/guests/1/rescue.qcow2"),
        format="qcow2",
        image_id="i2",
        device=device,
        bus=bus,
        is_stable=is_stable,
    )


@pytest.mark.golden
@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("rescue", rescue(is_stable=False)),
        ("rescue_stable", rescue(is_stable=True)),
        ("rescue_scsi", rescue(is_stable=True, bus="scsi")),
        ("rescue_usb", rescue(is_stable=True, bus="usb")),
        ("rescue_cdrom", rescue(is_stable=True, device="cdrom", bus="sata")),
    ],
)
def test_a_rescue_is_written_as_before(
    name: str, plan: RescuePlan, golden: Callable[[str, str], None]
) -> None:
    xml = build_domain(IMAGE_BACKED, TCG)
    disks = (disk(3), disk(1, "/dev/vdb"))
    rescued = replace_start(xml, disks, plan, direct=True)
    golden(f"tests/golden/domain_xml/{name}.xml", rescued + "\n")
    found = read_domain(rescued)
    assert found is not None
    assert found.rescue is not None
    assert (found.rescue.image_id, found.root_device) == ("i2", found.rescue.device)
    # What only gives it volumes leaves it in rescue, and their names as they are.
    again = read_domain(replace_volumes(rescued, disks, direct=True))
    assert again == found
    back = read_domain(replace_start(rescued, disks, None, direct=True))
    assert back == read_domain(replace_volumes(xml, disks, direct=True))


def test_disks_that_change_their_names_are_plugged_in_anew() -> None:
    xml = build_domain(IMAGE_BACKED, TCG)
    place = '<address type="pci" bus="0x03"/><alias name="ua-root"'
    placed = xml.replace('<alias name="ua-root"', place)
    stable = replace_start(placed, (), rescue(is_stable=True), direct=True)
    assert 'bus="0x03"' in stable
    assert 'bus="0x03"' in replace_start(stable, (), None, direct=True)
    first = replace_start(placed, (), rescue(is_stable=False), direct=True)
    assert 'bus="0x03"' not in first


def test_a_guest_with_disks_at_all_letters_is_rescued_from_scsi_alone() -> None:
    xml = build_domain(IMAGE_BACKED, TCG)
    disks = tuple(disk(number) for number in range(25))
    with pytest.raises(NoCapacity, match="at all letters"):
        replace_start(xml, disks, rescue(is_stable=True), direct=True)
    found = read_domain(replace_start(xml, disks, rescue(is_stable=True, bus="scsi"), direct=True))
    assert found is not None
    assert found.root_device == "/dev/sdab"
    with pytest.raises(NoCapacity, match="more disks than there are letters"):
        replace_start(xml, disks, rescue(is_stable=False), direct=True)


def test_a_config_drive_is_no_disk_and_stays_beside_those_that_come() -> None:
    plain = build_domain(VOLUME_BACKED, TCG)
    assert drive_devices.read(plain) == ""
    added = drive_devices.add(plain, "/a/drive")
    assert added is not None
    assert drive_devices.add(added, "/b/drive") is None
    xml = replace_volumes(added, (disk(3, boot_index=0), disk(1)), direct=True)
    found = read_domain(xml)
    assert found is not None
    assert found.has_drive
    assert [one.device for one in found.disks] == ["/dev/vda", "/dev/vdb"]
    gone = arrive(xml, Arrival(address="192.0.2.1", console="/c", drive="/there/drive"))
    assert drive_devices.read(gone) == "/there/drive"


def test_the_layers_below_a_disk_that_lies_elsewhere_are_those_of_its_file_there() -> None:
    volume, xml = disk(1), build_domain(VOLUME_BACKED, TCG)
    chain = "<backingStore type='file'><source file='/here/base'/></backingStore>"
    layered = xml.replace('<target dev="vda"', f'{chain}<target dev="vda"')
    assert "/here/base" in layered
    there = Connected(
        attachment_id="a2", volume_id=volume.volume_id, path="/there/volume", format="qcow2"
    )
    gone = arrive(layered, Arrival(address="192.0.2.1", console="/c", disks=[there]))
    assert ('"/there/volume"' in gone, "/here/base" in gone) == (True, False)


def test_a_domain_of_somebody_else_is_none_of_ours() -> None:
    assert read_domain("<domain><name>other</name></domain>") is None


def test_device_names_are_given_in_order_and_wishes_are_met() -> None:
    assert choose_device("", {"/dev/vda"}) == "/dev/vdb"
    assert choose_device("/dev/vdq", {"/dev/vda"}) == "/dev/vdq"
    assert choose_device("/dev/vda", {"/dev/vda"}) == "/dev/vdb"
    assert choose_device("/dev/sda", set()) == "/dev/vda"
    full = {f"/dev/vd{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"}
    assert choose_device("", full) is None
    disks = (disk(1), disk(2, "/dev/vdb"), disk(3, boot_index=0))
    assert assign_devices(disks, own=None) == ["/dev/vdc", "/dev/vdb", "/dev/vda"]
    assert assign_devices(disks, own="virtio") == ["/dev/vdc", "/dev/vdb", "/dev/vdd"]


SCSI = replace(
    VOLUME_BACKED,
    disks=(
        replace(disk(1, boot_index=0), bus="scsi"),
        replace(disk(2), bus="sata"),
        replace(disk(3), bus="usb"),
        disk(4),
        replace(disk(5), bus="sata"),
    ),
    bus="scsi",
    has_drive=True,
    drive_bus="sata",
)
"""One with a disk on each bus."""


def addresses(xml: str) -> dict[str, tuple[str, str]]:
    """Return the target and the unit of each disk that has them, by its name."""
    found: dict[str, tuple[str, str]] = {}
    for one in parse(xml).findall("devices/disk"):
        target, address = one.find("target"), one.find("address")
        if target is not None and address is not None:
            place = address.get("target", ""), address.get("unit", "")
            found[target.get("dev", "")] = place
    return found


def controllers(xml: str) -> dict[str, str | None]:
    found = parse(xml).findall("devices/controller")
    return {one.get("type", ""): one.get("model") for one in found if one.get("type") != "pci"}


def test_disks_of_several_buses_are_written_as_before(golden: Callable[[str, str], None]) -> None:
    golden("tests/golden/domain_xml/several_buses.xml", build_domain(SCSI, TCG))


def test_each_disk_on_scsi_and_sata_has_its_place_on_the_one_controller() -> None:
    xml = build_domain(SCSI, TCG)
    expected = {"sda": ("0", "0"), "sdb": ("0", "0"), "sdd": ("0", "1"), "sdaa": ("0", "2")}
    assert addresses(xml) == expected
    assert controllers(xml) == {"usb": "qemu-xhci", "scsi": "virtio-scsi"}
    # What a guest is ready for stays, also while nothing is there; what it needs no more goes.
    on_virtio = (replace(disk(1), boot_index=0),)
    started = replace_start(xml, on_virtio, None, direct=True)
    assert controllers(started) == {"usb": "none", "scsi": "virtio-scsi"}
    assert addresses(started) == {"sdaa": ("0", "2")}


def test_a_config_drive_of_before_makes_room_for_a_first_disk_on_scsi() -> None:
    told = replace(IMAGE_BACKED, has_drive=True)
    xml = build_domain(told, TCG).replace('"sdaa"', '"sda"').replace('target="26"', 'target="0"')
    assert addresses(xml) == {"sda": ("0", "0")}
    wanted = RescuePlan(
        path=Path("/r"), format="raw", image_id="i2", device="disk", bus="scsi", is_stable=False
    )
    rescued = replace_start(xml, (), wanted, direct=True)
    assert addresses(rescued) == {"sda": ("0", "0"), "sdaa": ("26", "0")}


def test_a_switch_to_an_overlay_is_written_as_before(golden: Callable[[str, str], None]) -> None:
    xml = build_domain(IMAGE_BACKED, TCG)
    said = build_overlay(xml, disk(1).volume_id, "/state/volumes/volume-1.s1")
    golden("tests/golden/domain_xml/overlay.xml", said)


def test_a_definition_follows_its_guest_to_another_file() -> None:
    xml = build_domain(IMAGE_BACKED, TCG)
    moved = read_domain(move_disk(xml, disk(2).volume_id, "/state/volumes/x", "qcow2"))
    before = read_domain(xml)
    assert moved is not None
    assert before is not None
    changed = moved.disk(disk(2).volume_id)
    assert changed is not None
    assert changed.source == FileSource("/state/volumes/x", "qcow2")
    expected = [
        replace(one, source=FileSource("/state/volumes/x", "qcow2"))
        if one.volume_id == disk(2).volume_id
        else one
        for one in before.disks
    ]
    assert moved.disks == expected


LIVE = """\
<domain type='kvm'><devices><disk type='file' device='disk'>
<driver name='qemu' type='qcow2'/><source file='/v/b.s1' index='3'/>
<backingStore type='file' index='1'><format type='raw'/><source file='/v/b'/><backingStore/>
</backingStore>
<mirror type='file' job='active-commit' ready='{ready}'><format type='raw'/></mirror>
<target dev='vdb' bus='virtio'/><serial>v1</serial><alias name='ua-a1'/></disk>
<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0' state='{agent}'/></channel>
</devices></domain>"""


def test_what_qemu_has_open_is_read_with_the_names_that_libvirt_gives_it() -> None:
    xml = LIVE.format(ready="yes", agent="connected")
    found = [(file.path, file.format, file.index) for file in read_files(xml, "v1")]
    assert found == [("/v/b.s1", "qcow2", 3), ("/v/b", "raw", 1)]
    assert read_files(xml, "v2") == []
    assert is_mirrored(xml, "v1")
    assert not is_mirrored(xml, "v2")
    assert has_guest_agent(xml)
    other = LIVE.format(ready="abort", agent="disconnected")
    assert not is_mirrored(other, "v1")
    assert not has_guest_agent(other)
