"""Chains: the files that a volume with snapshots consists of, and how they are put together.

A snapshot makes a new overlay the active file; what lies below it is the snapshot's content. One of
a volume that several guests write to, which therefore has to stay one raw file, is a copy beside
it. The chain is kept in the volume's record and never read out of the files, which guests may have
written.
Source: facts/block_storage.md 11.4.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from mooring import limits
from mooring.agent_api.snapshots import Merge
from mooring.errors import Conflict, Invalid, NotFound

OVERLAY_FORMAT = "qcow2"


class Layer(Struct, frozen=True):
    """One file of a chain: its name in the pool's directory, and its format, never guessed.

    `snapshot_id` is the snapshot that was taken when this file was put on top, or that it is a copy
    for, and `size_bytes` the size of the disk at that time; "" and 0 of the lowest.
    """

    file: str
    format: str
    snapshot_id: str = ""
    size_bytes: int = 0


class Chain(Struct, frozen=True):
    """The files of a volume, the lowest first; the last is the active one.

    `pending` is an overlay that a hypervisor was to switch to, and may have. `copies` are snapshots
    that stand alone, oldest first; all are older than the first overlay.
    """

    layers: tuple[Layer, ...]
    pending: Layer | None = None
    copies: tuple[Layer, ...] = ()

    @property
    def active(self) -> Layer:
        """The file that is written to."""
        return self.layers[-1]

    @property
    def snapshots(self) -> list[str]:
        """The snapshots that were taken, or prepared, oldest first."""
        taken = [layer.snapshot_id for layer in (*self.copies, *self.layers[1:])]
        return taken + ([self.pending.snapshot_id] if self.pending else [])

    @property
    def files(self) -> list[str]:
        """The names of all files, the lowest first that the volume itself consists of."""
        return [layer.file for layer in (*self.copies, *self.layers)] + self._pending_files()

    def find(self, snapshot_id: str) -> int | None:
        """Return where the overlay of a snapshot stands; None when it was not taken."""
        found = (at for at, layer in enumerate(self.layers) if layer.snapshot_id == snapshot_id)
        return next(found, None) if snapshot_id else None

    def place(self, snapshot_id: str) -> int:
        """Return the same. Raises NotFound."""
        if (at := self.find(snapshot_id)) is None:
            raise NotFound(f"The volume has no snapshot {snapshot_id}.")
        return at

    def find_copy(self, snapshot_id: str) -> Layer | None:
        """Return the copy that a snapshot is; None when it is none."""
        return next((copy for copy in self.copies if copy.snapshot_id == snapshot_id), None)

    def find_content(self, snapshot_id: str) -> tuple[Layer, int]:
        """Return the file with a snapshot's content, and how large that is. Raises NotFound."""
        if (copy := self.find_copy(snapshot_id)) is not None:
            return copy, copy.size_bytes
        at = self.place(snapshot_id)
        return self.layers[at - 1], self.layers[at].size_bytes

    def require_newest(self, snapshot_id: str) -> None:
        """Raise NotFound, or Conflict unless a snapshot is the newest of its volume."""
        if self.find_copy(snapshot_id) is None:
            self.place(snapshot_id)
        if self.snapshots[-1] != snapshot_id:
            raise Conflict(
                f"Snapshot {snapshot_id} is not the newest of its volume. Nothing was changed; "
                "delete the newer ones first.",
            )

    def require_plain(self, volume_id: str) -> None:
        """Raise Conflict for a volume of more than one file: a copy would be older than those."""
        if len(self.layers) > 1 or self.pending is not None:
            raise Conflict(
                f"Volume {volume_id} has snapshots that are overlays, so no copy is taken of it. "
                "Nothing was changed; delete those first."
            )

    def keep_copy(self, copy: Layer) -> Chain:
        """Return the chain with one more copy, the newest."""
        return replace(self, copies=(*self.copies, copy))

    def forget_copy(self, snapshot_id: str) -> Chain:
        """Return the chain without a copy."""
        left = tuple(copy for copy in self.copies if copy.snapshot_id != snapshot_id)
        return replace(self, copies=left)

    def is_pending(self, snapshot_id: str) -> bool:
        """Whether a snapshot is prepared and no more."""
        return self.pending is not None and self.pending.snapshot_id == snapshot_id

    def prepare(self, layer: Layer) -> Chain:
        """Return the chain with an overlay ready. Raises Conflict, Invalid."""
        if self.pending is not None:
            raise Conflict(
                f"Snapshot {self.pending.snapshot_id} of the same volume has not ended; delete it "
                "before taking another.",
            )
        if len(self.layers) > limits.VOLUME_CHAIN_FILES:
            raise Invalid(
                f"The volume has {len(self.layers) - 1} snapshots, and more would make it slow. "
                "Nothing was changed; delete some first.",
            )
        return replace(self, pending=layer)

    def take(self, snapshot_id: str) -> Chain:
        """Return the chain with the prepared overlay on top. Raises NotFound."""
        if self.pending is None or self.pending.snapshot_id != snapshot_id:
            raise NotFound(f"Snapshot {snapshot_id} was not prepared.")
        return replace(self, layers=(*self.layers, self.pending), pending=None)

    def forget_pending(self) -> Chain:
        """Return the chain without what was only prepared."""
        return replace(self, pending=None)

    def require_alone(self, volume_id: str) -> None:
        """Raise Conflict for a volume that has snapshots."""
        if self.snapshots:
            raise Conflict(
                f"Volume {volume_id} has the snapshots {', '.join(self.snapshots)}, and keeps its "
                "id. Nothing was changed; delete those first.",
            )

    def plan(self, snapshot_id: str) -> Merge:
        """Return how a hypervisor takes a snapshot out. Raises NotFound."""
        at = self.place(snapshot_id)
        if at < len(self.layers) - 1:
            return Merge(self.layers[at].file, self.layers[at - 1].file)
        return Merge(self.layers[at - 2].file if at >= 2 else None, None)

    def commit(self, snapshot_id: str) -> tuple[Chain, Layer]:
        """Return the chain after an overlay went down into the file below, and that overlay."""
        at = self.place(snapshot_id)
        return replace(self, layers=self.layers[:at] + self.layers[at + 1 :]), self.layers[at]

    def merge(self, snapshot_id: str) -> tuple[Chain, Layer]:
        """Return the chain after a hypervisor did as planned, and the layer that nobody needs."""
        at = self.place(snapshot_id)
        if at < len(self.layers) - 1:
            return self.commit(snapshot_id)
        below = self.layers[at - 1]
        was = {"snapshot_id": below.snapshot_id, "size_bytes": below.size_bytes}
        grown = replace(self.layers[at], **was)
        return replace(self, layers=(*self.layers[: at - 1], grown)), below

    def _pending_files(self) -> list[str]:
        return [self.pending.file] if self.pending else []
