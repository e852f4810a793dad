"""A guest's card: behind a network of its own, out of which nothing can be reached.

QEMU's network for users opens connections from the host itself, so that a guest behind it reaches
what listens on the host's loopback, and link-local addresses as the host does. QEMU keeps both out
with `restrict` alone, of which libvirt knows nothing: the card is plugged into a network of QEMU's
command line, and the one that libvirt makes for it stays without a card. Over IPv6 QEMU's library
asks nobody whether a guest is restricted, so that there is none.
"""

from __future__ import annotations

import hashlib
from xml.etree import ElementTree as ET

from mooring.agent.libvirt.xml_words import child

_QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"
_KNOWS_OVERRIDES = 8_002_000
_ALIAS = "ua-card"
_NETWORK = "restricted"
_CARDS = "devices/interface[@type='user']"

ET.register_namespace("qemu", _QEMU)


def problem_of(libvirt_version: int) -> str:
    """Return why guests of this libvirt cannot be shut in, empty where they can; 8002000 is 8.2.0.

    An older one overlooks what it does not know of a definition: the network would stay open.
    """
    if libvirt_version >= _KNOWS_OVERRIDES:
        return ""
    major, minor = libvirt_version // 1_000_000, libvirt_version // 1000 % 1000
    return (
        f"libvirt {major}.{minor} cannot keep guests from what listens on this host's loopback; "
        "upgrade it to 8.2 or later."
    )


def put(domain: ET.Element, server_id: str) -> None:
    """Give a definition a card."""
    card = ET.SubElement(child(domain, "devices"), "interface", type="user")
    ET.SubElement(card, "mac", address=_mac(server_id))
    ET.SubElement(card, "model", type="virtio")
    restrict(domain)


def restrict(domain: ET.Element) -> None:
    """See that the card of a definition, if it has one, is on a network without a way out."""
    card = domain.find(_CARDS)
    if card is None or domain.find(_named("override")) is not None:
        return
    for alias in card.findall("alias"):
        card.remove(alias)
    ET.SubElement(card, "alias", name=_ALIAS)
    line = ET.SubElement(domain, _named("commandline"))
    for word in ("-netdev", f"user,id={_NETWORK},restrict=on,ipv6=off"):
        ET.SubElement(line, _named("arg"), value=word)
    override = ET.SubElement(domain, _named("override"))
    device = ET.SubElement(override, _named("device"), alias=_ALIAS)
    front = ET.SubElement(device, _named("frontend"))
    ET.SubElement(front, _named("property"), name="netdev", type="string", value=_NETWORK)


def _named(tag: str) -> str:
    return f"{{{_QEMU}}}{tag}"


def _mac(server_id: str) -> str:
    """Return a guest's address: the same at each definition, local, never of a multicast group."""
    digest = hashlib.sha256(server_id.encode()).hexdigest()
    return ":".join(["52", "54", "00", digest[0:2], digest[2:4], digest[4:6]])
