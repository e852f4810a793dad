"""What a host runs its guests with is chosen at its first start; its guests are there ever after.

A host that found something else at a later start, because a program or a daemon is away for a
moment, would answer for guests that it does not see: it would let go of disks that they write to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from mooring.agent import world
from mooring.agent.files import finish
from mooring.agent.libvirt import accelerator
from mooring.errors import Invalid

if TYPE_CHECKING:
    from pathlib import Path

    from mooring.agent.settings import AgentSettings, HypervisorKind

FILE = "hypervisor"
Way = Literal["", "own", "daemon"]
"""Who runs libvirt's guests: libvirt in the agent itself, or a daemon; empty where that is open."""


class Remembered(Struct, frozen=True):
    """What a host has run guests with; `kind` is empty before its first start."""

    kind: Literal["", "libvirt", "simulated"] = ""
    way: Way = ""

    def choose(self, asked: HypervisorKind, state_dir: Path) -> HypervisorKind:
        """Return what to run guests with now. Raises Invalid where guests would be lost sight of.

        A host that had libvirt becomes a simulated one by its operator's word alone, and only
        where nothing of a guest is left.
        """
        if asked == "auto":
            return self.kind or asked
        if asked == "simulated" and self.kind == "libvirt" and _has_guests(state_dir):
            raise Invalid(
                f"This host runs guests with libvirt, and {state_dir / 'guests'} has what is "
                "theirs: simulated ones would take their place. Nothing was changed. Leave the "
                "setting hypervisor out, or choose another state directory."
            )
        return asked


def recall(state_dir: Path) -> Remembered:
    """Return what a host has run guests with. Blocking.

    The agents of releases before kept no word of it; either kind of guests has files of its own.
    """
    try:
        kind, _, way = (state_dir / FILE).read_text("ascii").strip().partition(" ")
    except FileNotFoundError:
        had_libvirt, had_simulated = (
            (state_dir / name).exists() for name in (accelerator.RECORD, world.FILE)
        )
        if had_libvirt == had_simulated:
            return Remembered()
        return Remembered("libvirt" if had_libvirt else "simulated")
    if kind == "simulated":
        return Remembered("simulated")
    return Remembered("libvirt", "own" if way == "own" else "daemon" if way == "daemon" else "")


def knows(settings: AgentSettings) -> bool:
    """Whether a host need not find out what its machine can run. Blocking."""
    return settings.hypervisor == "simulated" or recall(settings.state_dir) != Remembered()


def remember(state_dir: Path, what: Remembered) -> None:
    """Keep what a host runs guests with, now that it does. Blocking."""
    fresh = state_dir / f"{FILE}.new"
    fresh.write_text(f"{what.kind} {what.way}".strip(), "ascii")
    finish(fresh, state_dir / FILE)


def _has_guests(state_dir: Path) -> bool:
    guests = state_dir / "guests"
    return guests.is_dir() and any(guests.iterdir())
