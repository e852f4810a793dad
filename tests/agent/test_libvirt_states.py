"""What libvirt says of guests, by its own driver for tests, which needs neither daemon nor root."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import Conflict, NotFound

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


SHARED = """<domain type="test" xmlns:m="{namespace}">
<name>mooring-shared</name><memory>8192</memory><vcpu>1</vcpu><os><type>hvm</type></os>
<metadata><m:guest name="x"><m:share id="s1" tag="papers"/></m:guest></metadata>
<devices>
<controller type="pci" index="0" model="pcie-root"/>
<controller type="pci" index="1" model="pcie-root-port"/>
<filesystem type="mount"><source dir="/papers"/><target dir="papers"/></filesystem>
<disk type="file" device="disk"><driver name="qemu" type="qcow2"/><source file="{top}"/>
<target dev="vdb" bus="virtio"/><serial>v1</serial></disk>
</devices>
</domain>"""


class Ending:
    """A guest that ends when libvirt is asked this of it."""

    def __init__(self, domain: Any, when: str) -> None:
        self._domain, self._when = domain, when

    def __getattr__(self, name: str) -> Any:
        return getattr(self._domain, name)

    def XMLDesc(self, flags: int) -> str:  # noqa: N802  (libvirt calls it so)
        """The guest ends just before it is asked how it runs."""
        if self._when == "XMLDesc" and flags == 0 and self._domain.isActive():
            self._domain.destroy()
        return self._domain.XMLDesc(flags)

    def blockJobInfo(self, device: str, flags: int) -> dict[str, int]:  # noqa: N802  (libvirt calls it so)
        """The driver for tests has no jobs. The guest ends behind the answer."""
        if self._when == "blockJobInfo":
            self._domain.destroy()
        return {}


def shared_guest(connection: Any, top: Path) -> Any:
    from mooring.agent.libvirt import domain_xml

    described = SHARED.format(namespace=domain_xml.NAMESPACE, top=top)
    domain = connection.defineXML(described)
    domain.create()
    return domain


def test_a_guest_that_ends_while_it_is_looked_at_has_no_share_in_use(
    connection: Any, tmp_path: Path
) -> None:
    """It is answered with the definition then, where it was asked for what runs."""
    from mooring.agent.libvirt import devices

    domain = shared_guest(connection, tmp_path / "v1")
    with pytest.raises(Conflict, match="s1"):
        devices.without_share(domain, domain.UUIDString(), "s1")
    ending = Ending(domain, "XMLDesc")
    assert devices.read(ending).live is None
    domain.create()
    left = devices.without_share(ending, domain.UUIDString(), "s1")
    assert left is not None
    assert "papers" not in left


def test_a_guest_that_ends_while_its_files_are_read_has_those_of_its_definition(
    connection: Any, tmp_path: Path
) -> None:
    from mooring.agent.libvirt import overlays
    from mooring.agent.simulated_qcow2 import write_empty

    top = tmp_path / "v1"
    write_empty(top, "qcow2", 1 << 20)
    stand = overlays.look(Ending(shared_guest(connection, top), "blockJobInfo"), "v1")
    assert (stand.live, stand.names) == (False, ["v1"])


def test_a_disk_that_a_guest_has_let_go_of_is_swapped_for_none(connection: Any) -> None:
    from mooring.agent.libvirt import swapped

    [domain] = connection.listAllDomains(0)
    assert swapped.find_pending(domain.XMLDesc(0), "vdb") is None
    swap = swapped.Swap(alias="", volume_id="v2", attachment_id="a2", file="/v2")
    with pytest.raises(NotFound, match="let go of its disk vdb"):
        swapped.begin(domain, "vdb", swap)
    swapped.forget(domain, "vdb")
    assert swapped.find_pending(domain.XMLDesc(0), "vdb") is None
