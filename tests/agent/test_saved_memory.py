"""What is saved with a guest's memory names its volumes where they are when the guest goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.agent.guest_power import check_room
from mooring.agent.hypervisor import DiskPlan, GuestPlan, RootPlan
from mooring.agent.sources import Address, FileSource, NetworkSource, Source
from mooring.errors import Conflict, NoCapacity

pytest.importorskip("libvirt", reason="libvirt's Python binding is not installed")

from mooring.agent.libvirt.domain_xml import DefinedDisk, Machine, build_domain, read_domain
from mooring.agent.libvirt.memory import reconnect

SERVER = "6a1b5c1e-8f0a-4c57-9d53-0c1b8c2f0001"
ROOT = RootPlan(path=Path("/state/root"), format="qcow2", image_id="i1", size_bytes=1 << 30)
MACHINE = Machine(domain_type="qemu", console=Path("/state/console.log"))
LAYERS = '<backingStore type="file"><format type="raw"/><source file="/a/below"/></backingStore>'
"""What libvirt says besides of the files below that of a running guest's disk."""


def saved(*sources: Source) -> str:
    """Return the definition of a guest with such volumes, each with a file below."""
    disks = tuple(
        DiskPlan(volume_id=f"volume-{number}", attachment_id=f"a{number}", source=source)
        for number, source in enumerate(sources)
    )
    plan = GuestPlan(
        server_id=SERVER,
        name="guest",
        vcpus=1,
        memory_mib=128,
        root=ROOT,
        disks=disks,
        network="none",
        metadata={},
    )
    return build_domain(plan, MACHINE).replace("<target dev", f"{LAYERS}<target dev")


def sources_of(xml: str) -> list[Source]:
    found = read_domain(xml)
    assert found is not None
    return [disk.source for disk in found.disks]


@pytest.mark.parametrize(
    "now",
    [
        FileSource("/b/volume", "raw"),
        FileSource("/a/volume.snapshot", "qcow2"),
        FileSource("/dev/disk/by-id/volume", "raw"),
        NetworkSource(protocol="nbd", name="volume", hosts=(Address("127.0.0.1", 10809),)),
    ],
)
def test_a_volume_is_named_where_it_is_now(now: Source) -> None:
    first_file = FileSource("/a/first", "raw")
    before = saved(first_file, FileSource("/a/second", "raw"))
    stays = DefinedDisk(device="/dev/vdb", source=first_file, volume_id="volume-0")
    moved = DefinedDisk(device="/dev/vdc", source=now, volume_id="volume-1")
    after = reconnect(before, [stays, moved])
    assert sources_of(after) == [ROOT.source, first_file, now]
    # The layers of the root disk are its own; those of volumes are what their files say.
    assert (before.count("/a/below"), after.count("/a/below")) == (3, 1)
    first, second = read_domain(before), read_domain(after)
    assert first is not None
    assert second is not None
    assert [disk.device for disk in first.disks] == [disk.device for disk in second.disks]


def test_one_that_the_guest_is_not_to_have_any_more_is_refused() -> None:
    before = saved(FileSource("/a/first", "raw"), FileSource("/a/second", "raw"))
    stays = DefinedDisk(
        device="/dev/vdc", source=FileSource("/a/second", "raw"), volume_id="volume-1"
    )
    with pytest.raises(Conflict, match="suspended with volume volume-0, which"):
        reconnect(before, [stays])


def test_memory_has_to_fit_whole() -> None:
    check_room(SERVER, 1 << 27, 1 << 27)
    with pytest.raises(NoCapacity, match=r"takes 128 MiB .* has 127 MiB free"):
        check_room(SERVER, 1 << 27, (1 << 27) - 1)
