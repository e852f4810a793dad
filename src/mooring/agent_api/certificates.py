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


class MoveCertificates(Struct, frozen=True):
    """What a host's guests come and go with; all PEM, and both for one key.

    authority  of both, and of those of all other hosts
    server     shown to those who send guests here
    client     shown to those whom guests are sent to
    """

    authority: str
    server: str
    client: str


class ShownForMoves(Struct, frozen=True):
    """Those that a host has, if any, and its request for the next ones.

    `is_wanted`: whether its guests come and go over TLS only; else it needs none.
    `in_the_clear`: whether it joined, and its guests' memory can be read on the way all the same.
    """

    is_wanted: bool
    held: MoveCertificates | None
    wish: str
    in_the_clear: bool = False
