"""How the fencing of a host went, as the API shows it and `mooring host` reads it."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

NEVER, GOES_ON, FENCED, FAILED = "never", "fencing", "fenced", "failed"
"""What the last fencing of a host may be."""


class Unpaid(Struct, frozen=True):
    """What a host could not undo, as the agent's call, and why."""

    call: str
    why: str


class Fence(Struct, frozen=True, kw_only=True):
    """The last fencing of a host, and why it is forced down, if it is. Users by their ids.

    status    never, fencing (it goes on), fenced, failed; what follows is empty for the first
    silent_s  for how long it was silent when it was fenced by itself; 0: an administrator asked
    failures  how many in a row came to nothing
    error     why the last one did
    owes      how many undone operations it has to see to before it may be up again
    unpaid    those of them that it could not see to when it was asked last, and why
    """

    host: str
    forced_down: bool
    forced_down_at: datetime | None = None
    forced_down_by: str = ""
    forced_down_why: str = ""
    owes: int = 0
    unpaid: list[Unpaid] = []
    status: str = NEVER
    user_id: str = ""
    silent_s: int = 0
    failures: int = 0
    error: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None


class Fences(Struct, frozen=True):
    """The hosts that are forced down, are being fenced, or could not be fenced; by name."""

    fences: list[Fence]
