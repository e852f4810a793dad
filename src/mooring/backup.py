"""`mooring backup`: a copy of a cloud's state at one moment, while it runs.

The copy is a state directory: a cloud starts with it. Every SQLite file is seen as at the same
moment, in which none of them was written to: it is in their snapshots that the copies are made,
while the cloud goes on. docs/backup.md says what stands beside it, and how a cloud is restored.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mooring import limits
from mooring.access import CLOUDS, PASSWORDS
from mooring.errors import Invalid, Unavailable
from mooring.http_bounds import allow_connections
from mooring.identity.keys import TOKEN_KEYS
from mooring.installation import SEAL_KEY, no_cloud
from mooring.metrics.app import FILE as METRICS_TOKEN

if TYPE_CHECKING:
    from mooring.config import Settings

_FILES = (SEAL_KEY, PASSWORDS, TOKEN_KEYS, METRICS_TOKEN, CLOUDS)
_IMAGES = "images"
_HOSTS = ("*", "connections/*", "share-users/*")
_PARTIAL = ".partial"
_PIECE_BYTES = 1 << 20


async def run_backup(settings: Settings, target: Path, say: Callable[[str], None]) -> None:
    """Copy the state of a cloud, running or not, into a new directory. It is whole or not there.

    Raises Invalid for a directory that is there, or without a cloud; Unavailable when it cannot be
    read or written, or a database is not free for as long as a write waits.
    """
    allow_connections()
    copied = await asyncio.to_thread(copy_state, settings.state_path, target)
    say(f"{copied} databases and files of {settings.state_path} are in {target}")
    if settings.database:
        say("The databases are PostgreSQL's: copy them with pg_dump, before this (docs/backup.md).")


def copy_state(state: Path, target: Path) -> int:
    """Do it, blocking; return how many files were copied."""
    partial = target.with_name(target.name + _PARTIAL)
    if target.exists():
        raise Invalid(f"{target} is there already. Name a directory that is not.")
    if not (state / SEAL_KEY).exists():
        raise no_cloud(state)
    try:
        shutil.rmtree(partial, ignore_errors=True)
        named_in = [*_missing(target.parent), target.parent]
        partial.mkdir(mode=0o700, parents=True)
        copied = _copy(state, partial)
        for path in [*sorted(partial.rglob("*"), reverse=True), partial]:
            _sync(path)
        # From here on a failure removes it under its own name.
        partial = partial.rename(target)
        for folder in named_in:
            _sync(folder)
    except sqlite3.Error as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise Unavailable(f"A database in {state} cannot be copied: {error}.") from error
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise Unavailable(
            f"Nothing was copied to {target}: {error.filename or target}: {error.strerror}. The "
            "cloud is as it was; see to that, or name another directory, and ask again."
        ) from error
    return copied


def _missing(folder: Path) -> list[Path]:
    """Return the directories in which those will be named that are to be made for this one."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    return [path.parent for path in made]


def _sync(path: Path) -> None:
    """Force a file, or the names in a directory, to disk. Raises OSError, also for lost writes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy(state: Path, target: Path) -> int:
    databases = _databases(state)
    with ExitStack() as stack:
        snapshots, images, files = _hold(state, databases, stack)
        for path, snapshot in zip(databases, snapshots, strict=True):
            to = _place(path, state, target)
            to.touch(mode=0o600)
            with closing(sqlite3.connect(to)) as copy:
                snapshot.backup(copy)
            # As long as it is open the cloud's file of what was committed since grows.
            snapshot.close()
        for path, descriptor in images:
            with _place(path, state, target).open("wb") as to:
                to.truncate(os.fstat(descriptor).st_size)
                _copy_data(descriptor, to.fileno())
    return len(databases) + len(images) + sum(_copy_file(path, state, target) for path in files)


def _copy_file(path: Path, state: Path, target: Path) -> int:
    """Copy what is not a database; 0 for a host's record that went meanwhile, as it may."""
    try:
        shutil.copy2(path, _place(path, state, target))
    except FileNotFoundError:
        if path.parent == state:
            raise
        return 0
    return 1


def _databases(state: Path) -> list[Path]:
    """Return every database: those of services, and of hosts that have their directories here."""
    return sorted([*state.glob("*.sqlite"), *state.glob("hosts/*/*.sqlite")])


def _files(state: Path) -> list[Path]:
    """Return what else is copied: secrets, and what hosts know beside guests and volumes."""
    named = [state / name for name in _FILES]
    hosts = [path for pattern in _HOSTS for path in state.glob(f"hosts/*/{pattern}")]
    return [
        path
        for path in [*named, *hosts]
        if path.is_file() and ".sqlite" not in path.name and path.suffix != _PARTIAL
    ]


def _hold(
    state: Path, databases: list[Path], stack: ExitStack
) -> tuple[list[sqlite3.Connection], list[tuple[Path, int]], list[Path]]:
    """Return snapshots of all databases at one moment, its images, opened, and its other files.

    Nobody writes while the snapshots are taken: as long as it takes to open them.
    """
    with ExitStack() as writing:
        for path in databases:
            lock = writing.enter_context(closing(_connect(path)))
            lock.execute("BEGIN IMMEDIATE").close()
        snapshots = [stack.enter_context(closing(_connect(path))) for path in databases]
        for snapshot in snapshots:
            snapshot.execute("BEGIN").close()
            snapshot.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        images: list[tuple[Path, int]] = []
        for path in sorted((state / _IMAGES).glob("*")):
            # One that goes just now was given up before: the databases know nothing of it.
            with suppress(FileNotFoundError):
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                stack.callback(os.close, descriptor)
                images.append((path, descriptor))
        files = _files(state)
    return snapshots, images, files


def _connect(path: Path) -> sqlite3.Connection:
    # Never made: a database that went meanwhile is an error, not an empty one.
    return sqlite3.connect(
        f"file:{path}?mode=rw",
        uri=True,
        isolation_level=None,
        timeout=limits.STORE_BUSY_TIMEOUT_S,
    )


def _place(path: Path, state: Path, target: Path) -> Path:
    """Return where a file's copy goes, in a directory as closed as its own."""
    to = target / path.relative_to(state)
    for folder in reversed(to.relative_to(target).parents[:-1]):
        (target / folder).mkdir(exist_ok=True)
        (target / folder).chmod((state / folder).stat().st_mode & 0o777)
    return to


def _copy_data(source: int, to: int) -> None:
    """Copy what a file has, without its holes."""
    at = 0
    while True:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError:
            return  # behind the last of the data
        end = os.lseek(source, at, os.SEEK_HOLE)
        while at < end:
            piece = os.pread(source, min(_PIECE_BYTES, end - at), at)
            if not piece:
                return
            at += os.pwrite(to, piece, at)
