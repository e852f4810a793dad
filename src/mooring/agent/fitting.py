"""New volumes made as large as the ones whose place they take, for as long as they are copied to.

QEMU copies a disk only to one of the same size. A larger volume is made smaller first, which loses
nothing: all of it is overwritten. It gets its own size back when it is disconnected, or by the
growth that the guest is told of once it has the volume.
"""

from __future__ import annotations

import os
from pathlib import Path

from mooring.agent import overlays, simulated_pool
from mooring.agent.overlays import Layer
from mooring.agent.qemu_img import QemuImg, read_own_bytes
from mooring.agent.sources import FileSource, Source, file_of
from mooring.agent.storage_failures import disk_failure_told
from mooring.errors import Conflict, NotFound
from mooring.fence.threads import run_to_end

_WHAT = "a swap"


class Fitting:
    """Reads and changes the sizes of volumes that no guest has. Raises Unavailable: storage fails.

    `volume_id` is for what is told of it.
    """

    def __init__(self, qemu_img: QemuImg) -> None:
        self._qemu_img = qemu_img

    async def measure(self, volume_id: str, source: Source) -> int:
        """Return how big a volume is. Raises Conflict for one of several files, Invalid.

        QEMU would write to the topmost alone, and read what it left out from those below.
        """
        file = file_of(source, _WHAT)
        if simulated_pool.is_path(file.path):
            _require_alone(file, simulated_pool.count_layers(file.path))
            return simulated_pool.read_virtual_bytes(file.path)
        with disk_failure_told(volume_id):
            return await run_to_end(lambda: _measure(file))

    async def shrink(
        self, volume_id: str, source: Source, size_bytes: int, operation_key: str
    ) -> None:
        """Make a volume smaller, and lose what is behind. Raises Conflict for a block device."""
        file = file_of(source, _WHAT)
        if file.path.startswith("/dev/"):
            raise Conflict(
                "A block device takes the place of one of the same size only. Nothing was copied; "
                f"use a volume of {size_bytes} bytes."
            )
        if simulated_pool.is_path(file.path):
            simulated_pool.grow(file.path, size_bytes)
        elif file.format == "raw":
            with disk_failure_told(volume_id):
                await run_to_end(lambda: os.truncate(file.path, size_bytes))
        else:
            path = Path(file.path)
            await self._qemu_img.resize(
                path, file.format, size_bytes, shrink=True, operation_key=operation_key
            )

    async def restore(
        self, volume_id: str, source: Source, size_bytes: int, *, is_mounted: bool = False
    ) -> None:
        """Give a volume its size back, unless it is as large or larger.

        Raises NotFound for one that is gone from storage that is there, as a share is that is known
        to be mounted.
        """
        file = file_of(source, _WHAT)
        if simulated_pool.is_path(file.path):
            if simulated_pool.read_virtual_bytes(file.path) < size_bytes:
                simulated_pool.grow(file.path, size_bytes)
            return
        path = Path(file.path)
        with disk_failure_told(volume_id):
            has_bytes = await run_to_end(
                lambda: _read_unless_gone(volume_id, path, file.format, is_mounted=is_mounted)
            )
        if has_bytes < size_bytes:
            await self._qemu_img.resize(path, file.format, size_bytes)


def _measure(file: FileSource) -> int:
    _require_alone(file, len(overlays.read_layers(Layer(Path(file.path), file.format))))
    return read_own_bytes(Path(file.path), file.format)


def _read_unless_gone(volume_id: str, path: Path, disk_format: str, *, is_mounted: bool) -> int:
    try:
        return read_own_bytes(path, disk_format)
    except FileNotFoundError as error:
        # Without its directory nothing is known of it: its storage may come back. No pool's is
        # empty, as records are kept in it: then its disk is not mounted there.
        if not path.parent.is_dir() or not (is_mounted or any(path.parent.iterdir())):
            raise
        raise NotFound(
            f"The file of volume {volume_id} is missing on this host.", private=str(path)
        ) from error


def _require_alone(file: FileSource, layers: int) -> None:
    if layers > 1:
        raise Conflict(
            f"{file} stands on {layers - 1} other files, as a volume with snapshots does. "
            "Nothing was copied; use a volume without."
        )
