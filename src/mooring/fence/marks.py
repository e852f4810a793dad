"""The marks of the fence in SQL, once for both stores: rows of a service, and an agent's file.

The statements are such that SQLite and PostgreSQL both understand them. Where a mark lies, how an
answer is written and what time looks like is a matter of the store (`table`, `file`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from mooring.fence.rules import Answer, Verb

RETURNED: dict[str, tuple[str, ...]] = {
    "raise_epoch": ("mark",),
    "raise_generation": ("mark",),
    "find_tombstone": ("key",),
    "bury": ("key",),
    "keep": ("key",),
}
"""The columns that each statement returns; `find_answer` returns those of an answer."""

_HIGHER = "CASE WHEN known.mark > excluded.mark THEN known.mark ELSE excluded.mark END"
_TEXTS = {
    "raise_epoch": "INSERT INTO {epochs} AS known (saga, mark, at) VALUES (:saga, :mark, :at) "
    "ON CONFLICT (saga) DO UPDATE SET mark = {higher}, at = excluded.at RETURNING mark",
    "raise_generation": "INSERT INTO {generations} AS known (resource, mark, at) "
    "VALUES (:resource, :mark, :at) "
    "ON CONFLICT (resource) DO UPDATE SET mark = {higher}, at = excluded.at RETURNING mark",
    "find_tombstone": "SELECT key FROM {tombstones} "
    "WHERE key = :key AND resource IN (:resource, '')",
    "bury": "INSERT INTO {tombstones} (key, resource, at) VALUES (:key, :resource, :at) "
    "ON CONFLICT (key, resource) DO UPDATE SET at = excluded.at RETURNING key",
    "find_answer": "SELECT {kept} FROM {answers} "
    "WHERE key = :key AND resource = :resource AND verb = :verb",
    "keep": "INSERT INTO {answers} (key, resource, verb, at, {kept}) "
    "VALUES (:key, :resource, :verb, :at, {given}) "
    "ON CONFLICT (key, resource, verb) DO UPDATE SET at = excluded.at, {changes} RETURNING key",
}


def statements(tables: Mapping[str, str], kept: Sequence[str]) -> dict[str, str]:
    """Return the statements for tables of these names; an answer is kept in columns of its own.

    `tables` names `epochs`, `generations`, `tombstones` and `answers`. Parameters are `:named`.
    """
    parts = {
        "higher": _HIGHER,
        "kept": ", ".join(kept),
        "given": ", ".join(f":{name}" for name in kept),
        "changes": ", ".join(f"{name} = excluded.{name}" for name in kept),
    }
    return {name: text.format_map({**tables, **parts}) for name, text in _TEXTS.items()}


class Marks(ABC):
    """The marks of one store, in one transaction. Implements `rules.Records`."""

    def raise_epoch(self, saga: str, epoch: int) -> int:
        return self._ask("raise_epoch", {"saga": saga, "mark": epoch, "at": self._time()})[0][0]

    def raise_generation(self, resource: str, generation: int) -> int:
        given = {"resource": resource, "mark": generation, "at": self._time()}
        return self._ask("raise_generation", given)[0][0]

    def is_buried(self, key: str, resource: str) -> bool:
        return bool(self._ask("find_tombstone", {"key": key, "resource": resource}))

    def bury(self, key: str, resource: str) -> None:
        self._ask("bury", {"key": key, "resource": resource, "at": self._time()})

    def answer(self, key: str, resource: str, verb: Verb) -> Answer | None:
        found = self._ask("find_answer", {"key": key, "resource": resource, "verb": verb})
        return self._unpack(*found[0]) if found else None

    def keep(self, key: str, resource: str, verb: Verb, answer: Answer) -> None:
        own = {"key": key, "resource": resource, "verb": verb, "at": self._time()}
        self._ask("keep", {**own, **self._pack(answer)})

    @abstractmethod
    def _ask(self, statement: str, given: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Run one of the statements, by its name, and return its rows."""

    @abstractmethod
    def _time(self) -> Any:
        """Return the present as the store writes it."""

    @abstractmethod
    def _pack(self, answer: Answer) -> dict[str, Any]:
        """Return an answer as the columns that it is kept in."""

    @abstractmethod
    def _unpack(self, *columns: Any) -> Answer | None:
        """Return the answer that stands in these columns."""
