"""The disks that a guest has on its host, as whoever copies them sees them."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from mooring.agent_api.servers import GuestState
from mooring.errors import Conflict, Invalid, NotFound


class LocalDisk(Struct, frozen=True, kw_only=True):
    """A file that a guest has on its host. One that is not written is a copy of the image."""

    name: str
    path: Path
    image_id: str = ""
    is_written: bool = True


def check_off(server_id: str, state: GuestState) -> None:
    """Raise Conflict unless a guest is off, and can be started here: it writes to no disk then."""
    if state not in {"stopped", "crashed"}:
        raise Conflict(
            f"The guest of server {server_id} is {state}; its disks are copied while it is off. "
            "Stop it first."
        )


def check_growth(server_id: str, has_bytes: int, wanted_bytes: int) -> int:
    """Return the size that a root disk is to have; 0 keeps what it has. Raises Invalid."""
    if 0 < wanted_bytes < has_bytes:
        raise Invalid(
            f"The root disk of server {server_id} has {has_bytes} bytes; it is not made smaller. "
            "Use a larger flavor."
        )
    return wanted_bytes or has_bytes


def no_copy(server_id: str) -> NotFound:
    """Return the refusal for a root disk that is to be there already."""
    return NotFound(f"No root disk of server {server_id} was copied to this host.")
