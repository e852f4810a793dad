"""The first serial port of a domain: a pseudo-terminal that may be talked to, and its log file.

QEMU writes what the guest says to the log file by itself, whether somebody listens or not. Until
the release before, the port was that file alone.
Source: libvirt's format of domains (consoles and log), facts/real_hosts.md 2.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from mooring.agent.libvirt.xml_words import parse

_TERMINAL, _FILE = "pty", "file"


def put(devices: ET.Element, log_file: str) -> None:
    """Give a domain without one its serial port."""
    serial = ET.SubElement(devices, "serial")
    _point(serial, log_file, opens=True)
    ET.SubElement(serial, "target", type="isa-serial", port="0")


def open_up(domain: ET.Element) -> None:
    """Let a port that is a file be talked to from the next start on, and keep that as its log."""
    for port in _ports(domain):
        source = port.find("source")
        if port.get("type") == _FILE and source is not None:
            _point(port, source.get("path", ""), opens=True)


def arrive(domain: ET.Element, log_file: str, *, opens: bool) -> None:
    """Give a port the log file of another host, which `opens` ports or knows files alone."""
    for port in _ports(domain):
        if port.get("type") in {_FILE, _TERMINAL}:
            _point(port, log_file, opens=opens)


def is_open(xml: str) -> bool:
    """Whether the domain of this XML has a port that may be talked to."""
    port = parse(xml).find("devices/serial")
    return port is not None and port.get("type") == _TERMINAL


def _ports(domain: ET.Element) -> list[ET.Element]:
    # libvirt shows the first port as a console, too.
    return [*domain.findall("devices/serial"), *domain.findall("devices/console")]


def _point(port: ET.Element, log_file: str, *, opens: bool) -> None:
    """Make a port what it is to be; its place at the guest stays as it is."""
    for tag in ("source", "log"):
        for element in port.findall(tag):
            port.remove(element)
    # The pseudo-terminal of a running guest is this host's.
    port.attrib.pop("tty", None)
    port.set("type", _TERMINAL if opens else _FILE)
    where = {"file" if opens else "path": log_file, "append": "on"}
    port.insert(0, ET.Element("log" if opens else "source", where))
