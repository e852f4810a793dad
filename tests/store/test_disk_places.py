"""Attachments of block devices that an older release wrote become those of their places."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    DateTime,
    MetaData,
    Table,
    inspect,
    select,
    text,
)
from sqlalchemy.engine import Connection

from mooring.compute.tables import DiskPlace
from mooring.store import migrate
from tests.store.conftest import OpenEmpty

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SERVERS = {"s1": "host1", "s2": None}
DEVICES = [
    ("local", "s1", "local", None, None, "attached"),
    ("attached", "s1", "volume", "v1", "a1", "attached"),
    ("legacy", "s1", "volume", "v2", None, "attached"),
    ("released", "s1", "volume", "v3", "a3", "released"),
    ("wished", "s1", "volume", "v4", None, "reserving"),
    ("building", "s2", "volume", "v5", "a5", "reserving"),
]


def write_old_rows(connection: Connection) -> None:
    """Write servers and block devices as the first revision has them."""
    for server_id, host in SERVERS.items():
        insert(connection, "servers", id=server_id, host=host, vm_state="active")
    for name, server_id, destination, volume_id, attachment_id, state in DEVICES:
        insert(
            connection,
            "block_devices",
            id=name,
            server_id=server_id,
            destination_type=destination,
            volume_id=volume_id,
            attachment_id=attachment_id,
            state=state,
        )


def insert(connection: Connection, name: str, /, **values: Any) -> None:
    """Insert a row; what must not be null and is not given gets something."""
    table = Table(name, MetaData(), autoload_with=connection)
    for column in table.columns:
        is_numbered = column is table.autoincrement_column
        if column.name not in values and not column.nullable and not is_numbered:
            values[column.name] = _something(column)
    connection.execute(table.insert().values(**values))


def _something(column: Column[Any]) -> Any:
    if column.name.endswith("_at"):
        return NOON if isinstance(column.type, DateTime) else NOON.isoformat()[:19]
    wanted = column.type.python_type
    return wanted() if wanted is bool or wanted is int else column.name


@pytest.mark.parametrize(
    "database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]
)
def test_attachments_move_to_the_places_of_their_servers(
    open_empty: OpenEmpty,
) -> None:
    engine = open_empty("compute")
    with engine.begin() as connection:
        migrate.run(connection, "compute", "common_0002")
        migrate.run(connection, "compute", "compute_0001")
        write_old_rows(connection)

    assert migrate.upgrade(engine, "compute")

    with engine.connect() as connection:
        places = DiskPlace.__table__
        rows = [tuple(row) for row in connection.execute(select(places).order_by(places.c[0]))]
        assert [row[:4] for row in rows] == [
            ("attached", "host1", "a1", "attached"),
            ("building", "", "a5", "reserved"),
            ("legacy", "host1", None, "attached"),
            ("released", "host1", "a3", "attached"),
        ]
        assert {row[4] for row in rows} == {NOON}
        kept = connection.execute(text("SELECT id FROM block_devices")).scalars().all()
        assert sorted(kept) == sorted(device[0] for device in DEVICES)
        there = {column["name"] for column in inspect(connection).get_columns("block_devices")}
        assert "attachment_id" not in there
    engine.dispose()
