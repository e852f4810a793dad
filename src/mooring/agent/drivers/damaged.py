"""Volumes that cannot be read: what is told of them, and what may be removed. All blocking.

Their record is damaged, or the storage does not give a file of theirs. Their files are told by
their names alone: what stands in them, a guest may have written.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from mooring.agent import files
from mooring.agent.drivers.records import PREFIX, Records
from mooring.agent.image_locks import is_written
from mooring.agent.qemu_img import GIB
from mooring.agent_api.volumes import VolumeFile
from mooring.errors import Conflict

log = structlog.get_logger()
_DELETED = "It can be deleted as it is, but not while a guest may have it."


def look(
    records: Records,
    volume_id: str,
    pool: str,
    see: Callable[[str], tuple[VolumeFile, str] | None],
) -> tuple[VolumeFile, str] | None:
    """See a volume for a list; one that cannot be read says why, and "" names its file.

    Raises OSError when its whole storage fails.
    """
    try:
        return see(volume_id)
    except files.DamagedRecord as error:
        problem = f"{error.public} {_DELETED}"
    except OSError as error:
        # That is no matter of one volume, and every one of them would wait for it anew.
        os.statvfs(records.directory)
        log.debug("a volume cannot be read", volume=volume_id, pool=pool, reason=str(error))
        # What fails in the reading of a file has no name.
        where = error.filename or f"{records.data_path(volume_id)}, or its record"
        problem = f"{where}, cannot be read: {error.strerror}. See to the storage."
    return show(records, volume_id, pool, problem), ""


def show(records: Records, volume_id: str, pool: str, problem: str) -> VolumeFile:
    """Return a volume for a list: as big as the largest of its files, in whole GiB."""
    sizes = [_bytes_of(path) for path in own_files(records, volume_id)]
    return VolumeFile(
        volume_id=volume_id,
        pool=pool,
        size_gib=-(-max(sizes, default=0) // GIB),
        format="",
        problem=problem,
    )


def all_of(records: Records, volume_id: str, known: Callable[[str], list[Path]]) -> list[Path]:
    """Return all files of a volume of a list: the `known` ones, or those that have its name."""
    try:
        return known(volume_id)
    except (files.DamagedRecord, OSError):
        return [*own_files(records, volume_id), records.path(volume_id)]


def own_files(records: Records, volume_id: str) -> list[Path]:
    """Return the whole files that have a volume's name, and that no other volume's record names."""
    name = records.data_path(volume_id).name
    found = [records.data_path(volume_id)]
    found += sorted(records.directory.glob(f"{glob.escape(name)}.*"))
    whole = [path for path in found if _is_file(path) and not path.name.endswith(files.PARTIAL)]
    others = _named(records, volume_id) if whole else set[str]()
    return [path for path in whole if path.name not in others]


def unclaimed(records: Records, strays: Iterable[Path]) -> list[Path]:
    """Return those of some strays that cannot be a damaged volume's under another's name.

    A copy has the name of the volume that it becomes, and its record alone says so.
    """
    damaged = [one for one in records.ids() if records.readable(one) is None]
    may_be_one = any(not own_files(records, volume_id) for volume_id in damaged)
    return [path for path in strays if not (may_be_one and _is_data(records, path))]


def remove(records: Records, volume_id: str, host: str, *, shows_locks: bool) -> None:
    """Remove a volume's files and then its record. Raises Conflict: a guest may have it open.

    What it was exported to is not known, so that the locks on its files alone tell, and where these
    are not seen nobody can. A file that has another volume's name is left.
    """
    for other in records.ids():
        # Of one that the storage does not give just now nobody knows which files it names.
        records.whole(other)
    path, own = records.path(volume_id), own_files(records, volume_id)
    told = [is_written(file) for file in own]
    if True in told:
        raise Conflict(
            f"A guest has volume {volume_id} open, whose record {path} is damaged. Nothing was "
            "removed; stop the guest, or restore the record from a backup, and ask again."
        )
    if own and (None in told or not shows_locks):
        raise Conflict(
            f"The record {path} of volume {volume_id} is damaged, and its storage does not show "
            "whether a guest has it open. Nothing was removed; restore the record from a backup, "
            "or, when no guest has the volume, move the record away, and ask again."
        )
    log.warning("a volume with a damaged record is deleted", volume=volume_id, record=str(path))
    for left in files.partials(records.data_path(volume_id), host):
        left.unlink(missing_ok=True)
    for file in own:
        file.unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _named(records: Records, but: str) -> set[str]:
    """Return the names of the files of all volumes but one."""
    names = set[str]()
    for volume_id in records.ids():
        if volume_id == but:
            continue
        names.add(records.data_path(volume_id).name)
        if (record := records.readable(volume_id)) is not None:
            names |= {*record.spare, *(record.chain.files if record.chain else ())}
    return names


def _is_file(path: Path) -> bool:
    """Whether a file is there; one that cannot be looked at is."""
    try:
        return path.is_file()
    except OSError:
        return True


def _bytes_of(path: Path) -> int:
    """Return how big a file is, 0 when it cannot be looked at."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _is_data(records: Records, path: Path) -> bool:
    is_begun = path.name.endswith(files.PARTIAL)
    return path.parent == records.directory and path.name.startswith(PREFIX) and not is_begun
