"""Backups of the release before are full ones, and nothing builds on them yet."""

from __future__ import annotations

import pytest
from sqlalchemy import MetaData, Table, select

from mooring.store import migrate
from mooring.volume.tables import BackupRow
from tests.store.conftest import OpenEmpty
from tests.store.test_disk_places import insert


@pytest.mark.parametrize(
    "database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]
)
def test_a_backup_of_before_is_a_full_one(
    open_empty: OpenEmpty,
) -> None:
    engine = open_empty("volume")
    with engine.begin() as connection:
        for revision in migrate.revisions("volume"):
            if revision == "volume_0012":
                break
            migrate.run(connection, "volume", revision)
        known = Table("backups", MetaData(), autoload_with=connection)
        assert "parent_id" not in known.columns
        insert(
            connection, "backups", id="b1", status="available", metadata="{}", image_metadata="{}"
        )

    assert migrate.upgrade(engine, "volume")

    with engine.connect() as connection:
        rows = connection.execute(select(BackupRow.id, BackupRow.status, BackupRow.parent_id))
        assert [tuple(row) for row in rows] == [("b1", "available", None)]
    engine.dispose()
