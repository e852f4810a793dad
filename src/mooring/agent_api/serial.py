"""A guest's serial port, as it is read and typed to through its host's agent.

Both directions count their bytes from the opening of the port, so that a call whose answer was lost
is made again, and nothing is shown or typed twice.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

SERIAL_PIECE_BYTES = 16 * 1024
"""The most that one call brings in either direction."""


class SerialSession(Struct, frozen=True):
    """A port that is open for one caller."""

    session_id: str


class SerialOutput(Struct, frozen=True, kw_only=True):
    """What the guest has written behind the first `after` bytes.

    next   how many bytes there are with these: what to ask behind next
    ended  why nothing more follows; "" while something may
    """

    data: bytes
    next: int
    ended: str = ""


class SerialInput(Struct, frozen=True, kw_only=True):
    """What is typed, behind so many bytes that were typed before."""

    after: Annotated[int, Meta(ge=0)]
    data: Annotated[bytes, Meta(max_length=SERIAL_PIECE_BYTES)]


class SerialTaken(Struct, frozen=True):
    """How many bytes the port has taken in all; what is missing is typed again."""

    next: int
