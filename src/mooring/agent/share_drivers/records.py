"""What a pool remembers of a share: the rules of it, and what its storage cannot tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import structlog
from msgspec import Struct
from msgspec.structs import replace

from mooring.agent import files
from mooring.agent_api.shares import AccessLevel, AccessType, GrantedRule
from mooring.errors import Unavailable

log = structlog.get_logger()
_PREFIX = "share-"


class KeptRule(Struct, frozen=True):
    """A rule; `project_id` of a cephx id."""

    type: AccessType
    to: str
    level: AccessLevel
    project_id: str = ""


class Record(Struct, frozen=True):
    """One share. `number` is its export's, where the storage counts them."""

    size_gb: int
    rules: dict[str, KeptRule] = {}
    number: int = 0
    snapshots: dict[str, int] = {}
    """How big the share was when each was taken, in GiB; one may be noted and not be there."""

    def shown(self) -> list[GrantedRule]:
        """Return its rules, by id."""
        return [
            GrantedRule(rule_id=rule_id, type=kept.type, to=kept.to, level=kept.level)
            for rule_id, kept in sorted(self.rules.items())
        ]


class Records:
    """The records of a pool, each a small file of a directory. All of it blocks."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def prepare(self) -> None:
        """Make the directory, and remove what was never whole."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in files.partials(self._directory / f"{_PREFIX}*"):
            left.unlink(missing_ok=True)

    def find(self, share_id: str) -> Record | None:
        """Return the record of a share, or None. Raises Unavailable: it is damaged."""
        return files.read_record(self._path(share_id), Record, forced=True)

    def has(self, share_id: str) -> bool:
        """Return whether a share is recorded, be that damaged or not."""
        return self._path(share_id).exists()

    def whole(self, share_id: str) -> Record | None:
        """Return the record of a share, None when there is none or it is damaged."""
        try:
            return self.find(share_id)
        except Unavailable as error:
            log.debug("a share's record is damaged", share=share_id, reason=str(error))
            return None

    def keep(self, share_id: str, record: Record) -> None:
        """Write a record to disk, whole or not at all. Raises NoCapacity."""
        files.write_record(self._path(share_id), record, forced=True)

    def change(self, share_id: str, change: Callable[[Record], Record]) -> Record | None:
        """Change the record of a share, if there is one, and return it."""
        if (record := self.find(share_id)) is None:
            return None
        if (changed := change(record)) != record:
            self.keep(share_id, changed)
        return changed

    def keep_rule(self, share_id: str, rule_id: str, rule: KeptRule | None) -> Record | None:
        """Write a rule of a share down, or with None strike it."""

        def change(record: Record) -> Record:
            left = {key: kept for key, kept in record.rules.items() if key != rule_id}
            return replace(record, rules=left if rule is None else {**left, rule_id: rule})

        return self.change(share_id, change)

    def forget(self, share_id: str) -> None:
        """Strike a share."""
        self._path(share_id).unlink(missing_ok=True)
        files.sync_directory(self._directory)

    def ids(self) -> list[str]:
        """Return the ids of all shares that are recorded, sorted."""
        found = self._directory.glob(f"{_PREFIX}*.json")
        return sorted(path.stem.removeprefix(_PREFIX) for path in found)

    def _path(self, share_id: str) -> Path:
        return self._directory / f"{_PREFIX}{share_id}.json"
