"""A domain switched on and off. Blocking: each function is work for a thread."""

from __future__ import annotations

from typing import Any

import libvirt


def start(domain: Any) -> None:
    """Make a guest run, in whatever state it is."""
    state, _ = domain.state()
    if state == libvirt.VIR_DOMAIN_PAUSED:
        domain.resume()
    elif state == libvirt.VIR_DOMAIN_PMSUSPENDED:
        domain.pMWakeup(0)
    elif not domain.isActive():
        domain.create()
    elif state in {libvirt.VIR_DOMAIN_CRASHED, libvirt.VIR_DOMAIN_SHUTDOWN}:
        domain.destroy()
        domain.create()


def switch_off(domain: Any) -> None:
    """End a guest's emulator, also one that hangs: it has about 10 s, and then is killed."""
    try:
        if domain.isActive():
            domain.destroy()
    except libvirt.libvirtError:
        # It may have ended by itself between the two calls.
        if domain.isActive():
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
