"""Write the next revision of a service's tables by comparing them with its revisions so far.

    python -m mooring.store.revise volume -m "remember the reimage"
    ruff format src/mooring/store/migrations

Until the first release a service's first revision may be made anew instead of adding one:

    python -m mooring.store.revise volume --remake

The chain `common` (the tables of sagas, fence and outbox, in every database) is revised the same
way. Read what was written: Alembic does not see renames, nor changed CHECK constraints.
"""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast

import click
from alembic.autogenerate import produce_migrations, render_python_code
from alembic.autogenerate.api import AutogenContext
from alembic.operations.ops import CreateIndexOp, ModifyTableOps, UpgradeOps
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, MetaData

from mooring.store import migrate, sqlite
from mooring.store.types import INTEGER, Json, UtcTime

_COMMON_MODULES = (
    "mooring.saga.tables",
    "mooring.fence.table",
    "mooring.fence.debts",
    "mooring.notify.tables",
)
_FILE = '''"""{message}."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "{revision}"
down_revision = {before}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    {body}
'''


def load_metadata(chain: str) -> list[MetaData]:
    """Return the metadata of a chain's tables. Raises ImportError for an unknown one."""
    modules = _COMMON_MODULES if chain == migrate.COMMON else (f"mooring.{chain}.tables",)
    found: list[MetaData] = []
    for name in modules:
        metadata: MetaData = importlib.import_module(name).Base.metadata
        if metadata not in found:
            found.append(metadata)
    return found


def render_type(kind: str, item: object, context: AutogenContext) -> str | Literal[False]:
    """Name our own column types in a revision."""
    if kind == "type" and isinstance(item, (UtcTime, Json)):
        return f"types.{type(item).__name__}()"
    if kind == "type" and repr(item) == repr(INTEGER):
        return "types.INTEGER"
    return False


def belongs(chain: str) -> Callable[..., bool]:
    """Return the filter that hides the common tables from a service's chain."""
    common = migrate.COMMON
    metadata = load_metadata(common) if chain != common else []
    hidden = {table for tables in metadata for table in tables.tables}

    def include(name: str | None, kind: str, _parents: Any) -> bool:
        return not (kind == "table" and name in hidden)

    return include


def render(engine: Engine, chain: str) -> str:
    """Return the body of a revision that makes the chain's tables of what `engine` reaches."""
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_type": True,
                "render_as_batch": True,
                "render_item": render_type,
                "include_name": belongs(chain),
                "target_metadata": load_metadata(chain),
                "sqlalchemy_module_prefix": "sa.",
                "alembic_module_prefix": "op.",
                "user_module_prefix": None,
            },
        )
        # Alembic takes several, though it names the type of one only.
        metadata = cast("MetaData", load_metadata(chain))
        steps = produce_migrations(context, metadata).upgrade_ops
        if steps is None or steps.is_empty():
            return ""
        return render_python_code(
            steps,
            render_as_batch=_alters(steps),
            render_item=render_type,
            migration_context=context,
        )


def _alters(steps: UpgradeOps) -> bool:
    """Return whether an existing table is altered, which SQLite does by copying it."""
    tables = [table for table in steps.ops if isinstance(table, ModifyTableOps)]
    return any(not isinstance(step, CreateIndexOp) for table in tables for step in table.ops)


def write_revision(chain: str, message: str, *, remake: bool) -> Path | None:
    """Write the chain's next revision, or its first one anew; None when there is nothing to say."""
    load_metadata(chain)  # raises for an unknown chain before anything is forgotten
    folder = migrate.MIGRATIONS / chain
    if remake:
        for path in folder.glob("[0-9]*.py"):
            path.unlink()
    done = migrate.revisions(chain)
    with tempfile.TemporaryDirectory() as scratch:
        engines = sqlite.create_engines(Path(scratch) / f"{chain}.sqlite")
        migrate.upgrade(engines[0], chain)
        body = render(engines[0], chain)
        for engine in engines:
            engine.dispose()
    if not body:
        return None
    # Not how many there are: a number may be missing in between.
    last = int(done[-1].rpartition("_")[2]) if done else 0
    number = f"{last + 1:04}"
    slug = re.sub(r"\W+", "_", message.lower()).strip("_")
    path = folder / f"{number}_{slug}.py"
    folder.mkdir(exist_ok=True)
    package = folder / "__init__.py"
    if not package.exists() or not package.read_text():
        package.write_text(f'"""The revisions of the tables of `{chain}`."""\n')
    before = f'"{done[-1]}"' if done else "None"
    text = _FILE.format(
        message=message.capitalize(), revision=f"{chain}_{number}", before=before, body=body
    )
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("# ###"))
    path.write_text(text.rstrip() + "\n")
    return path


@click.command()
@click.argument("chain")
@click.option("-m", "--message", default="initial", help="What changes, in a few words.")
@click.option("--remake", is_flag=True, help="Forget the revisions so far and make the first anew.")
def main(chain: str, message: str, *, remake: bool) -> None:
    """Write the next revision of CHAIN: a service, or `common`."""
    path = write_revision(chain, message, remake=remake)
    click.echo(f"wrote {path}" if path else f"the tables of {chain} equal their revisions")


if __name__ == "__main__":
    sys.exit(main())
