"""Which storage a pool's directory is, as its host has kept it beside its own state.

A directory whose file system is not mounted, or another one, looks like an empty pool: deletions
would leave the data, and new volumes would come to the wrong disk.
"""

from __future__ import annotations

from pathlib import Path

from mooring.agent import files
from mooring.agent.drivers import identities
from mooring.errors import Unavailable


class KnownStorage:
    """The identity that a pool had when this host first used it, in `file`. Blocking."""

    def __init__(self, pool: str, file: Path) -> None:
        self._pool, self._file = pool, file
        self._word = ""
        """Empty: it is not known yet."""

    def recall(self) -> None:
        """Read anew what this host knows of the pool: an operator may have removed that."""
        try:
            self._word = self._file.read_text("utf-8")
        except FileNotFoundError:
            self._word = ""

    def require(self, records: Path) -> None:
        """Raise Unavailable where a directory of records is not the known storage's. Makes nothing.

        Nothing is wrong while none is known.
        """
        found = identities.find(records)
        if self._word in ("", found):
            return
        raise Unavailable(
            f"Pool {self._pool} is not the storage that it was: its directory has "
            f"{'another identity' if found else 'no identity'}. Nothing was read or changed. Mount "
            "its file system there again, and it goes on by itself; where it was replaced on "
            f"purpose, remove {self._file.name} from the state directory of the host's agent, and "
            "start that again.",
            private=f"{records} has {found or 'none'}, and {self._file} says {self._word}",
        )

    def keep(self, word: str) -> None:
        """Remember the identity of a pool that had none known; "" is none."""
        if self._word or not word:
            return
        written = self._file.with_name(self._file.name + files.PARTIAL)
        written.write_text(word, "utf-8")
        files.finish(written, self._file)
        self._word = word
