"""What the doctor may find: one thing each, with what to do about it."""

from __future__ import annotations

from msgspec import Struct


class Finding(Struct, frozen=True, order=True):
    """Something that does not agree. Equal findings of two looks have seen the same thing."""

    resource: str
    """What it is about, as `server 3f2a...`."""
    kind: str
    """owner, disagreement, orphan, quota, operation or host."""
    message: str
    """What was found."""
    advice: str
    """What to do next."""
