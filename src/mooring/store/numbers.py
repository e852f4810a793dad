"""Numbers of rows that somebody outside their table remembers.

SQLite numbers a new row after the greatest number there is, so it gives the number of the newest
row once more when that row was deleted; PostgreSQL's sequences never go back. A table whose numbers
users see, or which other rows name without a foreign key, has `NEVER_AGAIN` in `__table_args__`.
"""

from __future__ import annotations

from typing import Any

NEVER_AGAIN: dict[str, Any] = {"sqlite_autoincrement": True}
"""Has SQLite remember the greatest number that a table ever had; elsewhere it says nothing."""


def number_anew(*tables: str) -> None:
    """Have the numbers of tables that a former revision made never come again.

    SQLite cannot alter that: the tables are made anew, with their rows, indexes and keys. For a
    revision only: Alembic is at work.
    """
    from alembic import op

    if op.get_bind().dialect.name != "sqlite":
        return
    for table in tables:
        with op.batch_alter_table(table, recreate="always", table_kwargs=NEVER_AGAIN):
            pass
