"""Small files that are there whole or not at all, and the names of files under way."""

from __future__ import annotations

import errno
import glob
import os
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
import structlog
from msgspec import Struct

from mooring import typed
from mooring.errors import NoCapacity, Unavailable

log = structlog.get_logger()
PARTIAL = ".partial"
S = TypeVar("S", bound=Struct)
_Errors: TypeAlias = type[Exception] | tuple[type[Exception], ...]


class DamagedRecord(Unavailable):
    """A record is there, and what it says cannot be read."""


def partial(path: Path, operation_key: str, host: str = "") -> Path:
    """Return the name under which an operation writes a file until it is whole.

    `host` is whose operation it is, where several hosts write into one directory.
    """
    owner = f"@{host}@" if host else ""
    return path.with_name(f"{path.name}.{owner}{operation_key}{PARTIAL}")


def partials(path: Path, host: str = "") -> Iterator[Path]:
    """Return what operations, of one host if it is named, have left of a file never made whole.

    The last part of `path` may be a pattern.
    """
    owner = f"*@{glob.escape(host)}@*" if host else "*"
    yield from path.parent.glob(f"{path.name}.{owner}{PARTIAL}")


def force(path: Path) -> None:
    """Force what was written to a file to disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def finish(written: Path, path: Path) -> None:
    """Force a written file to disk and give it its name."""
    force(written)
    written.replace(path)
    sync_directory(path.parent)


def take(coming: Path) -> None:
    """Give a file under `<name>.<suffix>` its name, unless it has it. Raises Unavailable: gone."""
    path = coming.with_suffix("")
    if coming.exists():
        finish(coming, path)
    elif not path.exists():
        raise Unavailable(f"The file {path.name} is gone. Discard what has come, and begin anew.")


def make_private(path: Path, content: bytes, operation_key: str, *, size_bytes: int = 0) -> None:
    """Make a guest's own file in one go, whatever stood in its place, for its owner alone.

    Behind the content is a hole, up to `size_bytes`, if those are more. What a call before this one
    left of another is removed. Raises NoCapacity.
    """
    path.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    for left in partials(path):
        left.unlink()
    written = partial(path, operation_key)
    try:
        with full_disk_told(path):
            descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.truncate(max(size_bytes, len(content)))
            finish(written, path)
    finally:
        written.unlink(missing_ok=True)


def remove_private(path: Path) -> None:
    """Remove a guest's own file, with what was never finished of one; nothing where none is.

    Raises Unavailable.
    """
    with removal_told(path.parent):
        for left in (path, *partials(path)):
            left.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    """Force the names in a directory to disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_record(path: Path, record: Struct, *, forced: bool = False, host: str = "") -> None:
    """Write a record, replacing the one before in one go; `forced` to disk, too.

    One that is not may be lost with the power, and the one before with it.
    """
    with full_disk_told(path):
        written = partial(path, "", host) if host else path.with_name(path.name + PARTIAL)
        written.write_bytes(msgspec.json.encode(record))
        if forced:
            finish(written, path)
        else:
            written.replace(path)


def read_record(path: Path, kind: type[S], *, forced: bool = False) -> S | None:
    """Return the record of a file, None when there is none. Raises DamagedRecord.

    File systems leave an empty file of one that was not `forced` to disk before the power went.
    """
    try:
        content = path.read_bytes()
        return typed.decode(content, kind) if content or forced else None
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise DamagedRecord(
            f"The record {path} is damaged, so what it was of cannot be used. See to the disk, and "
            "restore the file from a backup, or move it away to have it forgotten.",
            private=str(error),
        ) from error


def records_in(directory: Path) -> list[Path]:
    """Return the records of a directory, in the order of their names; none where it is missing.

    Raises OSError: unlike `glob`, to which what it may not list is empty.
    """
    try:
        return sorted(path for path in directory.iterdir() if path.name.endswith(".json"))
    except FileNotFoundError:
        return []


class Listed(Generic[S]):
    """The records of one directory; a damaged one hides no other, and is told of once.

    `damaged` are those of the last look, and why: who cannot read them does not know what they are
    of.
    """

    def __init__(self, directory: Path, kind: type[S], *, forced: bool = False) -> None:
        self._directory, self._kind, self._forced = directory, kind, forced
        self.damaged: Mapping[Path, str] = {}

    def read(self) -> list[S]:
        """Return all that are not damaged, in the order of their names. Blocking.

        Raises OSError for one that the disk does not give: it may be the one that is asked for.
        """
        return self._read(DamagedRecord)

    def look(self) -> list[S]:
        """Return the same, for who only looks: what the disk does not give is damaged, too."""
        return self._read((DamagedRecord, OSError))

    def _read(self, passed: _Errors) -> list[S]:
        found, damaged = list[S](), dict[Path, str]()
        for path in records_in(self._directory):
            try:
                record = read_record(path, self._kind, forced=self._forced)
            except passed as error:
                damaged[path] = _why(path, error)
                if path not in self.damaged:
                    log.warning("a record cannot be read", path=str(path), reason=str(error))
                continue
            found += [record] if record is not None else []
        self.damaged = damaged
        return found


def _why(path: Path, error: Exception) -> str:
    if isinstance(error, DamagedRecord):
        return error.public
    said = error.strerror if isinstance(error, OSError) else str(error)
    return f"The record {path} cannot be read: {said}. See to the disk; it is read again then."


def remove_tree(path: Path) -> None:
    """Remove a directory with all that is in it, if it is there. Raises Unavailable: some stays."""
    with removal_told(path):
        shutil.rmtree(path, onerror=_unless_gone)


def _unless_gone(_call: Callable[..., Any], _path: str, caught: Any) -> None:
    """Let a removal go on where somebody else was first."""
    error: BaseException = caught[1]
    if not isinstance(error, FileNotFoundError):
        raise error


@contextmanager
def removal_told(path: Path) -> Generator[None]:
    """Turn the failure to remove what is in a directory into Unavailable: ask again.

    What is left there would be found by who makes the same anew.
    """
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"Not all of {path} could be removed; what is left there stays. See to the disk, and "
            "ask again.",
            private=str(error),
        ) from error


@contextmanager
def full_disk_told(path: Path) -> Generator[None]:
    """Turn a full disk into NoCapacity."""
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise NoCapacity(
            f"The disk under {path.parent} is full; nothing was kept. Make room and ask again.",
            private=str(error),
        ) from error
