"""How far the emptying of a host is, as the API shows it and `mooring host` reads it."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class Left(Struct, frozen=True):
    """A server that stays on its host, or is elsewhere in ERROR, and why."""

    id: str
    name: str
    reason: str


class Drain(Struct, frozen=True, kw_only=True):
    """How far it is. `status`: draining, drained (it has ended, whatever is left), stopped.

    `moved` and `moving` count servers that run and those that are stopped; `moved_stopped` and
    `moving_stopped` count the latter alone.

    `moving` and `waiting` count servers; what `waiting` ones wait for is another operation, a
    place among those that move at once, or the host, which says so in `note` when it is silent.
    One that has ended says there whether the host has, or may have, servers again.
    """

    host: str
    status: str
    moved: int
    moved_stopped: int = 0
    moving: int = 0
    moving_stopped: int = 0
    waiting: int = 0
    left: list[Left] = []
    failed: list[Left] = []
    """Servers that have left the host, and are in ERROR where they went."""
    note: str = ""
    is_outdated: bool = False
    """Whether the host has, or may have, servers again since it ended."""
    started_at: datetime
    ended_at: datetime | None = None
