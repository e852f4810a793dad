"""Where a copy of a volume is cut into pieces: where its content says, and not where it stands.

A copy in qcow2 is made of clusters of 64 KiB in the order in which the volume has them. Where the
volume has one cluster more than at its last backup, all that follow stand further behind, and
pieces cut at every 4 MiB would be others from there on. Here a piece ends behind a cluster whose
checksum ends so, which the next backup finds again wherever that cluster stands. It has half of its
most bytes at least: a disk full of one and the same cluster would be cut behind each of them, and
the list of its pieces be longer than what anybody reads.
"""

from __future__ import annotations

import zlib

from mooring.limits import CAPTURE_PIECE_BYTES

CLUSTER_BYTES = 64 << 10
LEAST_BYTES = CAPTURE_PIECE_BYTES // 2
"""What a piece has at least, unless it is the last one."""
_ENDS = 0x07
"""From there on it ends behind one cluster of eight; never behind one of zeros alone."""


class Cutter:
    """Cuts data that comes in portions of any size; all but the last have whole clusters."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._looked_at = 0

    def take(self, data: bytes) -> list[bytes]:
        """Return the pieces that are whole now."""
        self._held += data
        whole: list[bytes] = []
        while self._looked_at + CLUSTER_BYTES <= len(self._held):
            end = self._looked_at + CLUSTER_BYTES
            is_last = end >= LEAST_BYTES and self._ends_at(end)
            self._looked_at = end
            if is_last or end >= CAPTURE_PIECE_BYTES:
                whole.append(self._cut(end))
        return whole

    def rest(self) -> list[bytes]:
        """Return what is left at the end, if anything is."""
        return [self._cut(len(self._held))] if self._held else []

    def _ends_at(self, end: int) -> bool:
        return not zlib.crc32(self._held[self._looked_at : end]) & _ENDS

    def _cut(self, end: int) -> bytes:
        piece = bytes(self._held[:end])
        del self._held[:end]
        self._looked_at = 0
        return piece
