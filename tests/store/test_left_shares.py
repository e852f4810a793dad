"""A host that was being kept out of a share before an upgrade is so after it; others may leave."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from mooring.compute.shares.share_places import LEAVING, REVOKING
from mooring.compute.tables import SharePlace
from mooring.store import migrate
from tests.store.conftest import OpenEmpty
from tests.store.test_disk_places import insert


@pytest.mark.parametrize(
    "database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]
)
def test_hosts_that_are_kept_out_are_so_after_an_upgrade(
    open_empty: OpenEmpty,
) -> None:
    engine = open_empty("compute")
    with engine.begin() as connection:
        for revision in migrate.revisions("compute"):
            if revision == "compute_0020":
                break
            migrate.run(connection, "compute", revision)
        insert(connection, "servers", id="s1")
        insert(
            connection,
            "share_mappings",
            id="m1",
            server_id="s1",
            status="active",
            protocol="NFS",
        )
        insert(connection, "share_places", mapping_id="m1", host="h1", state=REVOKING)

    assert migrate.upgrade(engine, "compute")

    with engine.begin() as connection:
        insert(connection, "share_places", mapping_id="m1", host="h2", state=LEAVING)
        columns = (SharePlace.host, SharePlace.state)
        rows = connection.execute(select(*columns).order_by(SharePlace.host))
        assert [tuple(row) for row in rows] == [("h1", REVOKING), ("h2", LEAVING)]
    engine.dispose()
