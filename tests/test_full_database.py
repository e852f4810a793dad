"""A database whose disk is full: 507 at each door, nothing half done, and then all goes on."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from msgspec import Struct
from psycopg import sql
from sqlalchemy import make_url

from mooring import limits
from tests.answers import Answer
from tests.cloud import SimulatedCloud
from tests.postgres import Server
from tests.small_disk import SmallDisk, mounted

pytestmark = pytest.mark.anyio
DISK_MIB = 192
TRIES = 400
"""No page of a table has room for so many rows of `LONG`."""
LONG = "x" * 250
VOLUMES = "/volume/v3/volumes"


class Door(Struct, frozen=True):
    """What a service is asked to write, and where it lists what it wrote."""

    path: str
    listed: str
    wrapper: str = ""
    body: Mapping[str, object] = {}
    version: str = ""

    def __str__(self) -> str:
        return self.path.split("/")[1]

    async def write(self, cloud: SimulatedCloud, name: str) -> Answer:
        inner = {"name": name, **self.body}
        body = {self.wrapper: inner} if self.wrapper else inner
        return await cloud.ask("POST", self.path, body, user="admin", version=self.version)

    async def names(self, cloud: SimulatedCloud) -> set[str]:
        answer = await cloud.ask("GET", self.path, user="admin", version=self.version)
        assert answer.status == 200, answer.text
        return {one["name"] for one in answer.key(self.listed)}


DOORS = [
    Door("/identity/v3/projects", "projects", "project", {"description": LONG}),
    Door("/image/v2/images?limit=1000", "images", "", {"note": LONG}),
    Door("/placement/resource_providers", "resource_providers", version="1.39"),
    Door("/volume/v3/types?is_public=None", "volume_types", "volume_type", {"description": LONG}),
    Door(
        "/compute/v2.1/flavors",
        "flavors",
        "flavor",
        {"ram": 64, "vcpus": 1, "disk": 1, "description": LONG},
        "2.96",
    ),
    Door(
        "/share/v2/types",
        "share_types",
        "share_type",
        {"extra_specs": {"driver_handles_share_servers": "false"}, "description": LONG},
        "2.82",
    ),
]


@pytest.fixture
def small() -> Generator[SmallDisk]:
    with mounted(DISK_MIB) as disk:
        yield disk


@pytest.fixture
async def cloud(
    request: pytest.FixtureRequest, small: SmallDisk, tmp_path: Path, database: str
) -> AsyncGenerator[SimulatedCloud]:
    """A cloud whose tables are on the small disk, and with SQLite everything else as well."""
    if not database:
        async with SimulatedCloud(small.directory / "state") as opened:
            yield opened
        return
    cloud = SimulatedCloud(tmp_path, database=database)
    async with cloud:
        pass
    with move_tables(request.getfixturevalue("postgres_server"), database, small.directory):
        async with cloud:
            yield cloud


@contextmanager
def move_tables(server: Server, database: str, to: Path) -> Generator[None]:
    """Keep the tables of a database that nobody has open in a directory, and then no more."""
    owner = server.directory.stat()
    os.chown(to, owner.st_uid, owner.st_gid)
    name = sql.Identifier(make_url(database).database or "")
    move = sql.SQL("ALTER DATABASE {} SET TABLESPACE {}")
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        place = sql.SQL("CREATE TABLESPACE small LOCATION {}").format(sql.Literal(str(to)))
        connection.execute(place)
        try:
            connection.execute(move.format(name, sql.Identifier("small")))
            yield
            connection.execute(move.format(name, sql.Identifier("pg_default")))
        finally:
            connection.execute("DROP TABLESPACE small")


async def fill_up(cloud: SimulatedCloud, door: Door) -> tuple[set[str], Answer]:
    """Write until there is no room; return the names that were taken, and the refusal."""
    taken = set[str]()
    for _ in range(TRIES):
        answer = await door.write(cloud, name := uuid4().hex)
        if answer.status >= 300:
            return taken, answer
        taken.add(name)
    raise AssertionError(f"{door} wrote {TRIES} rows on a full disk")


async def extend(cloud: SimulatedCloud) -> str:
    """Have a volume of 1 GiB, and begin to extend it to 2; return its path."""
    made = await cloud.do("POST", VOLUMES, {"volume": {"size": 1}})
    assert made is not None
    assert made.status == 202
    await cloud.settle()
    path = f"{VOLUMES}/{made.key('volume')['id']}"
    body = {"os-extend": {"new_size": 2}}
    assert (await cloud.ask("POST", f"{path}/action", body)).status == 202
    return path


async def test_a_full_database_is_507_and_what_was_accepted_ends_once_there_is_room(
    cloud: SimulatedCloud, small: SmallDisk
) -> None:
    path, known = await extend(cloud), [await door.names(cloud) for door in DOORS]
    small.fill()
    filled = [await fill_up(cloud, door) for door in DOORS]
    for door, before, (taken, refused) in zip(DOORS, known, filled, strict=True):
        assert (refused.status, door) == (507, door), refused.text
        assert refused.headers["retry-after"] == str(limits.WEB_AGAIN_S)
        assert "no room left on its disk; nothing was changed" in refused.text
        assert await door.names(cloud) == before | taken, door
    small.make_room()
    for door, before, (taken, _) in zip(DOORS, known, filled, strict=True):
        assert (await door.write(cloud, "after")).status < 300, door
        assert await door.names(cloud) == before | taken | {"after"}, door
    await cloud.settle()
    volume = (await cloud.ask("GET", path)).key("volume")
    assert (volume["status"], volume["size"]) == ("available", 2)
    assert await cloud.complaints() == []
