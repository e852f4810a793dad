"""Revisions make exactly the tables that the code describes, from any revision on."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, Engine, MetaData, inspect, text

from mooring.errors import Conflict, Unavailable
from mooring.services import databases_of
from mooring.store import migrate, postgresql, revise, sqlite
from mooring.store.base import open_store

pytestmark = pytest.mark.anyio
FIRST = """
import sqlalchemy as sa
from alembic import op

revision = "harbour_0001"
down_revision = None


def upgrade():
    op.create_table("piers", sa.Column("name", sa.String(), primary_key=True))
    op.create_table(
        "boats",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("pier", sa.String(), sa.ForeignKey("piers.name")),
    )
    op.execute("INSERT INTO piers VALUES ('north')")
    op.execute("INSERT INTO boats VALUES ('ark', 'north')")
"""
SECOND = """
import sqlalchemy as sa
from alembic import op

revision = "harbour_0002"
down_revision = "harbour_0001"


def upgrade():
    with op.batch_alter_table("piers", recreate="auto") as piers:
        piers.add_column(sa.Column("berths", sa.Integer(), nullable=False, server_default="1"))
        piers.alter_column("name", type_=sa.String(64))
"""
FAILING = SECOND + '    op.execute("DROP TABLE nowhere")\n'


@pytest.fixture
def engine(location: str, service: str) -> Generator[Engine]:
    """Return an engine on an empty database."""
    if location.startswith("postgresql"):
        made = postgresql.create_schema_engine(location, service)
        with made.begin() as connection:
            connection.execute(text(f"CREATE SCHEMA {service}"))
        yield made
        made.dispose()
    else:
        writer, reader = sqlite.create_engines(Path(location) / "scratch.sqlite")
        yield writer
        writer.dispose()
        reader.dispose()


@pytest.fixture
def harbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a service that has one revision, in a tree of its own."""
    tree = tmp_path / "migrations"
    (tree / "harbour").mkdir(parents=True)
    (tree / "env.py").write_text((migrate.MIGRATIONS / "env.py").read_text())
    (tree / "harbour" / "0001_initial.py").write_text(FIRST)
    monkeypatch.setattr(migrate, "MIGRATIONS", tree)
    return tree / "harbour"


def describe(connection: Connection) -> dict[str, dict[str, Any]]:
    """Return everything a database says of its tables."""
    inspector = inspect(connection)
    tables: dict[str, dict[str, Any]] = {}
    for name in inspector.get_table_names():
        columns = {
            column["name"]: (str(column["type"]), column["nullable"], column["default"])
            for column in inspector.get_columns(name)
        }
        tables[name] = {
            "columns": columns,
            "primary key": inspector.get_pk_constraint(name),
            "foreign keys": _sorted(inspector.get_foreign_keys(name)),
            "unique": _sorted(inspector.get_unique_constraints(name)),
            "checks": _sorted(inspector.get_check_constraints(name)),
            "indexes": _sorted([_plain(index) for index in inspector.get_indexes(name)]),
            "numbers": _numbers_come_again(connection, name),
        }
    tables.pop("alembic_version", None)
    return tables


def _numbers_come_again(connection: Connection, table: str) -> bool:
    """Whether the number of a deleted row may be a new one's. No inspector tells of it."""
    if connection.dialect.name != "sqlite":
        return False
    query = text("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :name")
    return "AUTOINCREMENT" not in str(connection.execute(query, {"name": table}).scalar())


def _plain(index: Any) -> dict[str, Any]:
    """Return an index whose condition is text: two clauses that say the same are not equal."""
    options = {name: str(option) for name, option in index.get("dialect_options", {}).items()}
    return {**index, "dialect_options": options}


def _sorted(things: list[Any]) -> list[Any]:
    return sorted(things, key=lambda thing: str(thing["name"]))


# No index on an expression is read back from SQLite: whether one is used its own test says.
@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
@pytest.mark.filterwarnings("ignore:autogenerate skipping metadata-specified expression-based")
@pytest.mark.parametrize("chain", ["common", *databases_of(has_fleet=True)])
def test_revisions_make_what_the_code_describes(engine: Engine, chain: str) -> None:
    chains = dict.fromkeys((migrate.COMMON, chain))
    metadata = [found for name in chains for found in revise.load_metadata(name)]
    with engine.connect() as connection:
        with connection.begin() as described:
            for tables in metadata:
                tables.create_all(connection)
            wanted = describe(connection)
            described.rollback()
        with connection.begin():
            for name in chains:
                for revision in migrate.revisions(name):
                    migrate.run(connection, chain, revision)
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            # Alembic takes several, though it names the type of one only.
            assert compare_metadata(context, cast("MetaData", metadata)) == []
            assert describe(connection) == wanted


async def test_a_start_with_nothing_to_do_does_not_import_alembic(tmp_path: Path) -> None:
    await (await open_store(str(tmp_path), "test")).close()
    code = (
        "import asyncio, sys\n"
        "from mooring.store.base import open_store\n"
        "async def start(): await (await open_store(sys.argv[1], 'test')).close()\n"
        "asyncio.run(start())\n"
        "assert not {'alembic', 'psycopg'} & set(sys.modules)\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(tmp_path), stderr=subprocess.PIPE
    )
    assert (await process.communicate())[1] == b""
    assert process.returncode == 0


async def test_several_processes_may_migrate_at_once(location: str, service: str) -> None:
    stores = await asyncio.gather(*(open_store(location, service) for _ in range(4)))
    for store in stores:
        assert await store.read(lambda tx: tx.scalar(text("SELECT count(*) FROM saga_sagas"))) == 0
        await store.close()


async def test_a_database_of_a_newer_release_is_refused(location: str, service: str) -> None:
    store = await open_store(location, service)
    await store.write(
        lambda tx: tx.execute(text("UPDATE alembic_version SET version_num = 'common_9999'"))
    )
    await store.close()
    with pytest.raises(Conflict, match="newer release"):
        await open_store(location, service)


@pytest.mark.usefixtures("harbour")
def test_upgrading_twice_does_nothing(engine: Engine) -> None:
    assert migrate.upgrade(engine, "harbour")
    assert not migrate.upgrade(engine, "harbour")


def test_a_table_that_others_point_at_can_be_altered(engine: Engine, harbour: Path) -> None:
    migrate.upgrade(engine, "harbour")
    (harbour / "0002_berths.py").write_text(SECOND)
    assert migrate.upgrade(engine, "harbour")
    with engine.connect() as connection:
        rows = connection.execute(
            text("SELECT berths FROM piers JOIN boats ON boats.pier = piers.name")
        ).all()
    assert rows == [(1,)]


def test_a_revision_that_fails_leaves_the_database_as_it_was(engine: Engine, harbour: Path) -> None:
    migrate.upgrade(engine, "harbour")
    (harbour / "0002_berths.py").write_text(FAILING)
    with engine.connect() as connection:
        before = describe(connection)
    with pytest.raises(Exception, match="nowhere"):
        migrate.upgrade(engine, "harbour")
    with engine.connect() as connection:
        assert describe(connection) == before
        assert migrate.state(connection, "harbour").has == {"harbour_0001"}


async def test_an_unreachable_server_is_unavailable_and_its_operator_told(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as found:
        await open_store(f"postgresql://me:secret@/mooring?host={tmp_path}", "test")
    told = found.value.public
    assert "the setting database (--database) names does not answer: " in told
    assert str(tmp_path) in told, "where it was looked for"
    assert told.endswith(
        "Nothing was changed in it. See that it runs and lets this machine in, then give this "
        "command again."
    )
    assert "secret" not in told
    assert "tell the operator" not in told


async def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two seconds are the least that PostgreSQL's client waits.
    monkeypatch.setattr("mooring.limits.STORE_CONNECT_S", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/mooring"
        with pytest.raises(Unavailable, match=r"does not answer: .*timeout"):
            await asyncio.wait_for(open_store(where, "test"), 60)


async def test_a_file_that_cannot_be_changed_is_told_to_the_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.limits.STORE_BUSY_TIMEOUT_S", 0.01)
    file = tmp_path / "test.sqlite"
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(Unavailable, match=r"database is locked.* no other process has it") as found:
        await open_store(str(tmp_path), "test")
    assert found.value.public.startswith(f"The database file {file} cannot be used: ")
    assert "tell the operator" not in found.value.public
    other.close()


def test_a_revision_is_written_from_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "migrations"
    tree.mkdir()
    (tree / "env.py").write_text((migrate.MIGRATIONS / "env.py").read_text())
    monkeypatch.setattr(migrate, "MIGRATIONS", tree)
    path = revise.write_revision("common", "first tables", remake=False)
    assert path == tree / "common" / "0001_first_tables.py"
    assert revise.write_revision("common", "again", remake=False) is None
    assert revise.write_revision("common", "anew", remake=True) == tree / "common" / "0001_anew.py"
    assert [file.name for file in (tree / "common").glob("0*")] == ["0001_anew.py"]


def test_a_revision_is_numbered_after_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "migrations"
    (tree / "common").mkdir(parents=True)
    (tree / "common" / "__init__.py").write_text('"""The revisions."""\n')
    (tree / "env.py").write_text((migrate.MIGRATIONS / "env.py").read_text())
    first = 'revision = "common_0006"\ndown_revision = None\n\n\ndef upgrade(): pass\n'
    (tree / "common" / "0006_first.py").write_text(first)
    monkeypatch.setattr(migrate, "MIGRATIONS", tree)
    path = revise.write_revision("common", "more tables", remake=False)
    assert path == tree / "common" / "0007_more_tables.py"
