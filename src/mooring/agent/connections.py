"""Volumes that this host has connected: how each kind is reached, and a record of each.

The record names what doctor and a late disconnect need: volume, path, guest. Connection data never
comes into it, but for the path: `local` is one, `nfs` and `quobyte` are a file on a share that is
mounted for as long as somebody is connected through it (facts/block_storage.md 10.2). A reboot
takes the mount away, and leaves the record and what libvirt was told: so what mounts it is kept.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import structlog
from msgspec import Struct
from msgspec.structs import replace

from mooring.agent import files, simulated_pool
from mooring.agent.brick.requests import MountRequest
from mooring.agent.fitting import Fitting
from mooring.agent.guest_mirrors import check_sizes
from mooring.agent.hypervisor import DiskPlan
from mooring.agent.mounts import Mounts, read_mount_flags
from mooring.agent.qemu_img import FORMATS, InUse
from mooring.agent.sources import FileSource, Source, shown
from mooring.agent.storage_failures import disk_failure_told
from mooring.agent.targets import Targets, backend_of
from mooring.agent_api.disks import (
    STORAGE_AWAY,
    Connected,
    Connection,
    DiskSpec,
    UnreadConnection,
    read_connection,
)
from mooring.errors import Invalid, NotFound, Unavailable, told_also
from mooring.fence.threads import run_to_end

log = structlog.get_logger()
_FILE_NAME = re.compile(r"^[A-Za-z0-9][\w.-]{0,254}$")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
EXPORTS = {
    "nfs": re.compile(r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][\w.-]*):/[^\s\0]*$"),
    "quobyte": re.compile(r"^[A-Za-z0-9][^\s\0]*$"),
}
"""What an export may look like: none can be taken for an option of mount."""


class ConnectionRecord(Struct, frozen=True, kw_only=True):
    """One connected volume, where its bytes are, and the guests that were given it."""

    connected: Connected
    source: Source | None = None
    """None in a record of the release before: then the connection's path and format say it."""
    server_ids: tuple[str, ...] = ()
    server_id: str = ""
    """In a record of the release before: the guest that was last given it."""
    full_bytes: int = 0
    """How big the volume was before it was made smaller to be copied to; 0 for one that was not."""
    backend: str = ""
    """The backend whose volumes share one connection of the host; empty where each has its own."""
    mount: MountRequest | None = None
    """What mounts the share that the file lies on; None for another, and in an older record."""

    @property
    def origin(self) -> Source:
        """Where the volume's bytes are, whichever release wrote the record."""
        return self.source or FileSource(self.connected.path, self.connected.format)

    @property
    def servers(self) -> tuple[str, ...]:
        """The guests that were given it and are not known to be gone."""
        return self.server_ids or ((self.server_id,) if self.server_id else ())


async def _let_in(source: Source) -> None:
    """No emulator is to open it where no guests run."""
    del source


class Connections:
    """The connected volumes of one host, a small file for each attachment."""

    def __init__(
        self,
        directory: Path,
        mounts: Mounts,
        fitting: Fitting,
        *,
        simulated: bool,
    ) -> None:
        self._directory, self._mounts, self.is_simulated = directory, mounts, simulated
        """Whether the host is a simulated one, which may have volumes of simulated pools."""
        self._listed = files.Listed(directory, ConnectionRecord)
        self.fitting = fitting
        self.targets = Targets(directory.with_name("sessions"), self._uses, simulated=simulated)
        self.admit: Callable[[Source], Awaitable[None]] = _let_in
        """Where guests run: `Hypervisor.admit`."""
        mounts.add_users(self._mount_points)

    def prepare(self) -> None:
        """Make the directory, and remove what was never whole."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in self._directory.glob(f"*{files.PARTIAL}"):
            left.unlink(missing_ok=True)

    async def release_unused(self) -> None:
        """Unmount, and log out, where an agent before this one has not come to it."""
        await self._mounts.release_unused(self._mounts.base)
        await self.targets.release_unused()

    async def connect(
        self,
        attachment_id: str,
        volume_id: str,
        connection: Mapping[str, Any],
        *,
        server_id: str = "",
    ) -> Source:
        """See that a volume can be reached from here. Raises Invalid, NotFound, Unavailable."""
        found = read_connection(connection)
        backend = backend_of(found)
        async with self.targets.joined(backend):
            return await self._connect((attachment_id, volume_id), found, server_id, backend)

    async def _connect(
        self, ids: tuple[str, str], found: Connection, server_id: str, backend: str
    ) -> Source:
        """Reach the volume of `ids`, attachment and volume, and note who has it."""
        volume_id = ids[1]
        disk_format = found.data.get("format") or "raw"
        if disk_format not in FORMATS:
            raise Invalid(f"The connection of volume {volume_id} names no usable format.")
        if found.driver_volume_type in EXPORTS:
            request, name = self._read_share(volume_id, found)
            async with self._mounts.held(request) as mounted:
                source = FileSource(str(mounted / name), disk_format)
                with disk_failure_told(volume_id):
                    await run_to_end(lambda: _check_file(volume_id, mounted / name))
                    await self.admit(source)
                self._note(ids, source, server_id, backend, request)
        else:
            with disk_failure_told(volume_id):
                source = FileSource(await self._reach(volume_id, found), disk_format)
                await self.admit(source)
            self._note(ids, source, server_id, backend)
        return source

    async def reach(self, known: ConnectionRecord) -> None:
        """See that the share of a connected volume is mounted, which a reboot undoes.

        By its record it is in use until the volume is disconnected. Raises Unavailable.
        """
        point = self._share_of(known.origin)
        if point is None or point in await self._mounts.mounted():
            return
        if known.mount is None:
            raise Unavailable(
                f"The share of volume {known.connected.volume_id} is not mounted on this host, and "
                "an agent before this one did not note how it is. Start a server of this host that "
                "has a volume on it, or mount it by hand; then ask again.",
                private=str(point),
                **{STORAGE_AWAY: True},
            )
        try:
            async with self._mounts.held(self._dress(known.mount)):
                return
        except Unavailable as error:
            raise told_also(error, **{STORAGE_AWAY: True}) from error

    def _share_of(self, source: Source) -> Path | None:
        """Return where a volume's share is mounted; None where a pool's own directory has it."""
        point = Path(source.path).parent if isinstance(source, FileSource) else None
        return point if point is not None and point.parent == self._mounts.base else None

    async def reach_of(self, server_id: str, volume_id: str) -> None:
        """See that the files of a guest's volume can be read while it is off, too: see `reach`."""
        for one in self._records():
            if one.connected.volume_id == volume_id and server_id in one.servers:
                await self.reach(one)

    async def plan(self, server_id: str, spec: DiskSpec) -> DiskPlan:
        """Connect a disk for a guest, and return what its definition needs."""
        source = await self.connect(
            spec.attachment_id, spec.volume_id, spec.connection, server_id=server_id
        )
        data = read_connection(spec.connection).data
        size_bytes = data.get("size_bytes", 0)
        return DiskPlan(
            volume_id=spec.volume_id,
            attachment_id=spec.attachment_id,
            source=source,
            device=spec.device,
            boot_index=spec.boot_index,
            read_only=spec.read_only or data.get("access_mode") == "ro",
            shareable=spec.shareable,
            size_bytes=size_bytes if isinstance(size_bytes, int) else 0,
            bus=spec.bus,
        )

    def follow(self, attachment_id: str, path: str, disk_format: str) -> None:
        """Note that a guest writes to another file of a connected volume by now."""
        known, source = self.find(attachment_id), FileSource(path, disk_format)
        if known is not None and known.origin != source:
            moved = _show(attachment_id, known.connected.volume_id, source)
            self._keep(replace(known, connected=moved, source=source))

    async def fit(self, attachment_id: str, size_bytes: int, operation_key: str) -> None:
        """See that a connected volume has exactly this size, for as long as it is copied to.

        Raises Conflict, Invalid: it is smaller, or cannot be made so.
        """
        known = self.find(attachment_id)
        if known is None:
            raise NotFound(f"Attachment {attachment_id} is not connected on this host.")
        volume_id = known.connected.volume_id
        has_bytes = await self.fitting.measure(volume_id, known.origin)
        check_sizes(volume_id, has_bytes, size_bytes)
        if has_bytes > size_bytes:
            self._keep(replace(known, full_bytes=max(has_bytes, known.full_bytes)))
            await self.fitting.shrink(volume_id, known.origin, size_bytes, operation_key)

    async def restore(self, known: ConnectionRecord) -> None:
        """Give a volume its own size back, unless it is gone or another emulator has it by now.

        Raises Unavailable when its storage does not let it be seen.
        """
        await self.reach(known)
        try:
            await self.fitting.restore(
                known.connected.volume_id,
                known.origin,
                known.full_bytes,
                is_mounted=self._share_of(known.origin) is not None,
            )
        except InUse as error:
            # Of a guest that went to another host: nothing of it is ours any more.
            log.warning("a volume stays smaller than it was", reason=str(error))
        except NotFound as error:
            log.info("a volume that was made smaller is gone", reason=str(error))

    def find_shrunk(self, server_id: str, volume_id: str) -> ConnectionRecord | None:
        """Return the connection of a volume that was made smaller for a guest, or None."""
        return next(
            (
                one
                for one in self._records()
                if one.full_bytes
                and one.connected.volume_id == volume_id
                and server_id in one.servers
            ),
            None,
        )

    async def disconnect(self, attachment_id: str) -> None:
        """Let go of a volume, and of its share or session when nobody else here is connected so."""
        known = self.find(attachment_id)
        if known is not None and known.full_bytes:
            await self.restore(known)
        async with self.targets.left(known.backend if known else ""):
            self._path(attachment_id).unlink(missing_ok=True)
        if known is not None and (point := self._share_of(known.origin)) is not None:
            await self._mounts.release(point)

    def find(self, attachment_id: str) -> ConnectionRecord | None:
        """Return a connected volume, or None."""
        return files.read_record(self._path(attachment_id), ConnectionRecord)

    def release(self, server_id: str) -> None:
        """Note that a guest is gone; its volumes stay connected."""
        for record in self._records():
            if server_id in record.servers:
                left = tuple(one for one in record.servers if one != server_id)
                self._keep(replace(record, server_ids=left, server_id=""))

    def servers(self, attachment_id: str) -> tuple[str, ...]:
        """Return the guests that a connected volume was given to, and may still have it."""
        known = self.find(attachment_id)
        return known.servers if known else ()

    def of_server(self, server_id: str) -> list[Connected]:
        """Return the connected volumes that a guest was given, or is to have."""
        return [one.connected for one in self._records() if server_id in one.servers]

    def connected(self) -> list[Connected]:
        """Return all connected volumes, but for those that `unread` tells of then."""
        return [record.connected for record in self._listed.look()]

    def unread(self) -> list[UnreadConnection]:
        """Return the attachments whose records the last look could not read, and why."""
        found = self._listed.damaged.items()
        return [UnreadConnection(attachment_id=path.stem, why=why) for path, why in found]

    def _keep(self, record: ConnectionRecord) -> None:
        """Write a record; one that alone says how big its volume was is forced to disk."""
        path = self._path(record.connected.attachment_id)
        files.write_record(path, record, forced=record.full_bytes > 0)

    def _records(self) -> list[ConnectionRecord]:
        return self._listed.read()

    def _path(self, attachment_id: str) -> Path:
        if not _ID.fullmatch(attachment_id):
            raise Invalid(f"{attachment_id[:64]!r} is no id of an attachment.")
        return self._directory / f"{attachment_id}.json"

    def _uses(self, backend: str) -> bool:
        used = any(record.backend == backend for record in self._listed.look())
        # What cannot be read may be of any backend.
        return used or bool(self._listed.damaged)

    def _mount_points(self) -> Iterator[Path]:
        """Return where the connected files lie; of those, the mounts are in use."""
        for record in self._listed.look():
            if isinstance(record.origin, FileSource):
                yield Path(record.origin.path).parent
        if self._listed.damaged:
            # What cannot be read may lie on any of them.
            yield from self._mounts.base.iterdir()

    def _note(
        self,
        ids: tuple[str, str],
        source: Source,
        server_id: str,
        backend: str,
        mount: MountRequest | None = None,
    ) -> None:
        attachment_id, volume_id = ids
        known = self.find(attachment_id)
        servers = known.servers if known else ()
        if server_id and server_id not in servers:
            servers = (*servers, server_id)
        connected = _show(attachment_id, volume_id, source)
        record = ConnectionRecord(
            connected=connected,
            source=source,
            server_ids=servers,
            full_bytes=known.full_bytes if known else 0,
            backend=backend,
            mount=mount,
        )
        if record != known:
            self._keep(record)

    async def _reach(self, volume_id: str, connection: Connection) -> str:
        path = connection.data.get("device_path")
        if not isinstance(path, str):
            raise Invalid(f"The connection of volume {volume_id} names no usable device_path.")
        kind = connection.driver_volume_type
        if kind == "simulated" and self.is_simulated and simulated_pool.is_path(path):
            return path
        if kind != "local":
            raise Invalid(
                f"This host cannot connect volumes of type {kind}; it knows local, "
                f"{', '.join(EXPORTS)}{' and simulated' if self.is_simulated else ''}. Use another "
                "volume type."
            )
        if not Path(path).is_absolute():
            raise Invalid(f"The device_path of volume {volume_id} is not absolute.")
        await run_to_end(lambda: _check_file(volume_id, Path(path)))
        return path

    def _read_share(self, volume_id: str, connection: Connection) -> tuple[MountRequest, str]:
        """Return what to mount and the name of the file in it."""
        kind, data = connection.driver_volume_type, connection.data
        export, name, options = data.get("export"), data.get("name"), data.get("options")
        fits = isinstance(export, str) and EXPORTS[kind].match(export)
        if not fits or not isinstance(name, str) or not _FILE_NAME.match(name):
            raise Invalid(f"The connection of volume {volume_id} names no usable export and file.")
        request = MountRequest(
            kind="quobyte" if kind == "quobyte" else "nfs",
            export=str(export),
            base=str(self._mounts.base),
            flags=read_mount_flags(options) if kind == "nfs" else (),
        )
        return self._dress(request), name

    def _dress(self, request: MountRequest) -> MountRequest:
        """Return a request as the host's settings have it by now."""
        settings = self._mounts.settings
        options = settings.nfs_mount_options if request.kind == "nfs" else ""
        return replace(request, options=options, client_config=settings.quobyte_client_cfg)


def _show(attachment_id: str, volume_id: str, source: Source) -> Connected:
    path, disk_format = shown(source)
    return Connected(
        attachment_id=attachment_id, volume_id=volume_id, path=path, format=disk_format
    )


def _check_file(volume_id: str, path: Path) -> None:
    """Raise NotFound unless a volume's file is there, and itself: a link could lead anywhere."""
    if path.is_symlink() or not path.exists():
        raise NotFound(
            f"The file of volume {volume_id} is missing on this host.", private=str(path)
        )
