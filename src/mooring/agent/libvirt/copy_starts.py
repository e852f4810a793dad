"""Copies that QEMU begins under a running guest, which stands still until they are under way.

QEMU makes the other file empty, then looks which parts of the disk are to be copied, and what the
guest writes meanwhile may be missing from the copy for good. QEMU 7.2, told to write to both files
at once, takes the end of its emptying for the end of the guest's writes, and copies what the disk
had before them over what they wrote to the copy; from 8.2 to 10.1 it notes none of them until it
has looked. A guest that stands still writes nothing, and QEMU has ended what it had begun.

That a guest stands still for this is noted in its own XML before it does, with the disk: whoever
comes after an agent that died meanwhile ends a copy that has not begun, and lets the guest go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from mooring.agent.libvirt import domain_xml, inactive, open_files, states, swapped
from mooring.agent.libvirt.xml_words import parse
from mooring.agent.limits import AGENT_COPY_BEGIN_S
from mooring.errors import Conflict
from mooring.probe import Passing

_STANDING = "urn:mooring:standing:1"
_KEY = "standing"
_LIVE = int(libvirt.VIR_DOMAIN_AFFECT_LIVE)
_ASYNC = libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_ASYNC
_POLL_S = 0.002
_PAUSED_BY_US = [int(libvirt.VIR_DOMAIN_PAUSED), int(libvirt.VIR_DOMAIN_PAUSED_USER)]

ET.register_namespace(_KEY, _STANDING)


def begin(domain: Any, device: str, start: Callable[[], None], passing: Passing) -> None:
    """Start the copy of a disk ("vdb"), and return once QEMU notes all that the guest writes.

    A guest that runs stands still for that long, and passes `standing` and `started`. Raises
    Conflict when it takes too long: the copy is ended then. Blocking.
    """
    settle(domain)
    inactive.hold(domain)
    try:
        if states.state_of(domain) == "running":
            _note(domain, f'<standing disk="{device}"/>')
            domain.suspend()
        passing("standing")
        start()
        passing("started")
        _await_begun(domain, device)
    finally:
        _let_go_on(domain)


def settle(domain: Any) -> None:
    """Let a guest go on that stands still for the start of a copy, whose agent has died.

    A copy that has not begun by now is ended: it might miss what the guest writes from here on.
    """
    device = _noted(domain)
    if device is None:
        return
    try:
        if domain.blockJobInfo(device, 0) and not _is_begun(domain, device):
            domain.blockJobAbort(device, _ASYNC)
            swapped.forget(domain, device)
    finally:
        _let_go_on(domain)


def find_standing(handle: Any) -> list[str]:
    """Return the servers whose guests stand still for the start of a copy."""
    paused = handle.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_PAUSED)
    ours = [domain for domain in paused if domain.name().startswith(domain_xml.NAME_PREFIX)]
    return [domain.UUIDString() for domain in ours if _noted(domain) is not None]


def _let_go_on(domain: Any) -> None:
    if _noted(domain) is None:
        return
    if domain.state() == _PAUSED_BY_US:
        domain.resume()
    _note(domain, None)


def _await_begun(domain: Any, device: str) -> None:
    end = time.monotonic() + AGENT_COPY_BEGIN_S
    while not _is_begun(domain, device):
        if time.monotonic() > end:
            # Its end may be waited for as long as the storage that it is to write to is.
            domain.blockJobAbort(device, _ASYNC)
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
    return not job or job["end"] > 1 or open_files.is_in_step(domain.XMLDesc(0), device)


def _noted(domain: Any) -> str | None:
    """Return the disk whose copy a guest stands still for; None when it does not."""
    if not domain.isActive():
        return None
    note = parse(domain.XMLDesc(0)).find(f"metadata/{{{_STANDING}}}{_KEY}")
    return None if note is None else note.get("disk", "")


def _note(domain: Any, note: str | None) -> None:
    kind = libvirt.VIR_DOMAIN_METADATA_ELEMENT
    domain.setMetadata(kind, note, _KEY, _STANDING, _LIVE)
