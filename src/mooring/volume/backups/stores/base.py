"""The protocol of a store for backups, and what a backup is in it.

A backup is pieces, each named after its digest, and a manifest that lists them in order. The
manifest comes last: a backup without one is not whole. Every method may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec
from msgspec import Struct

from mooring import typed
from mooring.errors import Conflict

ZEROS = ""
"""The digest of a piece that has nothing but zeros, of whatever length: it is not stored."""


class Piece(Struct, frozen=True, omit_defaults=True):
    """So many bytes of a backup, and their SHA-256; `ZEROS` for zeros alone.

    `source` says which of the manifest's `sources` stores it, from 1; 0: the backup itself.
    """

    size_bytes: int
    sha256: str = ZEROS
    source: int = 0


class Manifest(Struct, frozen=True, kw_only=True):
    """What a backup consists of. `size_bytes` and `sha256` are those of all pieces together.

    `sources` are the ids of other backups that store pieces of it.
    """

    backup_id: str
    disk_format: Literal["raw", "qcow2"]
    size_bytes: int
    sha256: str
    pieces: list[Piece]
    sources: tuple[str, ...] = ()

    @property
    def stored(self) -> frozenset[str]:
        """The digests of the pieces that the backup itself stores."""
        mine = (piece.sha256 for piece in self.pieces if not piece.source)
        return frozenset(digest for digest in mine if digest != ZEROS)

    def place_of(self, piece: Piece) -> str:
        """Return the id of the backup that stores a piece."""
        return self.sources[piece.source - 1] if piece.source else self.backup_id

    def places(self) -> dict[str, str]:
        """Return, by digest, the id of the backup that stores it."""
        return {each.sha256: self.place_of(each) for each in self.pieces if each.sha256 != ZEROS}


def read_manifest(backup_id: str, content: bytes | None) -> Manifest | None:
    """Return what a file or object says; for a thread, as one may have 58 MiB. Raises Conflict."""
    try:
        return None if content is None else typed.decode(content, Manifest)
    except msgspec.DecodeError as error:
        raise Conflict(
            f"The manifest of backup {backup_id} is damaged, so its data cannot be read. "
            "Restore another backup.",
            private=str(error),
        ) from error


class BackupStore(Protocol):
    """One place for backups.

    All raise Unavailable when the place cannot be reached, and NoCapacity when it is full.
    """

    async def setup(self) -> None:
        """Make ready."""
        ...

    async def begin(self, backup_id: str) -> None:
        """Let pieces of a backup be put; those that are there stay."""
        ...

    async def put_piece(self, backup_id: str, sha256: str, data: bytes) -> None:
        """Store a piece, whole or not at all, unless it is there.

        Raises Conflict for a backup that was never begun, or is deleted: nobody who comes late
        leaves anything.
        """
        ...

    async def put_manifest(self, manifest: Manifest) -> None:
        """Make a backup whole, in one go, and remove what the manifest does not list.

        Raises Conflict, as `put_piece` does.
        """
        ...

    async def find_manifest(self, backup_id: str) -> Manifest | None:
        """Return what a backup consists of; None where none is whole. Raises Conflict: damaged."""
        ...

    async def find_piece(self, backup_id: str, sha256: str) -> bytes | None:
        """Return a piece as it is stored now, damaged or not; None where it is not."""
        ...

    async def find_pieces(self, backup_id: str) -> frozenset[str]:
        """Return the digests of all pieces that are stored of a backup, damaged or not."""
        ...

    async def delete(self, backup_id: str) -> None:
        """Remove all there is of a backup, also of one whose removal was interrupted."""
        ...

    async def backups(self) -> Mapping[str, bool]:
        """Return the ids of all backups of which anything is stored, and whether each is whole."""
        ...
