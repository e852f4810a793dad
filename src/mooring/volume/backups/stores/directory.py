"""Backups in a directory, which may be on another machine: a folder each, a file a piece.

`<id>/<digest>` is a piece, `<id>/manifest.json` the manifest. A folder that is being removed has
another name first, under which nobody writes, and its manifest does not count.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from mooring.errors import Conflict, MooringError, NoCapacity, Unavailable
from mooring.fence.threads import run_to_end
from mooring.secret_file import put, sync_names
from mooring.volume.backups.stores.base import Manifest, read_manifest

T = TypeVar("T")
_MANIFEST = "manifest.json"
_LEAVING = ".leaving"
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))


class DirectoryStore:
    """A `BackupStore`. With `makes` the directory is made where it is missing, but its parent.

    Pieces leave `reserve_bytes` of the disk to others: manifests, and whatever else is on it.
    """

    def __init__(self, directory: Path, *, makes: bool = False, reserve_bytes: int = 0) -> None:
        self._directory, self._makes, self._reserve_bytes = directory, makes, reserve_bytes

    async def setup(self) -> None:
        if self._makes:
            await self._run(lambda: self._directory.mkdir(mode=0o700, exist_ok=True), any_way=True)

    async def begin(self, backup_id: str) -> None:
        def begin() -> None:
            self._folder(backup_id).mkdir(mode=0o700, exist_ok=True)
            sync_names(self._directory)

        await self._run(begin)

    async def put_piece(self, backup_id: str, sha256: str, data: bytes) -> None:
        path = self._folder(backup_id) / sha256

        def put_piece() -> None:
            if not path.exists() or path.stat().st_size != len(data):
                self._leave(len(data))
                put(path, data)

        await self._run(put_piece, writes=True)

    async def put_manifest(self, manifest: Manifest) -> None:
        folder = self._folder(manifest.backup_id)

        def put_manifest() -> None:
            put(folder / _MANIFEST, msgspec.json.encode(manifest))
            for path in folder.iterdir():
                if path.name not in {*manifest.stored, _MANIFEST}:
                    path.unlink(missing_ok=True)

        await self._run(put_manifest, writes=True)

    async def find_manifest(self, backup_id: str) -> Manifest | None:
        path = self._folder(backup_id) / _MANIFEST
        return await self._run(lambda: read_manifest(backup_id, _read(path)))

    async def find_piece(self, backup_id: str, sha256: str) -> bytes | None:
        return await self._run(lambda: _read(self._folder(backup_id) / sha256))

    async def find_pieces(self, backup_id: str) -> frozenset[str]:
        def find() -> frozenset[str]:
            # One that is put just now is beside them under another name.
            found = self._folder(backup_id).glob("*")
            return frozenset(path.name for path in found if not path.suffix)

        return await self._run(find)

    async def delete(self, backup_id: str) -> None:
        folder = self._folder(backup_id)
        leaving = folder.with_name(f"{backup_id}{_LEAVING}")

        def delete() -> None:
            _remove(leaving)
            # Somebody else may remove it at the same time: what is gone is as it should be.
            with suppress(FileNotFoundError):
                folder.rename(leaving)
            sync_names(self._directory)
            _remove(leaving)
            sync_names(self._directory)

        await self._run(delete)

    async def backups(self) -> Mapping[str, bool]:
        def find() -> dict[str, bool]:
            folders = [path for path in sorted(self._directory.iterdir()) if path.is_dir()]
            # One that leaves may stand beside one of the same name that has come since.
            folders.sort(key=lambda path: path.suffix != _LEAVING)
            return {path.name.removesuffix(_LEAVING): _is_whole(path) for path in folders}

        return await self._run(find)

    def _leave(self, size: int) -> None:
        """Raise OSError, as a full disk does, where a piece would take from the reserve."""
        if shutil.disk_usage(self._directory).free < self._reserve_bytes + size:
            raise OSError(errno.ENOSPC, "what is left is reserved")

    def _folder(self, backup_id: str) -> Path:
        return self._directory / backup_id

    async def _run(self, act: Callable[[], T], *, any_way: bool = False, writes: bool = False) -> T:
        """Do something to the directory in a thread, and say what went wrong in our own words.

        `writes` to a backup, whose folder is gone when it is deleted meanwhile.
        """

        def attempt() -> T:
            try:
                if not any_way and not self._directory.is_dir():
                    # Nothing is in a directory that was not mounted, and nothing is gone from it.
                    raise self._unavailable("it is not there")
                return act()
            except OSError as error:
                raise self._translate(error, writes=writes) from error

        return await run_to_end(attempt)

    def _translate(self, error: OSError, *, writes: bool) -> MooringError:
        if error.errno in _FULL:
            return NoCapacity(
                f"The directory {self._directory} for backups is full; nothing of the backup was "
                "kept. Delete other backups, or have room made.",
                private=str(error),
            )
        if writes and isinstance(error, FileNotFoundError):
            return Conflict(
                "The backup was deleted while it was being written. Nothing of it is kept.",
                private=str(error),
            )
        return self._unavailable(error.strerror or "it failed")

    def _unavailable(self, why: str) -> Unavailable:
        return Unavailable(
            f"The directory {self._directory} for backups cannot be used: {why}. See to it that "
            "the control plane reaches it, and may write there."
        )


def _remove(folder: Path) -> None:
    """Remove a folder and all in it, also beside others that do so. Raises OSError."""
    while folder.exists():
        # Of something in it, as a rule, that another one was faster to remove.
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)


def _is_whole(folder: Path) -> bool:
    return folder.suffix != _LEAVING and (folder / _MANIFEST).exists()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
