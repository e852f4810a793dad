"""Backups of the release before have their data under their own ids."""

from __future__ import annotations

import pytest
from sqlalchemy import MetaData, Table, select
from sqlalchemy.orm import Session

from mooring.store import migrate
from mooring.volume.backups import backup_rows
from mooring.volume.tables import BackupRow
from tests.store.conftest import OpenEmpty
from tests.store.test_disk_places import insert


@pytest.mark.parametrize(
    "database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]
)
def test_a_backup_of_before_lies_under_its_own_id(open_empty: OpenEmpty) -> None:
    engine = open_empty("volume")
    with engine.begin() as connection:
        for revision in migrate.revisions("volume"):
            if revision == "volume_0017":
                break
            migrate.run(connection, "volume", revision)
        before = Table("backups", MetaData(), autoload_with=connection)
        assert "stored_as" not in before.columns
        insert(connection, "backups", id="b1", size_gib=1, metadata="{}", image_metadata="{}")

    assert migrate.upgrade(engine, "volume")

    with Session(engine) as tx:
        assert tx.execute(select(BackupRow.stored_as)).scalars().all() == [None]
        assert backup_rows.find_place(tx, "b1") == "b1"
        assert [*backup_rows.of_place(tx, "b1")] == ["b1"]
    engine.dispose()
