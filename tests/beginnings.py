"""Where a first start of a cloud ends: a test that is not about first starts begins there.

The revisions and what a first start makes (the first users, the catalogue) are run once in a
process for each kind of database. Files are copied then, a database of PostgreSQL by its server.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import LiteralString, NamedTuple

import psycopg
from psycopg import sql
from sqlalchemy import make_url

from mooring.services import SERVICES
from mooring.store import migrate
from mooring.store.postgresql import create_schema_engine
from tests.migrated import files_of, lay_databases
from tests.postgres import create_database

Start = Callable[[str, str], Awaitable[None]]
"""Starts a whole cloud without hosts in a directory, with the setting `database`, and ends it."""
_EVERY = frozenset(each.name for each in SERVICES)
_numbers = itertools.count(1)


async def lay_files(state: Path, services: Collection[str], start: Start | None) -> None:
    """Begin where a first start would end, unless something has begun in the directory already.

    Without `start` the databases are migrated, and empty.
    """
    if start is None or _has_files(state):
        lay_databases(state, *services)
        return
    others = {f"{name}.sqlite" for name in _EVERY.difference(services)}
    _write(
        state, {name: held for name, held in (await _files(start)).items() if name not in others}
    )


def _has_files(state: Path) -> bool:
    return any(state.glob("*.sqlite"))


async def _files(start: Start) -> Mapping[str, bytes]:
    """Return the files that a first start leaves."""
    if not _left:
        with TemporaryDirectory() as directory:
            lay_databases(directory)
            await start(directory, "")
            _left.update(files_of(directory))
    return _left


_left: dict[str, bytes] = {}


async def lay_schemas(
    url: str, state: Path, services: Collection[str], start: Start | None
) -> None:
    """Begin where a first start would end, unless something has begun in the database already.

    The database is made anew, so nobody may have a connection to it.
    """
    if _has_begun(url):
        return
    template = _migrated(url, services) if start is None else await _begun(url, services, start)
    _write(state, template.files)
    copy_database(url, make_url(url).database or "", template.database)


class _Template(NamedTuple):
    """A database of a server that others are copied from, and what lies beside it."""

    database: str
    files: Mapping[str, bytes]


_templates: dict[tuple[str, bool, frozenset[str]], _Template] = {}
"""By their server, whether a cloud has begun in them, and the services."""


async def _begun(url: str, services: Collection[str], start: Start) -> _Template:
    """Return what a first start leaves of some services."""
    key = _server_of(url), True, frozenset(services)
    if key in _templates:
        return _templates[key]
    name = new_name()
    if key[2] == _EVERY:
        copy_database(url, name, _migrated(url, _EVERY).database)
        with TemporaryDirectory() as directory:
            await start(directory, _url(url, name))
            made = _Template(name, files_of(directory))
    else:
        whole = await _begun(url, _EVERY, start)
        copy_database(url, name, whole.database)
        _run(_url(url, name), "DROP SCHEMA {} CASCADE", *_EVERY.difference(services))
        made = _Template(name, whole.files)
    return _templates.setdefault(key, made)


def _migrated(url: str, services: Collection[str]) -> _Template:
    """Return the schemas of some services, with nothing in them."""
    key = _server_of(url), False, frozenset(services)
    if key not in _templates:
        name = new_name()
        copy_database(url, name, "template1")
        for service in services:
            engine = create_schema_engine(_url(url, name), service)
            migrate.upgrade(engine, service)
            engine.dispose()
        _templates[key] = _Template(name, {})
    return _templates[key]


def _has_begun(url: str) -> bool:
    with psycopg.connect(url) as connection:
        asked = "SELECT 1 FROM information_schema.schemata WHERE schema_name = ANY(%s)"
        return connection.execute(asked, [sorted(_EVERY)]).fetchone() is not None


def _server_of(url: str) -> str:
    """Return what a server is known by, whatever way leads to it."""
    return _ask_server(_url(url, "postgres"))


@cache
def _ask_server(url: str) -> str:
    with psycopg.connect(url) as connection:
        [directory] = connection.execute("SHOW data_directory").fetchone() or [""]
        return directory


def copy_database(url: str, name: str, template: str) -> None:
    """Make a database of the server at `url` anew, as a copy of one that nobody has open."""
    _run(_url(url, "postgres"), "DROP DATABASE IF EXISTS {}", name)
    with psycopg.connect(_url(url, "postgres"), autocommit=True) as connection:
        create_database(connection, name, template)


def _run(url: str, command: LiteralString, *names: str) -> None:
    """Have a server do something about each of the names."""
    with psycopg.connect(url, autocommit=True) as connection:
        for name in names:
            connection.execute(sql.SQL(command).format(sql.Identifier(name)))


def _url(url: str, database: str) -> str:
    """Return the address of another database of a server."""
    return make_url(url).set(database=database).render_as_string(hide_password=False)


def new_name() -> str:
    """Return a name that no database of this process's servers has."""
    return f"begun_{next(_numbers)}"


def _write(state: Path, files: Mapping[str, bytes]) -> None:
    """Put files where nobody else reads them."""
    for name, content in files.items():
        (state / name).touch(mode=0o600)
        (state / name).write_bytes(content)
