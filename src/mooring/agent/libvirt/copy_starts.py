"""Copies that QEMU begins under a running guest, which stands still until they are under way.

QEMU makes the other file empty, then looks which parts of the disk are to be copied, and what the
guest writes meanwhile may be missing from the copy for good. QEMU 7.2, told to write to both files
at once, takes the end of its emptying for the end of the guest's writes, and copies what the disk
had before them over what they wrote to the copy; from 8.2 to 10.1 it notes none of them until it
has looked. A guest that stands still writes nothing, and QEMU has ended what it had begun.

That a guest stands still for this is noted in its own XML before it does: whoever comes after an
agent that died meanwhile lets it go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from mooring.agent.libvirt import domain_xml, states
from mooring.agent.libvirt.xml_words import parse
from mooring.agent.limits import AGENT_COPY_BEGIN_S
from mooring.errors import Conflict

_STANDING = "urn:mooring:standing:1"
_KEY = "standing"
_LIVE = int(libvirt.VIR_DOMAIN_AFFECT_LIVE)
_POLL_S = 0.002
_PAUSED_BY_US = [int(libvirt.VIR_DOMAIN_PAUSED), int(libvirt.VIR_DOMAIN_PAUSED_USER)]

ET.register_namespace(_KEY, _STANDING)


def begin(domain: Any, device: str, start: Callable[[], None]) -> None:
    """Start the copy of a disk ("vdb"), and return once QEMU notes all that the guest writes.

    A guest that runs stands still for that long. Raises Conflict when it takes too long: the copy
    has ended then. Blocking.
    """
    let_go_on(domain)
    if states.state_of(domain) == "running":
        _note(domain, "<standing/>")
        domain.suspend()
    try:
        start()
        _await_begun(domain, device)
    finally:
        let_go_on(domain)


def let_go_on(domain: Any) -> None:
    """Let a guest go on that stands still for the start of a copy, and for nobody else."""
    if not domain.isActive() or not _is_noted(domain):
        return
    if domain.state() == _PAUSED_BY_US:
        domain.resume()
    _note(domain, None)


def let_all_go_on(handle: Any) -> None:
    """Let guests go on whose agent died at the start of a copy; it goes on, too."""
    for domain in handle.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_PAUSED):
        if domain.name().startswith(domain_xml.NAME_PREFIX):
            let_go_on(domain)


def _await_begun(domain: Any, device: str) -> None:
    end = time.monotonic() + AGENT_COPY_BEGIN_S
    while not _is_begun(domain, device):
        if time.monotonic() > end:
            domain.blockJobAbort(device, 0)
            raise Conflict(
                f"QEMU did not begin to copy {device} of {domain.name()} within "
                f"{AGENT_COPY_BEGIN_S:g} s, for which the guest stood still. It goes on with the "
                "disk that it has; ask again when its storage is less busy."
            )
        time.sleep(_POLL_S)


def _is_begun(domain: Any, device: str) -> bool:
    """Return whether QEMU knows how much it has to copy, or has nothing more; or has given up."""
    job = domain.blockJobInfo(device, 0)
    # libvirt says 1 where QEMU does not know yet.
    return not job or job["end"] > 1 or _is_in_step(domain, device)


def _is_in_step(domain: Any, device: str) -> bool:
    return any(
        domain_xml.read_disk(element).device == f"/dev/{device}"
        for element in domain_xml.find_disks(parse(domain.XMLDesc(0)))
        if element.find("mirror[@ready='yes']") is not None
    )


def _is_noted(domain: Any) -> bool:
    return parse(domain.XMLDesc(0)).find(f"metadata/{{{_STANDING}}}{_KEY}") is not None


def _note(domain: Any, note: str | None) -> None:
    kind = libvirt.VIR_DOMAIN_METADATA_ELEMENT
    domain.setMetadata(kind, note, _KEY, _STANDING, _LIVE)
