"""What a host shows to its control plane, and how that is renewed."""

from __future__ import annotations

from msgspec import Struct


class Shown(Struct, frozen=True):
    """A host's certificate, and its request for the next one; both PEM."""

    certificate: str
    wish: str


class Renewed(Struct, frozen=True):
    """The body of `PUT /certificate`: what a wish was answered with, PEM."""

    certificate: str
