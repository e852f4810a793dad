"""What is remembered while a server is switched on or off, started anew, or stands still."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from mooring.compute.shares import folders, power
from mooring.compute.shares.folders import Folder
from mooring.saga.define import Each

State = Literal["on", "off", "reboot", "pause", "unpause", "suspend", "resume"]
Mode = Literal["soft", "hard"]


class ChangePower(Struct, frozen=True, kw_only=True):
    """The notes.

    lost   block devices whose attachment somebody deleted
    waiting  those of volumes that waited at no host, which the guest that starts is to have
    found  the state in which the guest was found after a failure; empty when nobody looked
    shares   those of the server, at its host
    mounted  the mappings of those that the host had mounted before
    """

    server_id: str
    host: str
    action_id: int
    state: State
    mode: Mode
    task_state: str
    lost: list[str] = []
    waiting: list[str] = []
    found: str = ""
    shares: list[Folder] = []
    mounted: list[str] = []


def takes_disks(notes: ChangePower) -> bool:
    """Whether the guest's volumes are connected anew: so they are where it has no emulator."""
    return notes.state == "resume" or starts_anew(notes)


def starts_anew(notes: ChangePower) -> bool:
    """Whether the guest is defined anew: starting and hard reboots do."""
    return notes.state == "on" or (notes.state == "reboot" and notes.mode == "hard")


def given(notes: ChangePower) -> list[str]:
    """Return the shares that are mounted before the guest starts, as items."""
    return folders.named(notes.shares) if starts_anew(notes) else []


def taken(notes: ChangePower) -> list[str]:
    """Return the shares that are unmounted once the guest is off, as items."""
    return folders.named(notes.shares) if notes.state == "off" else []


GIVES = (Each("shares_given", given, *power.GIVE),)
"""What is done with shares before a guest starts."""
TAKES = (Each("shares_taken", taken, *power.TAKE),)
"""What is done with them once a guest is off."""
