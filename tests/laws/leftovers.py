"""What a cloud of the laws has on disk: rows of its databases and journals, files, pages."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sqlalchemy import Table, func, select, text
from sqlalchemy.orm import DeclarativeBase, Session

from mooring.fence import file
from mooring.image.tables import FormerImageRow
from mooring.notify.tables import OutboxRow
from mooring.service import COMMON_BOUNDS
from mooring.services import SERVICES
from mooring.store.growth import table_of
from tests.laws.sites import Site

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32,}")
_KEPT: tuple[type[DeclarativeBase], ...] = (OutboxRow, FormerImageRow)
JOURNAL = "journal.sqlite"
_COUNT = "SELECT count(*) FROM {table}"
_OPEN = ("-wal", "-shm")
"""How files end that are there while a database is open."""


async def count_rows(site: Site) -> dict[str, int]:
    """Return how many rows each table of each service has, and each of each host's journal.

    But for what is kept: in the laws nobody takes notifications away, so that they can be read, and
    of the ids of deleted images thousands stay taken.
    """
    found: dict[str, int] = {}
    for each in SERVICES:
        bounds = (*each.bounds, *COMMON_BOUNDS)
        tables = [table_of(bound.row) for bound in bounds if bound.row not in _KEPT]
        numbers = await site.cloud.cloud.stores[each.name].read(partial(_rows, tables))
        found |= {f"{each.name}.{one.name}": n for one, n in zip(tables, numbers, strict=True)}
    for host, settings in site.cloud.hosts.items():
        marks = _count_marks(settings.state_dir / JOURNAL)
        found |= {f"{host}.{name}": rows for name, rows in marks.items()}
    return found


def count_files(site: Site) -> dict[str, int]:
    """Return how many files of each kind there are: by their paths, with "*" for each id."""
    state, found = site.cloud.settings.state_path, Counter[str]()
    for path in state.rglob("*"):
        named = path.relative_to(state)
        if path.is_file() and not named.name.endswith(_OPEN):
            found[_ID.sub("*", str(named))] += 1
    return found


async def measure_pages(site: Site) -> dict[str, int]:
    """Return how many pages each service's database has, where it is a file."""
    found: dict[str, int] = {}
    for each in SERVICES:
        store = site.cloud.cloud.stores[each.name]
        pages = await store.read(lambda tx: tx.scalar(text("PRAGMA page_count")))
        found[each.name] = int(pages or 0)
    return found


def _rows(tables: Sequence[Table], tx: Session) -> list[int]:
    return [tx.scalar(select(func.count()).select_from(one)) or 0 for one in tables]


def _count_marks(journal: Path) -> dict[str, int]:
    connection = sqlite3.connect(journal)
    try:
        return {
            table: connection.execute(_COUNT.format(table=table)).fetchone()[0]
            for table in file.BOUNDS
        }
    finally:
        connection.close()
