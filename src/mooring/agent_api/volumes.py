"""Volumes in the pools of a host, and their exports to hosts."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


class SnapshotName(Struct, frozen=True):
    """A snapshot in the same pool."""

    volume_id: str
    snapshot_id: str


class VolumeSpec(Struct, frozen=True, kw_only=True):
    """Body of `PUT /volumes/{volume_id}`: so big, empty or with the content of something else.

    `format` empty takes the pool's own. A volume smaller than the image's virtual size is Invalid.
    """

    pool: str
    size_gib: int
    image_id: str = ""
    """One of the host's cache; by the volume's own id it is no image, but came for it alone."""
    snapshot: SnapshotName | None = None
    source_volume: str = ""
    """A volume that nobody has meanwhile."""
    source_pool: str = ""
    """The pool of the same host where that lies; empty for the same pool."""
    format: Literal["", "raw", "qcow2"] = ""
    becomes: str = ""
    """The id that it is to get by `adopt_copy`: its file is named so from the start, since a guest
    has it open by then."""


class VolumeFile(Struct, frozen=True, kw_only=True):
    """A volume as its pool holds it."""

    volume_id: str
    pool: str
    size_gib: int
    """Whole GiB of its virtual size, read from the file itself."""
    format: str
    virtual_bytes: int = 0
    """The size that a guest sees, read from the file itself; 0 when its header cannot be read."""
    exports: list[str] = []
    """Ids of the attachments it is exported to."""
    snapshots: list[str] = []
    """Ids of the snapshots that its files hold, oldest first."""
    becomes: str = ""
    """The id that it was made to get, and has not got yet."""
    untaken_bytes: int = 0
    """How much of a thick volume's space its storage has still to take."""
    problem: str = ""
    """Why no more than its name can be read, "" when all can: then `format` is "", and the size is
    what its files show."""


class Holder(Struct, frozen=True, kw_only=True):
    """One attachment by which a volume's image may be open, and its host."""

    attachment_id: str
    host: str


class Holders(Struct, frozen=True, kw_only=True):
    """Who has a volume's image open to write to.

    `held` None: the storage cannot tell. A file's lock tells that somebody has it and not who, so
    `holders` are all that may be it: those that the volume is exported to.
    """

    held: bool | None
    holders: list[Holder] = []


class SizeRequest(Struct, frozen=True):
    """Body of `PUT /volumes/{volume_id}/size`: at least so big from now on."""

    size_gib: int


class Extended(Struct, frozen=True):
    """How big a volume is now.

    `needs_compute`: QEMU holds the file, nothing was changed, and only the hypervisor of the guest
    can make it grow (facts/block_storage.md 3.5).
    """

    virtual_bytes: int
    needs_compute: bool = False


class ContentRequest(Struct, frozen=True):
    """Body of `PUT /volumes/{volume_id}/content`: nothing but this cached image from now on."""

    image_id: str


class AdoptRequest(Struct, frozen=True):
    """Body of `PUT /volumes/{volume_id}/copies/{copy_id}`: in which pool the copy lies.

    `former` is the pool of the same host that has the volume until then; "" where none has.
    """

    pool: str
    former: str = ""


class Copying(Struct, frozen=True):
    """How far a volume's content has been written, in percent; None: nothing is being written."""

    percent: int | None


class ExportRequest(Struct, frozen=True):
    """Body of `PUT /volumes/{volume_id}/exports/{attachment_id}`: whom to."""

    connector: dict[str, Any]


class Export(Struct, frozen=True):
    """How the connector's host reaches the volume: `driver_volume_type` and `data`. A secret."""

    connection_info: dict[str, Any]
