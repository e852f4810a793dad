"""Snapshots of the release before get what their volumes have of an image, if those are theirs."""

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
def test_a_snapshot_of_before_has_what_its_own_volume_has(
    open_empty: OpenEmpty,
) -> None:
    engine = open_empty("volume")
    with engine.begin() as connection:
        for revision in migrate.revisions("volume"):
            if revision == "volume_0016":
                break
            migrate.run(connection, "volume", revision)
        before = Table("snapshots", MetaData(), autoload_with=connection)
        assert "bootable" not in before.columns
        insert(connection, "volume_types", id="t1", extra_specs="{}")
        for name, bootable in (("v1", True), ("v2", False)):
            more = {"metadata": "{}", "image_metadata": '{"image_id": "i1"}', "project_id": "p1"}
            own = {"id": name, "bootable": bootable, "size_gib": 1, "volume_type_id": "t1"}
            insert(connection, "volumes", **more, **own)
        for name, volume_id, project_id in (
            ("s1", "v1", "p1"),
            ("s2", "v2", "p1"),
            ("s3", "v1", "its former project"),
        ):
            own = {"id": name, "volume_id": volume_id, "project_id": project_id, "metadata": "{}"}
            insert(connection, "snapshots", size_gib=1, **own)

    assert migrate.upgrade(engine, "volume")

    with engine.connect() as connection:
        columns = (SnapshotRow.id, SnapshotRow.bootable, SnapshotRow.image_metadata)
        rows = connection.execute(select(*columns).order_by(SnapshotRow.id))
        assert [tuple(row) for row in rows] == [
            ("s1", True, {"image_id": "i1"}),
            ("s2", False, {"image_id": "i1"}),
            ("s3", True, {}),
        ]
    engine.dispose()
