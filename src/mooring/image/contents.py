"""Whether an image's data are what they are declared to be, by their first bytes.

Hosts use the data by their disk_format and never ask for the container, so what a container lets
through here is what a host opens. Source: facts/identity_image_placement.md 8.7, which is of bare
images: in other containers Glance tells no size of the disk. Here they are read where the disk lies
in the data as it is; an archive has to be one, and what it or compressed data hold is not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring import qcow2
from mooring.errors import Invalid

if TYPE_CHECKING:
    from mooring.image.files import Written

_ARCHIVES = ("ova", "docker")
"""Containers that are tar archives: the disk is inside, with other files."""
_UNREAD = (*_ARCHIVES, "compressed")
_TAR_MAGIC = b"ustar"
_TAR_MAGIC_AT = 257


def read_virtual_size(disk_format: str, container_format: str, written: Written) -> int | None:
    """Return the size in bytes of the disk in the data; None where it cannot be told.

    Raises Invalid (415) when the data are not in the declared format, or refer to other files.
    """
    if container_format in _ARCHIVES:
        _require_tar(container_format, written)
    if disk_format == "qcow2" and container_format not in _UNREAD:
        try:
            return qcow2.read_alone(written.start)
        except Invalid as error:
            raise _refused(error.public) from error
    if written.start.startswith(qcow2.MAGIC) and disk_format in {"raw", "qcow2"}:
        raise _refused(_misdeclared(disk_format, container_format))
    if disk_format == "raw" and container_format not in _UNREAD:
        return written.size_bytes or None
    return None


def _require_tar(container_format: str, written: Written) -> None:
    end = _TAR_MAGIC_AT + len(_TAR_MAGIC)
    if written.start[_TAR_MAGIC_AT:end] != _TAR_MAGIC:
        raise _refused(
            f"An image of container_format {container_format} is a tar archive, and the data are "
            "none; for a disk as it is, make an image of container_format bare."
        )


def _misdeclared(disk_format: str, container_format: str) -> str:
    if disk_format == "raw":
        return "It is declared raw, and its data are qcow2; declare that, or convert the data."
    return (
        f"Its data are qcow2 as it is, not {container_format}; make an image of container_format "
        "bare."
    )


def _refused(why: str) -> Invalid:
    return Invalid(f"The image was refused. {why} It is queued again.", status=415)
