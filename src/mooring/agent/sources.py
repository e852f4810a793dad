"""Where a disk's bytes are: in a file of this host, or in an image on the network.

What can only be done to files asks for one by `file_of`, which refuses the rest in plain words.
Source: facts/distributed_storage.md 1.3 and 1.12.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct

from mooring.errors import Invalid


class FileSource(Struct, frozen=True, tag="file"):
    """A file, or a block device below /dev: its path, and its format as declared, never guessed."""

    path: str
    format: str

    def __str__(self) -> str:
        return f"the {self.format} file {Path(self.path).name}"


class Address(Struct, frozen=True):
    """Where a service listens; port 0 leaves it to the protocol's own."""

    name: str
    port: int = 0


class NetworkSource(Struct, frozen=True, kw_only=True, tag="network"):
    """An image that QEMU reaches by itself; it is always raw.

    protocol   rbd (Ceph) or nbd
    name       how the storage calls it: pool/image, or the export
    user       with `secret_id`, the id of libvirt's secret that holds the user's key
    config     the file that says how to reach the storage, with its timeouts; "" for none
    """

    protocol: Literal["rbd", "nbd"]
    name: str
    hosts: tuple[Address, ...]
    user: str = ""
    secret_id: str = ""
    config: str = ""

    def __str__(self) -> str:
        return f"the {self.protocol} image {self.name}"


Source = FileSource | NetworkSource


def file_of(source: Source, what: str) -> FileSource:
    """Return a source that is a file. Raises Invalid for another; `what` was to be done with it."""
    if isinstance(source, FileSource):
        return source
    raise Invalid(
        f"{source} is no file of this host, and {what} can be done to files only. Nothing was "
        "changed; its storage must do it."
    )


def check_usable(*sources: Source) -> None:
    """Raise Invalid for what no hypervisor here can open: an image behind a user's key."""
    for source in sources:
        if isinstance(source, NetworkSource) and (source.user or source.secret_id):
            raise Invalid(
                f"{source} needs the key of user {source.user or 'unknown'}, and hosts keep no "
                "keys of storage for their hypervisor. Nothing was changed; use storage that needs "
                "none."
            )


def shown(source: Source) -> tuple[str, str]:
    """Return the path and format that an agent's answers name; no path for what is no file."""
    return (source.path, source.format) if isinstance(source, FileSource) else ("", "raw")
