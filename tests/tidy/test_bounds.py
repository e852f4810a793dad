"""Each table has its bound, in every service and on every host."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from mooring.fence import file
from mooring.fence.file import JournalFile
from mooring.fleet.growth import BOUNDS as FLEET_BOUNDS
from mooring.service import COMMON_BOUNDS
from mooring.services import FLEET, SERVICES
from mooring.store.growth import Bound
from mooring.store.migrate import COMMON
from mooring.store.revise import load_metadata

BOUNDS: dict[str, tuple[Bound[Any], ...]] = {
    COMMON: COMMON_BOUNDS,
    **{each.name: each.bounds for each in SERVICES},
    FLEET: FLEET_BOUNDS,
}
"""By the chain of the tables' revisions."""


@pytest.mark.parametrize("chain", BOUNDS)
def test_every_table_has_its_bound(chain: str) -> None:
    tables = [name for metadata in load_metadata(chain) for name in metadata.tables]
    assert sorted(bound.table for bound in BOUNDS[chain]) == sorted(tables)


def test_every_table_of_an_agents_journal_has_its_bound(tmp_path: Path) -> None:
    JournalFile(tmp_path / "journal.sqlite").close()
    with sqlite3.connect(tmp_path / "journal.sqlite") as opened:
        names = opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    opened.close()
    assert sorted(file.BOUNDS) == sorted(name for (name,) in names)
