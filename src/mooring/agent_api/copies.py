"""A guest's own disks, given by the host that has them to the host that is to have them.

What an offer says is handed on as it came: the control plane makes up nothing of it.
"""

from __future__ import annotations

from msgspec import Struct


class OfferedDisk(Struct, frozen=True, kw_only=True):
    """One file of a guest that is off.

    name        what hypervisors of that kind call it; no path is ever made of it
    size_bytes  of the file, holes included
    data_bytes  of it that is sent: the blocks of 64 KiB that are not all zeros
    digest      of what it reads (`mooring.agent.blocks.Digest`), SHA-256 in hex
    image_id    the image that it is a copy of, "" for none: who has that need not fetch it
    """

    name: str
    size_bytes: int
    data_bytes: int
    digest: str
    image_id: str = ""


class Offer(Struct, frozen=True, kw_only=True):
    """What a host gives to whoever has the key, until it is withdrawn; also the body of a copy.

    address    ADDRESS:PORT at which it is fetched, over TLS
    identity   the name that the certificate shown there has to have
    authority  the certificate (PEM) of who certified it
    key        good for this offer alone; the host that made it keeps only its digest
    disks      in the order in which they are to be fetched
    """

    address: str
    identity: str
    authority: str
    key: str
    disks: list[OfferedDisk] = []


class CopyProgress(Struct, frozen=True, kw_only=True):
    """How much of a guest's disks has come, in bytes of what is sent; `is_whole`: all, checked."""

    total_bytes: int = 0
    copied_bytes: int = 0
    is_whole: bool = False
