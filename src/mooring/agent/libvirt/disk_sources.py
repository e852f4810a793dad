"""The part of a disk's XML that says where its bytes are: a file, or an image on the network.

Source: facts/distributed_storage.md 1.3.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from mooring.agent.sources import Address, FileSource, NetworkSource, Source


def build(source: Source, *, direct: bool) -> ET.Element:
    """Return a disk that says where its bytes are; `direct`: past the host's page cache."""
    if isinstance(source, NetworkSource):
        disk = ET.Element("disk", type="network", device="disk")
        # Another host may have it next: nothing of it may stay in a cache of this one.
        ET.SubElement(disk, "driver", name="qemu", type="raw", discard="unmap", cache="none")
        disk.append(_network(source))
        return disk
    # A path below /dev is a block device; every other one is a file.
    kind, name = ("block", "dev") if source.path.startswith("/dev/") else ("file", "file")
    disk = ET.Element("disk", type=kind, device="disk")
    driver = ET.SubElement(disk, "driver", name="qemu", type=source.format, discard="unmap")
    if direct:
        driver.set("cache", "none")
        driver.set("io", "native")
    ET.SubElement(disk, "source", {name: source.path})
    return disk


def read(disk: ET.Element) -> Source:
    """Return where the bytes of a disk are; a file without a name when it says nothing."""
    source, driver = disk.find("source"), disk.find("driver")
    if source is not None and disk.get("type") == "network":
        return _read_network(source)
    path = "" if source is None else source.get("file") or source.get("dev") or ""
    return FileSource(path, "" if driver is None else driver.get("type", ""))


def _network(source: NetworkSource) -> ET.Element:
    element = ET.Element("source", protocol=source.protocol, name=source.name)
    for host in source.hosts:
        where = ET.SubElement(element, "host", name=host.name)
        if host.port:
            where.set("port", str(host.port))
    if source.config:
        ET.SubElement(element, "config", file=source.config)
    if source.user:
        auth = ET.SubElement(element, "auth", username=source.user)
        ET.SubElement(auth, "secret", type="ceph", uuid=source.secret_id)
    return element


def _read_network(source: ET.Element) -> NetworkSource:
    config, auth = source.find("config"), source.find("auth")
    secret = source.find("auth/secret")
    return NetworkSource(
        protocol="nbd" if source.get("protocol") == "nbd" else "rbd",
        name=source.get("name", ""),
        hosts=tuple(
            Address(host.get("name", ""), int(host.get("port", "0")))
            for host in source.findall("host")
        ),
        user="" if auth is None else auth.get("username", ""),
        secret_id="" if secret is None else secret.get("uuid", ""),
        config="" if config is None else config.get("file", ""),
    )
