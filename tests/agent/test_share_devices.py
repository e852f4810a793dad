"""Shares in a domain's XML: golden files, what is read again, and the memory they need."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mooring.agent.device_names import PORTS
from mooring.agent.hypervisor import GuestPlan
from mooring.agent.page_sizes import read_page_size
from mooring.agent_api.guest_shares import GuestShare
from mooring.errors import Invalid

pytest.importorskip("libvirt", reason="libvirt's Python binding is not installed")

from mooring.agent.libvirt import share_devices
from mooring.agent.libvirt.domain_xml import Machine, build_domain, read_domain

MACHINE = Machine(domain_type="qemu", console=Path("/state/guests/1/console.log"))
SHARES = tuple(
    GuestShare(
        share_id=f"6a1b5c1e-8f0a-4c57-9d53-00000000000{number}",
        tag=tag,
        path=f"/state/guest-shares/nfs/{number}",
    )
    for number, tag in enumerate(("papers", "plans"), 1)
)
PLAN = GuestPlan(
    server_id="6a1b5c1e-8f0a-4c57-9d53-0c1b8c2f0001",
    name="guest",
    vcpus=1,
    memory_mib=128,
    root=None,
    disks=(),
    network="none",
    metadata={},
)


@pytest.fixture(autouse=True)
def _virtiofsd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_devices, "find_virtiofsd", lambda: "/usr/libexec/virtiofsd")


@pytest.mark.parametrize(("name", "pages"), [("shares", ""), ("shares_huge_pages", "2048")])
def test_shares_are_written_as_before(
    golden: Callable[[str, str], None], name: str, pages: str
) -> None:
    plan = replace(PLAN, shares=SHARES, mem_page_size=pages)
    golden(f"tests/golden/domain_xml/{name}.xml", build_domain(plan, MACHINE))


@given(st.lists(st.sets(st.sampled_from(range(len(SHARES)))), max_size=5), st.booleans())
def test_a_definition_has_the_shares_that_it_was_given_last(
    given_ones: list[set[int]], huge: bool
) -> None:
    xml = build_domain(replace(PLAN, mem_page_size="large" if huge else ""), MACHINE)
    bare = read_domain(xml)
    for numbers in given_ones:
        shares = [SHARES[number] for number in sorted(numbers)]
        xml = share_devices.replace(xml, shares)
        found = read_domain(xml)
        assert found is not None
        assert found.shares == shares
        assert replace(found, shares=[]) == bare
        assert ("memfd" in xml, "hugepages" in xml) == (bool(shares), bool(shares) and huge)
        assert xml.count("<filesystem") == len(shares)
        ports = re.findall(r'index="(\d+)" model="pcie-root-port"', xml)
        assert PORTS + len(shares) <= len(ports) <= PORTS + len(SHARES)
        assert [int(number) for number in ports] == list(range(1, len(ports) + 1))


@pytest.mark.parametrize(
    ("text", "size_kib"),
    [
        ("", -1),
        ("small", -1),
        ("any", -1),
        ("4", -1),
        ("4KB", -1),
        ("large", 0),
        ("2048", 2048),
        ("2MB", 2048),
        ("2MiB", 2048),
        ("1GB", 1 << 20),
        ("1 GiB", 1 << 20),
    ],
)
def test_the_flavor_says_how_large_the_pages_are(text: str, size_kib: int) -> None:
    assert read_page_size(text) == size_kib


@pytest.mark.parametrize("text", ["huge", "-1", "0", "2048 4096", "1e9", "2XB", "LARGE\n"])
def test_what_names_no_size_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="names no size of pages"):
        read_page_size(text)
