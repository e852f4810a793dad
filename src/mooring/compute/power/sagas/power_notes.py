"""What is remembered while a server is switched on or off, or started anew."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

State = Literal["on", "off", "reboot"]
Mode = Literal["soft", "hard"]


class ChangePower(Struct, frozen=True, kw_only=True):
    """The notes.

    lost   block devices whose attachment somebody deleted
    found  the state in which the guest was found after a failure; empty when nobody looked
    """

    server_id: str
    host: str
    action_id: int
    state: State
    mode: Mode
    task_state: str
    lost: list[str] = []
    found: str = ""


def takes_disks(notes: ChangePower) -> bool:
    """Whether the guest is defined anew: starting and hard reboots do."""
    return notes.state == "on" or (notes.state == "reboot" and notes.mode == "hard")
