"""The power of guests: the part of a hypervisor that starts and stops them, and lets them wait.

A paused guest keeps its emulator, with its memory and its disks. A suspended one is off, and its
memory lies in a file of its host until it goes on, or is started, stopped or removed without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from mooring.agent_api.servers import GuestState
from mooring.errors import Conflict, NoCapacity

_MIB = 1 << 20


class GuestPower(Protocol):
    """A part of `Hypervisor`."""

    async def power_on(self, server_id: str) -> None:
        """Start the guest unless it runs. Raises NotFound, NoCapacity, Unavailable."""
        ...

    async def power_off(self, server_id: str, graceful_s: float) -> None:
        """Stop the guest: ask it for so long, then switch it off; 0 asks not. Raises NotFound."""
        ...

    async def pause(self, server_id: str) -> None:
        """Let the guest stand still, if it does not. Raises NotFound, Conflict: it is off."""
        ...

    async def unpause(self, server_id: str) -> None:
        """Let the guest run on, if it does not. Raises NotFound, Conflict: it is off."""
        ...

    async def suspend(self, server_id: str) -> None:
        """Write the guest's memory to a file, and end its emulator, with the copies it makes.

        Nothing for one that is suspended; one that was refused runs on. Raises NotFound, Conflict:
        it is off; NoCapacity: there is no room for the file.
        """
        ...

    async def resume(self, server_id: str) -> None:
        """Let a suspended guest run on, with its disks where its definition has them.

        One that it was given while it was suspended it has from its next start on. Nothing for a
        guest that runs. One that was refused stays suspended. Raises NotFound, Conflict: there is
        no memory of it, or one of its disks was taken from it meanwhile.
        """
        ...

    async def until_quiet(self, server_id: str) -> None:
        """Return when nothing that was begun is at work in the guest's emulator any more.

        Raises Unavailable, as whatever asks the emulator of a guest does, for one that hangs.
        `power_off` and `remove` end it.
        """
        ...


def not_in_definition(server_id: str, volume_ids: Iterable[str]) -> Conflict:
    """Return the refusal to let a guest go on with volumes that were taken from it meanwhile."""
    return Conflict(
        f"The guest of server {server_id} was suspended with volume {', '.join(volume_ids)}, which "
        "it is not to have any more. It stays suspended: its memory goes with the disks that it "
        "had. Reboot the server hard, which starts it without."
    )


def no_standstill(server_id: str, state: GuestState, what: str) -> Conflict:
    """Return the refusal to let a guest stand still or go on that is off, or elsewhere."""
    return Conflict(
        f"The guest of server {server_id} is {state} and was not {what}: it was left as it is. "
        "Start the server, or reboot it hard."
    )


def check_room(server_id: str, memory_bytes: int, free_bytes: int) -> None:
    """Raise NoCapacity unless the memory of a guest fits into what its host has free."""
    if memory_bytes > free_bytes:
        raise NoCapacity(
            f"The memory of server {server_id} takes {memory_bytes // _MIB} MiB on the disk of its "
            f"host, which has {free_bytes // _MIB} MiB free. It was not suspended and runs on; "
            "make room there, or stop the server."
        )
