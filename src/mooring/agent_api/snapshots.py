"""Snapshots of volumes in the pools of a host. Source: facts/block_storage.md 5.2 and 11.4."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

SnapshotState = Literal["prepared", "taken", "copied"]
Holder = Literal["unknown", "nobody", "overlay", "below"]


class SnapshotSpec(Struct, frozen=True):
    """Body of `PUT /volumes/{volume_id}/snapshots/{snapshot_id}`: what it is to be.

    `prepared`: an empty overlay lies ready, and a hypervisor is to switch its guest over to it.
    `taken`: writes go to the overlay from now on. One that was prepared is believed to be in use by
    then; without that, nobody may have the volume.
    `copied`: it is a file of its own, and the volume goes on in the file that it has.
    """

    state: SnapshotState


class Merge(Struct, frozen=True):
    """How a hypervisor takes a snapshot out of the chain of a disk in use. File names, no paths.

    Without a target the active file takes in what lies above `file_to_merge`, or everything when
    that is None; else `file_to_merge` goes down into the target.
    """

    file_to_merge: str | None
    merge_target_file: str | None


class SnapshotFile(Struct, frozen=True, kw_only=True):
    """A snapshot as its pool holds it."""

    volume_id: str
    snapshot_id: str
    state: SnapshotState
    file: str
    """The name of the overlay that takes what is written after the snapshot, or of the copy."""
    size_bytes: int
    """The size of the disk when the snapshot was taken."""
    merge: Merge | None = None
    """How a hypervisor would take it out; None while it is only prepared, and of a copy."""
    held: Holder = "unknown"
    """Which file a hypervisor has open to write to: the overlay, or one below it."""
    merged: bool | None = None
    """Whether a hypervisor has done `merge`, the record being behind; None: nobody can tell."""
