"""Sums of sizes, as columns of a query."""

from __future__ import annotations

from sqlalchemy import BigInteger, ColumnElement, cast, func

from mooring.volume.tables import BackupRow, ReservationRow, SnapshotRow, VolumeRow


def total_gib(table: type[VolumeRow | SnapshotRow | BackupRow] | None = None) -> ColumnElement[int]:
    """Return the sum of sizes, of volumes unless `table` says otherwise, as a column.

    PostgreSQL would make a decimal of it.
    """
    column = (table or VolumeRow).size_gib
    return cast(func.coalesce(func.sum(column), 0), BigInteger)


def reserved_gib() -> ColumnElement[int]:
    """Return the sum of reserved gigabytes as a column, as `total_gib` does."""
    return cast(func.coalesce(func.sum(ReservationRow.delta_gib), 0), BigInteger)
