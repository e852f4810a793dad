"""The protocol of a volume driver, and what all of them answer alike.

Source: facts/block_storage.md 11.2. Every method may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from mooring.agent.drivers.chains import Layer
from mooring.agent.qemu_img import GIB
from mooring.agent.settings import PoolSettings
from mooring.agent.sources import Source, file_of
from mooring.agent_api.captures import DiskFormat
from mooring.agent_api.hosts import Pool
from mooring.agent_api.snapshots import Holder, SnapshotFile
from mooring.agent_api.volumes import Holders, VolumeFile
from mooring.errors import Conflict, Invalid, NoCapacity, NotFound


class SourceImage(Struct, frozen=True):
    """A cached image, a snapshot or a volume, to make a volume from.

    `lasting`: an image, whose content is always this, so that a pool may keep it for later.
    """

    image_id: str
    source: Source
    virtual_bytes: int
    lasting: bool = True

    def file(self) -> tuple[Path, str]:
        """Return path and format of one that is a file. Raises Invalid for another."""
        found = file_of(self.source, "copying it here")
        return Path(found.path), found.format


class ExtendNeedsCompute(Exception):
    """Somebody holds the volume's image: only the hypervisor of the guest can make it grow.

    Nothing was changed; `volume` is as it was found (facts/block_storage.md 3.5).
    """

    def __init__(self, volume: VolumeFile) -> None:
        super().__init__(f"the image of volume {volume.volume_id} is held")
        self.volume = volume


class VolumeDriver(Protocol):
    """One pool."""

    @property
    def pool(self) -> PoolSettings:
        """What the pool was set up as."""
        ...

    @property
    def hosts(self) -> list[str] | None:
        """The hosts that may have its volumes; None is every host."""
        ...

    async def setup(self) -> None:
        """Make ready, and remove what unfinished calls have left. Raises Unavailable."""
        ...

    async def close(self) -> None:
        """Let go."""
        ...

    async def stats(self) -> Pool:
        """Return what the pool has and holds."""
        ...

    async def volumes(self) -> list[VolumeFile]:
        """Return all volumes of the pool."""
        ...

    async def find(self, volume_id: str) -> VolumeFile | None:
        """Return a volume, or None."""
        ...

    async def create(
        self,
        wanted: VolumeFile,
        source: SourceImage | None,
        operation_key: str,
        *,
        becomes: str = "",
    ) -> VolumeFile:
        """Make a volume, empty or from an image, or find it. Raises NoCapacity, Invalid.

        `becomes`: the id that `rename` is to give it. It is reached under the name of that from the
        start, also by who has it open meanwhile. Raises Conflict where that name is taken.
        """
        ...

    async def delete(self, volume_id: str) -> None:
        """Remove a volume and all that was begun of it. Raises Conflict while it is exported."""
        ...

    async def extend(self, volume_id: str, size_gib: int, operation_key: str) -> VolumeFile:
        """Grow a volume to so many GiB, or find that it is that big; it never shrinks.

        Raises ExtendNeedsCompute when QEMU holds it, NotFound, NoCapacity.
        """
        ...

    async def replace(self, volume_id: str, source: SourceImage, operation_key: str) -> VolumeFile:
        """Give a volume an image's content and none of its old bytes, in one go or not at all.

        Its snapshots keep what they have. Raises NotFound, Conflict (exported, also since the copy
        was begun, or a snapshot that has not ended), Invalid (too small), NoCapacity.
        """
        ...

    async def rename(self, volume_id: str, new_id: str) -> None:
        """Give a volume another id; nothing when it has that. Raises Conflict: it has snapshots.

        The pool has no volume of the other id, or what a call before this one began of that. One
        that was made to become it keeps its exports, and whoever has it open goes on.
        """
        ...

    async def copied_percent(self, volume_id: str) -> int | None:
        """Return how far what copies a volume or its content is; None: nothing is copied.

        Raises Unavailable.
        """
        ...

    async def export(
        self, volume_id: str, attachment_id: str, connector: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Let the connector's host reach it; returns connection_info. Raises NotFound, Invalid."""
        ...

    async def unexport(self, volume_id: str, attachment_id: str) -> None:
        """Undo `export`."""
        ...

    async def holders(self, volume_id: str) -> Holders:
        """Return who has a volume's image open to write to. Raises NotFound."""
        ...

    async def fence(self, volume_id: str, attachment_id: str) -> None:
        """Take the image from whoever has it open by one attachment, until `lift_fence`.

        Raises Invalid where the storage cannot, NotFound.
        """
        ...

    async def lift_fence(self, volume_id: str, attachment_id: str) -> None:
        """Undo `fence`; nothing without one."""
        ...

    async def snapshot(self, volume_id: str, snapshot_id: str) -> SnapshotFile | None:
        """Return a snapshot, taken or prepared, or None."""
        ...

    async def prepare_snapshot(
        self, volume_id: str, snapshot_id: str, operation_key: str
    ) -> SnapshotFile:
        """Make an overlay for a hypervisor to switch to. Raises NotFound, Conflict, NoCapacity."""
        ...

    async def take_snapshot(
        self, volume_id: str, snapshot_id: str, operation_key: str
    ) -> SnapshotFile:
        """Let writes go to an overlay: to the prepared one, which a hypervisor uses by now.

        Without one it is made; then nobody may have the volume: raises Conflict when exported.
        """
        ...

    async def copy_snapshot(
        self, volume_id: str, snapshot_id: str, operation_key: str
    ) -> SnapshotFile:
        """Make a snapshot that is a copy of the volume's file, which stays as it is, and whose.

        It is of one moment: by the storage, where that has reflinks, else as nobody writes to the
        file meanwhile. Raises NotFound, NoCapacity; Conflict: somebody has it open, or may, or has
        written to it, and the storage has none; or the volume has overlays. `copied_percent` tells
        how far it is.
        """
        ...

    async def delete_snapshot(
        self, volume_id: str, snapshot_id: str, operation_key: str, *, released: bool = False
    ) -> None:
        """Merge its files, or remove what was prepared. Raises Conflict when exported, or held.

        A copy goes at once, whoever has the volume.

        Also while nobody can tell whether what was prepared is held, unless whoever asks has the
        hypervisor's word that it is not (`released`).
        """
        ...

    async def revert(self, volume_id: str, snapshot_id: str, operation_key: str) -> VolumeFile:
        """Give a volume the content of its newest snapshot, in one go or not at all.

        Raises NotFound, Conflict (exported, or the snapshot is not the newest), NoCapacity.
        """
        ...

    async def record_merge(self, volume_id: str, snapshot_id: str) -> None:
        """Record that a hypervisor has merged its files. Raises Conflict when it has not."""
        ...

    async def snapshot_source(self, volume_id: str, snapshot_id: str) -> SourceImage:
        """Return what a volume with the snapshot's content is made from. Raises NotFound."""
        ...

    async def volume_source(self, volume_id: str) -> SourceImage:
        """Return what a copy of a volume is made from. Raises NotFound, Conflict when exported."""
        ...

    async def capture(
        self,
        volume_id: str,
        target: tuple[Path, DiskFormat],
        operation_key: str,
        snapshot_id: str = "",
    ) -> None:
        """Write a volume's content, or its snapshot's, into a file of a format that stands alone.

        Raises NotFound, Conflict (exported, without a snapshot), NoCapacity. `copied_percent` tells
        how far it is.
        """
        ...

    async def leftovers(self) -> list[str]:
        """Return paths in the pool that belong to no volume."""
        ...


class WithoutFence:
    """The part of a driver whose storage takes an image from nobody who has it open."""

    async def fence(self, volume_id: str, attachment_id: str) -> None:
        raise Invalid(
            f"Volume {volume_id} is a file, which cannot be taken from whoever has it open by "
            f"attachment {attachment_id}. Nothing was changed; stop the guest, or switch its host "
            "off."
        )

    async def lift_fence(self, volume_id: str, attachment_id: str) -> None:
        del volume_id, attachment_id


def check_source(wanted: VolumeFile, source: SourceImage | None) -> None:
    """Raise Invalid unless an image is a file and fits into a volume."""
    if source is None:
        return
    source.file()
    if source.virtual_bytes <= wanted.size_gib * GIB:
        return
    needed = -(-source.virtual_bytes // GIB)
    raise Invalid(
        f"Image {source.image_id} needs a volume of {needed} GiB; {wanted.size_gib} GiB is too "
        "small. Ask for a larger volume."
    )


class _Pooled(Protocol):
    @property
    def pool(self) -> PoolSettings: ...
    @property
    def hosts(self) -> list[str] | None: ...


def check_reach(driver: _Pooled, volume_id: str, connector: Mapping[str, Any]) -> str:
    """Return the connector's host. Raises Invalid unless that may have volumes of the pool."""
    host = connector.get("host")
    if not isinstance(host, str) or not host:
        raise Invalid("The connector names no host. Use the connector of the server's host.")
    if driver.hosts is None or host in driver.hosts:
        return host
    raise Invalid(
        f"Volume {volume_id} is in pool {driver.pool.name}, and host {host} cannot reach it. Use a "
        f"server on {' or '.join(driver.hosts)}."
    )


def check_same(known: VolumeFile, wanted: VolumeFile) -> VolumeFile:
    """Return the volume that is there. Raises Conflict unless it is the one that is wanted."""
    if (known.size_gib, known.format) != (wanted.size_gib, wanted.format):
        raise Conflict(
            f"Volume {known.volume_id} is there already with {known.size_gib} GiB of "
            f"{known.format}; delete it before making another of this id."
        )
    return known


def check_room(pool: Pool, settings: PoolSettings, more_gib: int) -> None:
    """Raise NoCapacity unless the pool may promise so many GiB more."""
    usable = pool.total_gib * (1 - pool.reserved_percent / 100) * settings.oversubscription
    if pool.free_gib > 0 and pool.provisioned_gib + more_gib <= usable:
        return
    raise NoCapacity(
        f"Pool {pool.name} has no room for {more_gib} GiB more: {pool.free_gib:.1f} GiB are "
        f"free beside the {pool.reserved_percent} % that it keeps, {pool.provisioned_gib} of "
        f"{usable:.1f} GiB promised. Delete volumes or add storage."
    )


def check_content(pool: Pool, source: SourceImage | None) -> None:
    """Raise NoCapacity when a copy could not end: better not to begin it."""
    if source is None or source.file()[0].stat().st_blocks * 512 <= pool.free_gib * GIB:
        return
    raise NoCapacity(
        f"Pool {pool.name} has no room for the content of image {source.image_id}: "
        f"{pool.free_gib:.1f} GiB are free. Delete volumes or add storage."
    )


def require(known: VolumeFile | None, volume_id: str) -> VolumeFile:
    """Return a volume. Raises NotFound when there is none."""
    if known is None:
        raise NotFound(f"Volume {volume_id} is not on this host.")
    return known


def refuse_exported(known: VolumeFile) -> None:
    """Raise Conflict while a volume is exported."""
    if known.exports:
        raise Conflict(
            f"Volume {known.volume_id} is exported to attachments {', '.join(known.exports)}; "
            "delete those first."
        )


def show_copy(volume_id: str, copy: Layer) -> SnapshotFile:
    """Return a snapshot that is a copy of its volume's file."""
    return SnapshotFile(
        volume_id=volume_id,
        snapshot_id=copy.snapshot_id,
        state="copied",
        file=copy.file,
        size_bytes=copy.size_bytes,
    )


def not_of_one_moment(volume_id: str, why: str) -> Conflict:
    """Return why no copy is taken of a volume that somebody writes to, or may."""
    return Conflict(
        f"Volume {volume_id} {why}, and its storage has no reflinks, by which a copy would be of "
        "one moment all the same. Nothing was made; shut its servers off, or detach it from them, "
        "and take the snapshot then."
    )


def not_merged(volume_id: str, snapshot_id: str) -> Conflict:
    """Return why no merge is recorded that no hypervisor has made."""
    return Conflict(
        f"The files of snapshot {snapshot_id} are not merged: the guest of volume {volume_id} "
        "still reads them all. Nothing was changed.",
    )


def refuse_switched(volume_id: str, held: Holder, *, released: bool) -> None:
    """Raise Conflict while a guest writes to a prepared overlay, or may for all anybody knows."""
    if held == "overlay":
        raise Conflict(
            f"A guest writes to the overlay of volume {volume_id} already. Nothing was changed; "
            "its hypervisor alone can merge it.",
        )
    if held == "unknown" and not released:
        raise Conflict(
            f"A guest may write to the overlay of volume {volume_id}: the storage does not show "
            "who has its files open. Nothing was changed; detach the volume, then ask again.",
        )
