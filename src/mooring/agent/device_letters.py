"""The names that disks of one bus have in a guest: /dev/vda.. on virtio, /dev/sda.. on the others.

Source: facts/compute.md 2.7.
"""

from __future__ import annotations

from string import ascii_lowercase
from typing import TYPE_CHECKING

from mooring.agent_api.disks import prefix_of

if TYPE_CHECKING:
    from mooring.agent_api.disks import DiskBus


def first_device(bus: DiskBus, *, is_second: bool = False) -> str:
    """Return the name of a first disk on a bus, or of the second where another one is the first."""
    return prefix_of(bus) + ("b" if is_second else "a")


def number_of(device: str) -> int:
    """Return where a disk's name is in its row of letters: 0 for /dev/sda, 26 for /dev/sdaa."""
    letters = device.removeprefix("/dev/")[2:]
    number = 0
    for letter in letters:
        number = number * len(ascii_lowercase) + ascii_lowercase.index(letter) + 1
    return number - 1
