"""Images in a host's cache. The control plane pushes them; an agent fetches nothing."""

from __future__ import annotations

from msgspec import Struct


class ImageSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the stream of `PUT /images/{image_id}` must turn out to be; sent as its query."""

    disk_format: str
    """raw or qcow2, as the image service declares it; nothing is guessed."""
    size_bytes: int
    os_hash_algo: str = ""
    """A name that hashlib knows (sha512); empty when the image service gave no hash."""
    os_hash_value: str = ""
    for_operation: bool = False
    """Brought for one operation, which removes it at its end: it stays until then, and so does
    what has come of a stream that was broken off. Others leave the cache when nobody uses them."""
    begins_at: int = 0
    """Of an image for an operation: how many of its bytes are there, as `Arrived` says. The stream
    has those that follow."""


class Arrived(Struct, frozen=True):
    """How many bytes of an image for an operation have come."""

    size_bytes: int


class CachedImage(Struct, frozen=True, kw_only=True):
    """An image that is here, whole and checked. A start needs `virtual_bytes` of root disk."""

    image_id: str
    disk_format: str
    size_bytes: int
    virtual_bytes: int
