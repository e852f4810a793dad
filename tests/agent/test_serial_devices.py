"""The serial port of a domain, before and after it could be talked to, and at another host."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from mooring.agent_api.moves import Arrival

pytest.importorskip("libvirt", reason="libvirt's Python binding is not installed")

from mooring.agent.libvirt import serial_devices
from mooring.agent.libvirt.domain_xml import arrive
from mooring.agent.libvirt.xml_words import child, parse

_PORTS = """
<domain><devices>
<serial type="file"><source path="/old.log" append="on"/><target type="isa-serial" port="0"/>
<alias name="serial0"/></serial>
<console type="file"><source path="/old.log" append="on"/><target type="serial" port="0"/></console>
</devices></domain>
"""


def test_a_port_of_before_is_opened_up_and_keeps_its_log_and_its_place() -> None:
    domain = parse(_PORTS)
    assert not serial_devices.is_open(_PORTS)
    serial_devices.open_up(domain)
    serial_devices.open_up(domain)
    opened = ET.tostring(domain, encoding="unicode")
    assert serial_devices.is_open(opened)
    for port in (child(domain, "devices/serial"), child(domain, "devices/console")):
        assert (port.get("type"), child(port, "log").get("file")) == ("pty", "/old.log")
        assert port.find("source") is None
        assert child(port, "target").get("port") == "0"
    assert child(domain, "devices/serial/alias").get("name") == "serial0"


@pytest.mark.parametrize("opens", [True, False])
def test_a_port_arrives_as_the_other_host_has_them(opens: bool) -> None:
    running = _PORTS.replace('"file"', '"pty" tty="/dev/pts/7"')
    for xml in (_PORTS, running):
        arrived = arrive(xml, Arrival(address="192.0.2.1", console="/c", opens_serial=opens))
        assert serial_devices.is_open(arrived) is opens
        assert "/old.log" not in arrived
        assert "/dev/pts/7" not in arrived
        assert arrived.count('append="on"') == 2
