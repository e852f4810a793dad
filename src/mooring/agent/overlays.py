"""The files that a disk consists of, read from their headers: an overlay names what lies below it.

A backing file is only taken when it lies in the same directory and its format is written down: an
overlay must not make QEMU open anything else. Source: facts/block_storage.md 11.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from mooring import qcow2
from mooring.agent.limits import AGENT_LAYERS
from mooring.agent.qemu_img import FORMATS, read_virtual_bytes
from mooring.agent_api.overlays import MergeRequest, check_name, is_plain_name
from mooring.errors import Conflict, Invalid, NotFound


class Layer(Struct, frozen=True):
    """One file of a disk, and its format as declared."""

    path: Path
    format: str

    @property
    def name(self) -> str:
        """The file's name in its directory."""
        return self.path.name


def read_layers(top: Layer) -> list[Layer]:
    """Return a disk's files from the top down. Blocking. Raises Invalid for what may not be."""
    found = [top]
    while (below := _below(found[-1])) is not None:
        found.append(below)
        if len(found) > AGENT_LAYERS:
            raise Invalid(f"The disk {top.name} consists of more than {AGENT_LAYERS} files.")
    return found


def check_overlay(new_file: str, active: Layer) -> Layer:
    """Return a new overlay of the file that a guest writes to. Blocking.

    Raises NotFound without it, Invalid unless it stands on exactly that file.
    """
    path = active.path.parent / check_name(new_file)
    if path.is_symlink() or not path.is_file():
        raise NotFound(
            f"The file {new_file} is not there, or is no regular file. Make it beside "
            f"{active.name} first; nothing was changed."
        )
    layer = Layer(path, "qcow2")
    if _below(layer) != active:
        raise Invalid(
            f"The file {new_file} does not stand on {active.name} of format {active.format}, which "
            "the guest writes to. Nothing was changed; make it anew on that file."
        )
    if qcow2.read_header(path).virtual_bytes != _virtual_bytes(active):
        raise Invalid(
            f"The file {new_file} is not as large as {active.name}. Nothing was changed; make it "
            "anew with that size."
        )
    return layer


def check_merge(merge: MergeRequest, layers: Sequence[Layer]) -> bool:
    """Return whether a disk's files are merged so already. Raises Invalid unless they can be."""
    names = [layer.name for layer in layers]
    for name in (merge.file_to_merge, merge.merge_target_file):
        if name is not None:
            check_name(name)
    if merge.merge_target_file is None:
        return _is_pulled(merge.file_to_merge, names)
    if merge.file_to_merge is None:
        raise Invalid("A merge with a target needs a file_to_merge. Nothing was changed.")
    if merge.merge_target_file not in names[1:]:
        raise _stranger(merge.merge_target_file, names)
    if merge.file_to_merge not in names:
        return True
    at = names.index(merge.file_to_merge)
    if at == 0:
        raise Conflict(
            f"The guest writes to {merge.file_to_merge}; it cannot go down into another file. "
            "Merge into it instead: leave merge_target_file out."
        )
    if names[at + 1 : at + 2] != [merge.merge_target_file]:
        raise Invalid(
            f"{merge.merge_target_file} does not lie right below {merge.file_to_merge}. Nothing "
            "was changed; merge one file at a time."
        )
    return False


def _is_pulled(base: str | None, names: Sequence[str]) -> bool:
    if base is None:
        return len(names) == 1
    if base not in names[1:]:
        raise _stranger(base, names)
    return names[1] == base


def _stranger(name: str, names: Sequence[str]) -> Invalid:
    return Invalid(
        f"The file {name} does not lie below {names[0]}, which the guest writes to. Nothing was "
        "changed; look at the files of the volume."
    )


def _below(layer: Layer) -> Layer | None:
    if layer.format != "qcow2":
        return None
    header = qcow2.read_header(layer.path)
    if not header.backing:
        return None
    if not is_plain_name(header.backing) or header.backing_format not in FORMATS:
        raise Invalid(
            f"The file {layer.name} names a backing file that is not taken: it must lie in the "
            "same directory, named without one, and its format must be written down."
        )
    return Layer(layer.path.parent / header.backing, header.backing_format)


def _virtual_bytes(layer: Layer) -> int:
    if layer.format == "qcow2":
        return qcow2.read_header(layer.path).virtual_bytes
    return read_virtual_bytes(layer.path, layer.format)
