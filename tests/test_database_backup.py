"""A cloud on PostgreSQL comes back from a dump and a backup, as docs/backup.md has it."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from mooring.backup import run_backup
from tests.cloud import SimulatedCloud
from tests.postgres import Server, client, end_leases
from tests.test_backup import load, make, names

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]
VOLUMES, IMAGES = "/volume/v3/volumes", "/image/v2/images"
CONTENT = {"content-type": "application/octet-stream"}


async def upload(cloud: SimulatedCloud, content: bytes) -> str:
    """Make an image, and return its id."""
    image = {"disk_format": "raw", "container_format": "bare"}
    image_id = (await cloud.ask("POST", IMAGES, image)).body["id"]
    sent = await cloud.ask("PUT", f"{IMAGES}/{image_id}/file", content, headers=CONTENT)
    assert sent.status == 204
    return image_id


def known_in(complaint: str, ids: set[str]) -> bool:
    return any(one in complaint for one in ids)


def contents(state: Path) -> list[bytes]:
    """What the files of images have."""
    return sorted(path.read_bytes() for path in (state / "images").iterdir())


def restore(server: Server, database: str, dump: Path) -> None:
    """Lose a database, and have what was dumped in its place."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute(
            sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(database))
        )
    into = f"--dbname={server.url('postgres')}"
    subprocess.run([client("pg_restore"), "--create", into, dump], check=True)


async def test_a_dump_and_a_backup_taken_under_load_are_a_cloud(
    tmp_path: Path, postgres_server: Server, postgres_url: str
) -> None:
    dump, copy = tmp_path / "monday.dump", tmp_path / "monday"
    command = [client("pg_dump"), "--format=custom", f"--file={dump}", postgres_url]
    known, stop = list[str](), asyncio.Event()
    async with SimulatedCloud(tmp_path / "state", database=postgres_url) as cloud:
        known.append(await make(cloud, 0))
        kept, deleted = await upload(cloud, b"kept"), await upload(cloud, b"deleted")
        working = asyncio.create_task(load(cloud, known, stop))
        before = set(known)
        await asyncio.to_thread(subprocess.run, command, check=True)
        await upload(cloud, b"late")
        assert (await cloud.ask("DELETE", f"{IMAGES}/{deleted}")).status == 204
        said: list[str] = []
        await run_backup(cloud.settings, copy, said.append)
        stop.set()
        await working
        await cloud.settle()
    assert "copy them with pg_dump" in said[-1]
    assert contents(copy) == [b"kept", b"late"]
    database = postgres_url.removeprefix("postgresql://mooring@/").partition("?")[0]
    await asyncio.to_thread(restore, postgres_server, database, dump)
    await asyncio.to_thread(end_leases, postgres_url, list(cloud.cloud.engines))
    async with SimulatedCloud(copy, database=postgres_url) as restored:
        await restored.settle()
        assert await names(restored, VOLUMES, "volumes") >= before
        assert await restored.unfinished() == []
        # The doctor names what came after the dump, and nothing that was there before.
        assert [one for one in await restored.complaints() if known_in(one, before)] == []
        assert contents(copy) == [b"kept"]
        assert await names(restored, IMAGES, "images") == {kept, deleted}
        assert (await restored.ask("GET", f"{IMAGES}/{kept}/file")).content == b"kept"
        assert (await restored.ask("DELETE", f"{IMAGES}/{deleted}")).status == 204
        made = await make(restored, 1)
        await restored.settle()
        assert [one for one in await restored.complaints() if made in one] == []
