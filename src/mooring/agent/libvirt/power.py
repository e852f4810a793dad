"""A domain switched on and off. Blocking: each function is work for a thread."""

from __future__ import annotations

from typing import Any

import libvirt

from mooring.agent.libvirt import states
from mooring.errors import Conflict

_UNDEFINE = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
)


def start(domain: Any) -> None:
    """Make a guest run, in whatever state it is. Raises Conflict for one that another host has."""
    state, _ = domain.state()
    if states.state_of(domain) in {"migrated", "prelaunched"}:
        raise Conflict(
            f"The guest of server {domain.UUIDString()} is on another host, or on its way to this "
            "one; it was not started here."
        )
    if state == libvirt.VIR_DOMAIN_PAUSED:
        domain.resume()
    elif state == libvirt.VIR_DOMAIN_PMSUSPENDED:
        domain.pMWakeup(0)
    elif not domain.isActive():
        # Memory that was saved belongs to the disks as they were then.
        domain.createWithFlags(libvirt.VIR_DOMAIN_START_FORCE_BOOT)
    elif state in {libvirt.VIR_DOMAIN_CRASHED, libvirt.VIR_DOMAIN_SHUTDOWN}:
        domain.destroy()
        domain.createWithFlags(libvirt.VIR_DOMAIN_START_FORCE_BOOT)


def switch_off(domain: Any) -> None:
    """End a guest's emulator, also one that hangs: it has about 10 s, and then is killed."""
    try:
        if _runs(domain):
            domain.destroy()
    except libvirt.libvirtError:
        # It may have ended by itself between the two calls.
        if _runs(domain):
            raise


def press_power_button(domain: Any) -> None:
    """Ask a guest to shut down."""
    try:
        if domain.isActive():
            domain.shutdownFlags(libvirt.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN)
    except libvirt.libvirtError:
        if domain.isActive():
            raise


def is_off(domain: Any) -> bool:
    """Return whether nothing runs."""
    return not domain.isActive()


def undefine(domain: Any) -> None:
    """Forget a domain, with all that libvirt keeps of it; nothing for one that went with its end.

    Only a guest that was not there yet does that.
    """
    try:
        domain.undefineFlags(_UNDEFINE)
    except libvirt.libvirtError as error:
        if not _is_gone(error):
            raise


def _runs(domain: Any) -> bool:
    """Return whether a domain has an emulator; not so one that went with it."""
    try:
        return bool(domain.isActive())
    except libvirt.libvirtError as error:
        if _is_gone(error):
            return False
        raise


def _is_gone(error: libvirt.libvirtError) -> bool:
    return bool(error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN)
