"""A number that somebody outside its table remembers is never that of another row."""

from __future__ import annotations

from typing import cast

import pytest
from sqlalchemy import Table, func, inspect, select

from mooring.compute.tables import Aggregate, AggregateHost, InstanceAction, InstanceActionEvent
from mooring.services import databases_of
from mooring.store import migrate, revise
from tests.store.conftest import OpenEmpty
from tests.store.test_disk_places import insert

NEVER_AGAIN = {
    *("aggregates", "hosts", "keypairs", "migrations"),
    "instance_actions",  # notes of sagas name them
    "fence_debts",  # whoever pays one names it in another transaction
}
FOR_ORDER = {
    *("server_groups", "block_devices", "share_mappings"),
    *("instance_action_events", "faults", "saga_signals", "saga_history"),
    "notify_outbox",  # told apart by the messages' ids
}
"""Nobody remembers these: they say which row came first; the greatest plus one will do."""


def test_every_numbered_table_is_known_to_be_remembered_or_not() -> None:
    chains = (migrate.COMMON, *databases_of(has_fleet=True))
    found = [tables for chain in chains for tables in revise.load_metadata(chain)]
    numbered = [
        table
        for metadata in found
        for table in metadata.tables.values()
        if table.autoincrement_column is not None
    ]
    kept = {table.name for table in numbered if table.dialect_options["sqlite"]["autoincrement"]}
    assert kept == NEVER_AGAIN
    assert {table.name for table in numbered} == NEVER_AGAIN | FOR_ORDER


@pytest.mark.parametrize(
    "database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]
)
def test_rows_of_before_keep_their_numbers_and_what_points_at_them(
    open_empty: OpenEmpty, database: str
) -> None:
    engine = open_empty("compute")
    with engine.begin() as connection:
        for chain, last in (("common", "common_0006"), ("compute", "compute_0020")):
            for revision in migrate.revisions(chain):
                if revision <= last:
                    migrate.run(connection, "compute", revision)
        insert(connection, "aggregates", id=7, uuid="u7", name="a7", metadata="{}")
        insert(connection, "aggregate_hosts", aggregate_id=7, host="h1")
        insert(connection, "instance_actions", id=9, server_id="s1", request_id="r1")
        insert(connection, "instance_action_events", id=1, action_id=9, event="e")
        insert(connection, "fence_debts", id=3, host="h1", verb="DELETE", resource="/x")

    assert migrate.upgrade(engine, "compute")

    with engine.connect() as connection:
        assert connection.execute(select(Aggregate.id)).scalars().all() == [7]
        assert connection.execute(select(AggregateHost.aggregate_id)).scalars().all() == [7]
        assert connection.execute(select(InstanceActionEvent.action_id)).scalars().all() == [9]
        indexes = inspect(connection).get_indexes("instance_actions")
        assert [index["name"] for index in indexes] == ["instance_actions_of_server"]
    with engine.begin() as connection:
        actions = cast("Table", InstanceAction.__table__)
        if database == "postgresql":  # the row above was numbered by hand
            connection.execute(select(func.setval("instance_actions_id_seq", 9)))
        connection.execute(actions.delete())
        insert(connection, "instance_actions", server_id="s1", request_id="r2")
        assert connection.execute(select(InstanceAction.id)).scalars().all() == [10]
    engine.dispose()
