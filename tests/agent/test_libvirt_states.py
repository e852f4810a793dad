"""What libvirt says of guests, by its own driver for tests, which needs neither daemon nor root."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import NotFound

libvirt: Any = pytest.importorskip("libvirt")


HOST = """<node><domain type="test">
<name>x</name><memory>8192</memory><vcpu>1</vcpu><os><type>hvm</type></os>
</domain></node>"""


@pytest.fixture
def connection(tmp_path: Path) -> Generator[Any]:
    """A host of libvirt's test driver, which has one domain and is this test's alone."""
    described = tmp_path / "host.xml"
    described.write_text(HOST, "ascii")
    opened = libvirt.open(f"test://{described}")
    yield opened
    opened.close()


def test_a_guest_that_goes_after_it_was_found_is_no_guest(connection: Any) -> None:
    from mooring.agent.libvirt import states

    [domain] = connection.listAllDomains(0)
    domain.destroy()
    domain.undefine()
    assert states.show_if_there(domain) is None


def test_what_else_libvirt_has_against_an_answer_is_said(connection: Any) -> None:
    from mooring.agent.libvirt import states

    class Refusing:
        """A domain of which libvirt says nothing, for another reason."""

        def XMLDesc(self, _: int) -> str:  # noqa: N802  (libvirt calls it so)
            return connection.networkLookupByName("none").XMLDesc(0)

    with pytest.raises(libvirt.libvirtError, match="Network not found"):
        states.show_if_there(Refusing())


def test_a_volume_that_a_guest_has_let_go_of_meanwhile_is_not_found(connection: Any) -> None:
    from mooring.agent.libvirt import domain_xml, states

    [domain] = connection.listAllDomains(0)
    ours = libvirt.VIR_DOMAIN_METADATA_ELEMENT, "<guest name='x'/>", "mooring"
    both = libvirt.VIR_DOMAIN_AFFECT_LIVE | libvirt.VIR_DOMAIN_AFFECT_CONFIG
    domain.setMetadata(*ours, domain_xml.NAMESPACE, both)
    with pytest.raises(NotFound, match="has no volume v1"):
        states.show_disk(domain, "v1")


def test_a_disk_that_a_guest_has_let_go_of_is_swapped_for_none(connection: Any) -> None:
    from mooring.agent.libvirt import swapped

    [domain] = connection.listAllDomains(0)
    assert swapped.find_pending(domain.XMLDesc(0), "vdb") is None
    swap = swapped.Swap(alias="", volume_id="v2", attachment_id="a2", file="/v2")
    with pytest.raises(NotFound, match="let go of its disk vdb"):
        swapped.begin(domain, "vdb", swap)
    swapped.forget(domain, "vdb")
    assert swapped.find_pending(domain.XMLDesc(0), "vdb") is None
