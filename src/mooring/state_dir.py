"""The state directory: made, checked, and held by one process at a time."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING

from mooring.errors import Conflict, Invalid, Unavailable
from mooring.row_limits import STATE_LOOK_S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.clock import Clock

_MODE = 0o700
_LOCK = "lock"
_UNKNOWN = -1


class StateDir:
    """A directory that holds a cloud, locked until `release` or the end of the process."""

    def __init__(self, path: Path, lock: IO[str]) -> None:
        self.path, self._lock = path, lock

    def release(self) -> None:
        """Let another process have it."""
        self._lock.close()


def hold(path: Path) -> StateDir:
    """Make the directory if it is missing and lock it.

    The lock is the kernel's: it goes with the process, however that ends, so whoever gets it has
    proof that no predecessor lives. Raises Invalid when it cannot be used, Conflict when another
    process has it.
    """
    path = path.expanduser().absolute()
    try:
        path.mkdir(mode=_MODE, parents=True, exist_ok=True)
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        message = (
            f"The state directory {path} cannot be used: {error.strerror}. Give yourself access "
            "to it, or choose another with --state-dir."
        )
        raise Invalid(message) from error
    file = os.fdopen(lock, "r+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = file.read().strip()
        file.close()
        message = (
            f"The state directory {path} is in use by process {owner or 'of another user'}. "
            "Stop that one first, or choose another with --state-dir."
        )
        raise Conflict(message) from error
    file.seek(0)
    file.truncate()
    file.write(f"{os.getpid()}\n")
    file.flush()
    return StateDir(path, file)


def seen(path: Path) -> dict[Path, int]:
    """Return what there is of a state directory: itself and its databases, by their numbers.

    What cannot be looked at, as on a storage that does not answer, has the number `_UNKNOWN`.
    """
    return _numbers((path, *path.glob("*.sqlite"), path / _LOCK))


def _numbers(files: Iterable[Path]) -> dict[Path, int]:
    found: dict[Path, int] = {}
    for one in files:
        try:
            found[one] = one.stat().st_ino
        except FileNotFoundError:
            continue
        except OSError:
            found[one] = _UNKNOWN
    return found


_OF_CLOUD = (
    "while the cloud ran. Nothing more is taken in; restore the state directory from a backup "
    "(docs/backup.md), and start again."
)


async def until_lost(
    path: Path, before: dict[Path, int], clock: Clock, *, then: str = _OF_CLOUD
) -> None:
    """Look after what was `seen` of a directory until some of it is gone; then raise Unavailable.

    `then` is what the error says of it, behind "was removed or replaced".

    What is open stays open: without this a cloud would go on to acknowledge what it writes into
    files that nobody can open any more.
    """
    while True:
        await clock.sleep(STATE_LOOK_S)
        # Each by its name: a directory that cannot be listed just now has lost nothing.
        now = await asyncio.to_thread(_numbers, before)
        lost = sorted(
            str(one)
            for one, number in before.items()
            if now.get(one) not in {number, _UNKNOWN} and number != _UNKNOWN
        )
        if lost:
            raise Unavailable(f"{lost[0]} was removed or replaced {then}")


def is_held(path: Path) -> bool:
    """Tell whether a process works on this directory now."""
    lock = path.expanduser() / _LOCK
    if not lock.exists():
        return False
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
