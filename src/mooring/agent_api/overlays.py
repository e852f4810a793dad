"""Overlays of a guest's disk: a new file to write to, and files merged while the guest runs.

Files are named without a directory: all lie beside the file that the guest writes to. Source:
facts/block_storage.md 5.2 and 11.4, facts/compute.md 14.2.
"""

from __future__ import annotations

import re

from msgspec import Struct

from mooring.errors import Invalid

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")


class OverlayRequest(Struct, frozen=True):
    """Body of `PUT /servers/{server_id}/disks/{volume_id}/overlays/{snapshot_id}`.

    `new_file` is a qcow2 file that names the file which the guest writes to now as its backing.
    """

    new_file: str


class MergeRequest(Struct, frozen=True, kw_only=True):
    """Body of `PUT /servers/{server_id}/disks/{volume_id}/merges/{snapshot_id}`.

    Without `merge_target_file` the file that the guest writes to takes in all that lies between it
    and `file_to_merge`, or everything when that is None too. Else `file_to_merge` goes down into
    `merge_target_file`, which lies right below it.
    """

    file_to_merge: str | None = None
    merge_target_file: str | None = None


class ActiveFile(Struct, frozen=True, kw_only=True):
    """The file that a guest writes to, and its format, raw or qcow2."""

    file: str
    format: str


def is_plain_name(name: str) -> bool:
    """Whether a text names a file in a directory, and nothing else."""
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> str:
    """Return a file's name. Raises Invalid for one with a directory in it, or a hidden one."""
    if not is_plain_name(name):
        raise Invalid(f"{name[:64]!r} is no plain file name. Name a file beside the disk's own.")
    return name
