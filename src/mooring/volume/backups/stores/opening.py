"""Which store the settings name, and what the doctor sees of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mooring.errors import MooringError
from mooring.volume.backups.stores.directory import DirectoryStore
from mooring.volume.backups.stores.s3 import S3Store
from mooring.volume.backups.stores.s3_access import read_access

if TYPE_CHECKING:
    from mooring.config import Settings
    from mooring.volume.backups.stores.base import BackupStore


def open_store(settings: Settings) -> BackupStore:
    """Return the store of a cloud. Raises Invalid for settings that cannot be."""
    if settings.backup_s3:
        return S3Store(read_access(settings.backup_s3))
    if settings.backup_directory:
        return DirectoryStore(Path(settings.backup_directory).expanduser().absolute())
    # Beside the databases, which need room of their own.
    reserve = settings.image_reserve_mib << 20
    return DirectoryStore(settings.state_path / "backups", makes=True, reserve_bytes=reserve)


async def find_stored(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return what is stored, by backup: whether it is `whole`; by "" why it cannot be looked at."""
    store = open_store(settings)
    try:
        await store.setup()
        found = await store.backups()
    except MooringError as error:
        return {"": {"problem": error.public}}
    return {backup_id: {"whole": is_whole} for backup_id, is_whole in found.items()}
