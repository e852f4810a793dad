"""A PostgreSQL of the tests' own: one server for a session, on a Unix socket, a database a test."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import sql

from tests import scratch
from tests.memory import find_memory
from tests.wire import Wire, wire

OPTIONS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "32MB",
    # A killed process loses nothing without it; only a power cut would, and no test makes one.
    "fsync": "off",
}
_CHOOSES_A_WAY = 150000
"""The first version that is told how to copy databases; those before always do it so."""
_counter = itertools.count(1)


class Server(NamedTuple):
    """A running server: where its socket is, and its files."""

    directory: Path

    def url(self, database: str) -> str:
        """The address of a database, as the setting `database` takes it."""
        return f"postgresql://mooring@/{database}?host={self.directory}"


def _programs() -> Path:
    """The newest server's programs, which Debian keeps out of the PATH."""
    found = list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return max(found, key=lambda file: int(file.parts[-3])).parent
    on_path = shutil.which("initdb")
    if on_path is None:
        pytest.skip("PostgreSQL is missing here; run scripts/setup as root, or install postgresql")
    return Path(on_path).resolve().parent


def _identity() -> dict[str, Any]:
    """Who runs the server: it refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    names = {user.pw_name for user in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def client(name: str) -> Path:
    """One of PostgreSQL's programs for clients, as `pg_dump`, of the server's own version."""
    found = _programs() / name
    if not found.exists():
        pytest.skip(f"{name} is missing here; run scripts/setup as root, or install postgresql")
    return found


@contextmanager
def run_server(before: Sequence[str] = (), **settings: str) -> Generator[Server]:
    """Give a server with nothing in it that ends with the block; `settings` are its own.

    `before` stands before its commands, where it is that which makes them run as another user.
    """
    programs, identity = _programs(), {} if before else _identity()
    # Not below tmp_path: the server's user may not look into it, and a socket's path is short.
    directory = scratch.make("mooring-pg-", find_memory())
    directory.chmod(0o755)
    if identity:
        os.chown(directory, identity["user"], identity["group"])
    data, log = directory / "data", directory / "log"
    options = " ".join(f"-c {name}='{value}'" for name, value in {**OPTIONS, **settings}.items())

    def run(program: str, *arguments: str | Path) -> None:
        command = [*before, programs / program, "-D", data, *arguments]
        subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL, **identity)

    try:
        run("initdb", "--auth=trust", "--username=mooring", "--encoding=UTF8", "--no-sync")
        run("pg_ctl", "start", "-w", "-s", "-l", log, "-o", f"-k {directory} {options}")
        try:
            yield Server(directory)
        finally:
            run("pg_ctl", "stop", "-s", "-m", "immediate")
    finally:
        shutil.rmtree(directory)


def create_database(
    connection: psycopg.Connection[Any], name: str, template: str = "template1"
) -> None:
    """Make a database, as a copy of one that nobody has open.

    Copied file by file, which takes half as long as block by block: but each of its blocks is
    written at once, so that suits a server in memory.
    """
    names = sql.Identifier(name), sql.Identifier(template)
    command = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names)
    if connection.info.server_version >= _CHOOSES_A_WAY:
        command += sql.SQL(" STRATEGY FILE_COPY")
    connection.execute(command)


def drop_database(connection: psycopg.Connection[Any], name: str) -> None:
    """Remove one with whoever is still connected, if it is there."""
    connection.execute(
        sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
    )


def end_leases(url: str, schemas: Sequence[str]) -> None:
    """Let the leases of sagas run out, as 5 s do in which nobody has renewed them."""
    ended = sql.SQL("UPDATE {}.saga_sagas SET lease_until = '2000-01-01'")
    with psycopg.connect(url) as connection:
        for schema in schemas:
            connection.execute(ended.format(sql.Identifier(schema)))


@pytest.fixture(scope="session")
def postgres_server() -> Generator[Server]:
    """A server with nothing in it, ended with the session."""
    with run_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: Server) -> Generator[str]:
    """A fresh database, dropped after the test with whoever is still connected."""
    name = f"test_{next(_counter)}"
    with psycopg.connect(postgres_server.url("postgres"), autocommit=True) as connection:
        create_database(connection, name)
        yield postgres_server.url(name)
        drop_database(connection, name)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest) -> str:
    """The setting `database`, for each: empty, or the address of a fresh PostgreSQL database."""
    return request.getfixturevalue("postgres_url") if request.param == "postgresql" else ""


@pytest.fixture
def location(database: str, tmp_path: Path) -> str:
    """Where a store is opened: a directory for SQLite, or a fresh PostgreSQL database."""
    return database or str(tmp_path)


@pytest.fixture
def postgres_wire(postgres_server: Server) -> Generator[Wire]:
    """A wire to the server, for a test to cut."""
    with wire(postgres_server.directory) as made:
        yield made


@pytest.fixture
def wired_url(postgres_server: Server, postgres_url: str, postgres_wire: Wire) -> str:
    """A fresh database as it is reached over the wire."""
    return postgres_url.replace(str(postgres_server.directory), str(postgres_wire.directory))
