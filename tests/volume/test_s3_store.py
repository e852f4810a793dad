"""What holds of a store of backups in S3 alone: broken wires, bad keys, many objects, its file."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid
from pathlib import Path

import pytest
import structlog

from mooring.config import Settings, load
from mooring.errors import Conflict, Invalid, MooringError, Unavailable
from mooring.volume.backups import limits
from mooring.volume.backups.stores import opening
from mooring.volume.backups.stores.base import Manifest, Piece
from mooring.volume.backups.stores.s3 import S3Store
from mooring.volume.backups.stores.s3_access import S3Access, read_access
from tests.cloud import SimulatedCloud
from tests.volume.backing_up import (
    BACKUPS,
    backup,
    begun,
    captures,
    make_volume,
    restore,
    status,
    storage,
)
from tests.volume.s3_service import WITHOUT_LIBRARY, S3Service, Wire, has_library
from tests.volume.test_backup_store import DATA, ONE, OTHER, digest, manifest, put, wire

pytestmark = pytest.mark.anyio
__all__ = ["wire"]
LARGE = bytes(range(256)) * 16384


@pytest.fixture
def prefix() -> str:
    return uuid.uuid4().hex


@pytest.fixture
async def store(s3_service: S3Service, wire: Wire, prefix: str, anyio_backend: str) -> S3Store:
    return S3Store(s3_service.access(prefix, wire.port))


async def test_a_piece_that_is_cut_off_on_its_way_up_is_not_there(
    store: S3Store, s3_service: S3Service, wire: Wire, prefix: str
) -> None:
    await store.begin(ONE)
    wire.cut("up", 1 << 20)
    with pytest.raises(Unavailable):
        await store.put_piece(ONE, digest(LARGE), LARGE)
    wire.mend()
    assert s3_service.names(f"{prefix}/") == [f"{prefix}/{ONE}/begun"]
    assert "_multipart_" not in s3_service.index()
    await put(store, LARGE)
    assert await store.find_piece(ONE, digest(LARGE)) == LARGE


async def test_a_piece_that_is_cut_off_on_its_way_down_is_not_taken_for_whole(
    store: S3Store, wire: Wire
) -> None:
    await put(store, LARGE)
    wire.cut("down", 1 << 20)
    with pytest.raises(Unavailable):
        await store.find_piece(ONE, digest(LARGE))
    wire.mend()
    assert await store.find_piece(ONE, digest(LARGE)) == LARGE


async def test_a_service_that_sends_too_slowly_is_given_up_and_holds_up_nobody(
    store: S3Store, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, LARGE)
    monkeypatch.setattr(limits, "S3_READ_S", 0.0)
    began_s = time.monotonic()
    asking = asyncio.create_task(store.find_piece(ONE, digest(LARGE)))
    turns = 0
    while not asking.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 10
    with pytest.raises(Unavailable, match="too slowly"):
        await asking
    assert time.monotonic() - began_s < 30.0


async def test_a_service_that_does_not_answer_is_waited_for_no_longer_than_it_may(
    s3_service: S3Service, wire: Wire, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "S3_SEND_S", 0.2)
    monkeypatch.setattr(limits, "S3_TRIES", 0)
    store = S3Store(s3_service.access(prefix, wire.port))
    wire.slow_down(1.0)
    began_s = time.monotonic()
    with pytest.raises(Unavailable):
        await store.begin(ONE)
    assert time.monotonic() - began_s < 30.0


@pytest.mark.parametrize(
    ("wrong", "kind", "words"),
    [
        ({"secret_key": "another"}, Conflict, "refuses the access key"),
        ({"access_key": "nobody"}, Conflict, "refuses the access key"),
        ({"bucket": "not-there"}, Unavailable, "bucket"),
    ],
)
async def test_who_may_not_use_it_is_told_so_at_once(
    s3_service: S3Service,
    wire: Wire,
    wrong: dict[str, str],
    kind: type[MooringError],
    words: str,
) -> None:
    store = S3Store(s3_service.access("", wire.port, **wrong))
    with structlog.testing.capture_logs() as told:
        await store.setup()
    assert [one["log_level"] for one in told] == ["warning"]
    for asking in (
        store.begin(ONE),
        store.put_piece(ONE, digest(DATA), DATA),
        store.put_manifest(manifest(DATA)),
        store.find_manifest(ONE),
        store.find_piece(ONE, digest(DATA)),
        store.delete(ONE),
        store.backups(),
    ):
        with pytest.raises(kind):
            await asking
    assert words.split(maxsplit=1)[0] in str(told[0]["problem"])


async def test_a_service_that_is_not_s3_is_not_taken_for_it(s3_service: S3Service) -> None:
    server = await asyncio.start_server(_greet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        store = S3Store(s3_service.access("", port))
        with pytest.raises(Unavailable):
            await store.backups()


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    body = b"<html>It works!"
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n" + body)
    await writer.drain()
    writer.close()


async def test_many_backups_and_pieces_are_listed_page_by_page(
    store: S3Store, s3_service: S3Service, prefix: str
) -> None:
    await put(store, DATA, backup_id=OTHER)
    await store.begin(ONE)
    for number in range(1005):
        s3_service.put(f"{prefix}/{ONE}/{number:064d}", b"")
        if number % 3:
            s3_service.put(f"{prefix}/{number:036d}/begun", b"")
    found = await store.backups()
    assert len(found) == 672
    assert found[OTHER]
    await put(store, DATA)
    assert len(s3_service.names(f"{prefix}/{ONE}/")) == 3
    assert await store.backups() == {**found, ONE: True}
    await store.delete(ONE)
    assert s3_service.names(f"{prefix}/{ONE}/") == []


async def test_a_removal_that_was_cut_off_is_gone_on_with(
    store: S3Store, s3_service: S3Service, wire: Wire, prefix: str
) -> None:
    await put(store, *(bytes([number]) for number in range(20)))
    wire.cut("up", 2500)
    with pytest.raises(Unavailable):
        await store.delete(ONE)
    wire.mend()
    assert await store.backups() == {ONE: False}
    with pytest.raises(Conflict):
        await store.put_piece(ONE, digest(DATA), DATA)
    await store.delete(ONE)
    assert s3_service.names(f"{prefix}/") == []


async def test_a_large_manifest_is_one_object_and_leaves_no_parts(
    store: S3Store, s3_service: S3Service
) -> None:
    pieces = [Piece(1, digest(number.to_bytes(4, "big"))) for number in range(70000)]
    made = Manifest(
        backup_id=ONE, disk_format="qcow2", size_bytes=70000, sha256=digest(DATA), pieces=pieces
    )
    await store.begin(ONE)
    await store.put_manifest(made)
    assert await store.find_manifest(ONE) == made
    assert "_multipart_" not in s3_service.index()


def a_file(directory: Path, access: S3Access) -> str:
    file = directory / "s3.toml"
    said = {name: getattr(access, name) for name in access.__struct_fields__}
    lines = [f"{name} = {json.dumps(value)}" for name, value in said.items()]
    file.write_text("\n".join(lines))
    file.chmod(0o600)
    return str(file)


async def test_a_cloud_keeps_its_backups_there(
    tmp_path: Path, s3_service: S3Service, wire: Wire, prefix: str, database: str
) -> None:
    file = a_file(tmp_path, s3_service.access(prefix, wire.port))
    async with SimulatedCloud(tmp_path / "c", database=database, backup_s3=file) as cloud:
        volume_id = await make_volume(cloud)
        wire.go_away()
        backup_id = await begun(cloud, volume_id)
        await cloud.pass_time(30.0)
        assert (await backup(cloud, backup_id))["status"] == "creating"
        wire.mend()
        await cloud.settle()
        assert (await backup(cloud, backup_id))["status"] == "available"
        restored = (await restore(cloud, backup_id)).key("restore")["volume_id"]
        await cloud.settle()
        assert storage(cloud).content(restored) == restored
        assert await cloud.complaints() == []
        wire.go_away()
        [away] = await cloud.complaints()
        assert "cannot be used" in away
        wire.mend()
        s3_service.put(f"{prefix}/{OTHER}/begun", b"")
        [orphan] = await cloud.complaints()
        assert "no backup explains" in orphan
        assert (await cloud.ask("DELETE", f"{BACKUPS}/{backup_id}")).status == 202
        await cloud.settle()
        assert s3_service.names(f"{prefix}/{backup_id}") == []


async def test_a_wrong_key_is_the_reason_why_there_is_no_backup(
    tmp_path: Path, s3_service: S3Service, wire: Wire, prefix: str
) -> None:
    file = a_file(tmp_path, s3_service.access(prefix, wire.port, secret_key="another"))
    async with SimulatedCloud(tmp_path / "c", backup_s3=file) as cloud:
        volume_id = await make_volume(cloud)
        backup_id = await begun(cloud, volume_id)
        await cloud.settle()
        shown = await backup(cloud, backup_id)
        assert shown["status"] == "error"
        assert "refuses the access key: SignatureDoesNotMatch" in shown["fail_reason"]
        assert await status(cloud, volume_id) == "available"
        assert captures(cloud) == []


FILE = """
endpoint = "https://s3.example.org:9000"
bucket = "backups"
access_key = "a"
secret_key = "s"
"""


# Its file is looked at after the library was.
@pytest.mark.skipif(not has_library(), reason=WITHOUT_LIBRARY)
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("https://", "ftp://", "endpoint"),
        (":9000", ":9000/path", "endpoint"),
        ("s3.example", "me:word@s3.example", "a user in it"),
        ('"backups"', '"No Such Bucket!"', "bucket"),
        ("access_key", "acces_key", "does not fit"),
        ('secret_key = "s"', "", "does not fit"),
        ('"backups"', '"backups"\nauthority = "/not/there.pem"', "not/there|No such file"),
        ("bucket =", "bucket", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_is_named_at_the_start(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    file = tmp_path / "s3.toml"
    file.write_text(FILE.replace(old, new))
    file.chmod(0o600)
    with pytest.raises(Invalid, match=words):
        opening.open_store(Settings(backup_s3=str(file)))


def test_what_logs_show_of_it_tells_nobody_the_key(tmp_path: Path) -> None:
    file = tmp_path / "s3.toml"
    file.write_text(FILE.replace('secret_key = "s"', 'secret_key = "Open, Sesame"'))
    file.chmod(0o600)
    access = read_access(str(file))
    assert access.secret_key == "Open, Sesame"
    assert "Sesame" not in f"{access!r} {access} {[access]}"


def test_a_library_that_is_missing_is_named_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "s3.toml"
    file.write_text(FILE)
    file.chmod(0o600)
    monkeypatch.setitem(sys.modules, "minio", None)
    with pytest.raises(Invalid, match=r"pip install 'mooring\[s3\]'"):
        opening.open_store(Settings(backup_s3=str(file)))


def test_two_stores_are_one_too_many(tmp_path: Path) -> None:
    both = {"backup_directory": str(tmp_path), "backup_s3": str(tmp_path / "s3.toml")}
    with pytest.raises(Invalid, match="give one"):
        load(environment={}, overrides=both)


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "s3.toml"
    file.write_text(FILE)
    file.chmod(0o640)
    with pytest.raises(Invalid, match="chmod 600"):
        read_access(str(file))
    file.chmod(0o600)
    access = read_access(str(file))
    assert (access.address, access.is_secure) == ("s3.example.org:9000", True)
