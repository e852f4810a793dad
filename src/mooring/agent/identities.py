"""What the directory of a pool calls itself: one word, the same to every host that sees it.

By it two pools are told apart before one host removes what another one may have.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path

import structlog

from mooring.agent import files

log = structlog.get_logger()
RECORDS = ".mooring"
"""The directory in a pool's own that has its records, and its identity."""
NAME = "identity"


def prepare(records: Path, host: str) -> None:
    """Remove what this host has left of one that it never finished."""
    for left in files.partials(records / NAME, host):
        left.unlink(missing_ok=True)


def find(records: Path) -> str:
    """Return the word in a directory of records, "" where there is none. Raises OSError."""
    try:
        return (records / NAME).read_text()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def read(records: Path, host: str) -> str:
    """Return the word in a directory of records, giving it one if need be: of all hosts one wins.

    Where nothing can be written it stays unknown, which costs the pool nothing else.
    """
    path = records / NAME
    try:
        if not path.exists():
            _write(path, host)
        return path.read_text()
    except OSError as error:
        log.warning("a pool has no identity", path=str(path), reason=str(error))
        return ""


def _write(path: Path, host: str) -> None:
    word = str(uuid.uuid4())
    written = files.partial(path, word, host)
    try:
        written.write_text(word)
        files.force(written)
        # It has its name whole, or another host's has it.
        with suppress(FileExistsError):
            path.hardlink_to(written)
        files.sync_directory(path.parent)
    finally:
        written.unlink(missing_ok=True)
