"""Snapshots of the release before stay as they are: nobody is to remove them by himself."""

from __future__ import annotations

import pytest
from sqlalchemy import MetaData, Table, select

from mooring.store import migrate
from mooring.volume.tables import SnapshotRow
from tests.store.conftest import OpenEmpty
from tests.store.test_disk_places import insert


@pytest.mark.parametrize(
    "database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]
)
def test_a_snapshot_of_before_stays(
    open_empty: OpenEmpty,
) -> None:
    engine = open_empty("volume")
    with engine.begin() as connection:
        for revision in migrate.revisions("volume"):
            if revision == "volume_0014":
                break
            migrate.run(connection, "volume", revision)
        before = Table("snapshots", MetaData(), autoload_with=connection)
        assert "leaves_since" not in before.columns
        known = {"metadata": "{}", "image_metadata": "{}", "extra_specs": "{}"}
        for table, values in (
            ("volume_types", {"id": "t1"}),
            ("volumes", {"id": "v1", "size_gib": 1, "volume_type_id": "t1", "status": "available"}),
            ("snapshots", {"id": "s1", "size_gib": 1, "volume_id": "v1", "status": "available"}),
        ):
            columns = Table(table, MetaData(), autoload_with=connection).columns
            more = {name: value for name, value in known.items() if name in columns}
            insert(connection, table, **more, **values)

    assert migrate.upgrade(engine, "volume")

    with engine.connect() as connection:
        columns = (SnapshotRow.id, SnapshotRow.status, SnapshotRow.leaves_since)
        rows = connection.execute(select(*columns))
        assert [tuple(row) for row in rows] == [("s1", "available", None)]
    engine.dispose()
