"""The serial ports of guests: the part of a hypervisor that lets somebody talk to one."""

from __future__ import annotations

from typing import Protocol

from mooring.errors import Conflict


class SerialPort(Protocol):
    """An open way to a guest's first serial port, for one event loop.

    It ends with the guest's emulator, with its move to another host, and when somebody else opens
    the port.
    """

    async def read(self) -> bytes:
        """Return what the guest has written since the last call, waiting for some; b"" at the end.

        What is not read the guest has to wait with, once a few KiB are on their way.
        """
        ...

    async def write(self, data: bytes, wait_s: float) -> int:
        """Type this, and return how many of its bytes were taken within so many seconds."""
        ...

    async def close(self) -> None:
        """Let go of the port; nothing for one that is closed."""
        ...


class GuestSerial(Protocol):
    """A part of `Hypervisor`."""

    async def check_serial(self, server_id: str) -> None:
        """See that a guest's serial port can be opened now.

        Raises NotFound, Conflict: it is off, or was started without one that can be talked to.
        """
        ...

    async def open_serial(self, server_id: str) -> SerialPort:
        """Open a guest's first serial port; whoever had it open before has it no more.

        What the guest wrote before is in its console alone. Raises as `check_serial` does.
        """
        ...


def check_talks(server_id: str, state: str, *, is_open: bool) -> None:
    """Raise Conflict unless a guest in this state, with such a port, can be talked to."""
    if state not in {"running", "paused"}:
        raise Conflict(
            f"The guest of server {server_id} is {state}: only one that runs can be talked to at "
            "its serial port. Start the server."
        )
    if not is_open:
        raise Conflict(
            f"The guest of server {server_id} runs with a serial port that only writes a log, as "
            "it was started by an earlier release. A hard reboot gives it one that can be talked "
            "to."
        )
