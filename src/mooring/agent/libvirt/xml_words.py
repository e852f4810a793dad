"""Small words for writing and reading XML of libvirt's, and the namespace of what we add to it."""

from __future__ import annotations

from xml.etree import ElementTree as ET

NAMESPACE = "urn:mooring:guest:1"
GUEST = f"metadata/{{{NAMESPACE}}}guest"
"""Where a domain says what of it is ours."""

ET.register_namespace("mooring", NAMESPACE)


def parse(xml: str) -> ET.Element:
    """Return what libvirt has written."""
    # Entities that blow up or reach out are a danger of foreign XML; this libvirt has written.
    return ET.fromstring(xml)  # noqa: S314  (libvirt's own answer)


def printable(text: str) -> str:
    """Return a text without what XML cannot hold."""
    return "".join(character for character in text if character.isprintable())


def add_text(parent: ET.Element, tag: str, text: str, **attributes: str) -> None:
    """Add an element that has a text."""
    ET.SubElement(parent, tag, attributes).text = text


def child(parent: ET.Element, tag: str) -> ET.Element:
    """Return an element that has to be there."""
    if (found := parent.find(tag)) is None:
        raise ValueError(f"the XML of {parent.tag} has no {tag}")
    return found


def read_text(parent: ET.Element, tag: str) -> str:
    """Return the text of an element that has to be there."""
    return (child(parent, tag).text or "").strip()


def per_mib(memory: ET.Element) -> int:
    """Return how many of an amount's units are one MiB."""
    return {"MiB": 1, "KiB": 1024, "b": 1024**2}[memory.get("unit", "KiB")]
