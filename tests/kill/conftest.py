"""What every kill test may use."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psycopg
import pytest

from tests.kill.harness import KilledCloud, copy_template, put_away, running
from tests.kill.workload import prepare
from tests.postgres import Server, create_database, drop_database


@pytest.fixture(scope="session")
def template(memory_path: Path) -> Generator[Path]:
    """A stopped cloud with a prepared project."""
    with _made(memory_path / "kill") as directory:
        with running(directory) as cloud:
            project = prepare(cloud)
            assert cloud.findings() == []
        (directory / "project.json").write_bytes(msgspec.json.encode(project))
        yield put_away(directory)


@pytest.fixture(scope="session")
def shared_template(postgres_server: Server, memory_path: Path) -> Generator[tuple[Path, str]]:
    """The same on PostgreSQL: the directory, and the name of the database to copy."""
    name = "kill_template"
    with psycopg.connect(postgres_server.url("postgres"), autocommit=True) as connection:
        create_database(connection, name)
    with _made(memory_path / "kill-postgresql") as directory:
        with running(directory, postgres_server.url(name)) as cloud:
            project = prepare(cloud)
        (directory / "project.json").write_bytes(msgspec.json.encode(project))
        yield put_away(directory), name


@contextmanager
def _made(place: Path) -> Generator[Path]:
    """Where a cloud is made, put away and copied to: a directory below one that goes again."""
    place.mkdir()
    yield place / "cloud"
    shutil.rmtree(place)


@pytest.fixture
def on_postgresql(
    shared_template: tuple[Path, str], postgres_server: Server, request: pytest.FixtureRequest
) -> Generator[Callable[[str], KilledCloud]]:
    """Make a cloud like the template for a case, on a database of its own, which goes afterwards.

    Of all cases they would be 50 GB, in memory where the server is.
    """
    directory, name = shared_template
    with psycopg.connect(postgres_server.url("postgres"), autocommit=True) as connection:
        made: list[str] = []

        def copy(case: str) -> KilledCloud:
            made.append(f"kill_{abs(hash((request.node.originalname, case)))}")
            create_database(connection, made[-1], name)
            return KilledCloud(copy_template(directory), postgres_server.url(made[-1]))

        yield copy
        for database in made:
            drop_database(connection, database)
