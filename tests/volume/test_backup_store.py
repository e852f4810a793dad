"""What holds of every store of backups: one contract, for each that there is."""

from __future__ import annotations

import errno
import hashlib
import shutil
from pathlib import Path

import pytest

from mooring.errors import Conflict, Unavailable
from mooring.volume.backups.stores.base import BackupStore, Manifest, Piece
from mooring.volume.backups.stores.directory import DirectoryStore

pytestmark = pytest.mark.anyio
ONE, OTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
DATA = b"a piece of data"


@pytest.fixture
async def store(tmp_path: Path, anyio_backend: str) -> BackupStore:
    made = DirectoryStore(tmp_path / "backups", makes=True)
    await made.setup()
    return made


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def manifest(*pieces: bytes, backup_id: str = ONE) -> Manifest:
    return Manifest(
        backup_id=backup_id,
        disk_format="qcow2",
        size_bytes=sum(map(len, pieces)),
        sha256=digest(b"".join(pieces)),
        pieces=[Piece(len(piece), digest(piece)) for piece in pieces],
    )


async def put(store: BackupStore, *pieces: bytes, backup_id: str = ONE) -> Manifest:
    await store.begin(backup_id)
    for piece in pieces:
        await store.put_piece(backup_id, digest(piece), piece)
    made = manifest(*pieces, backup_id=backup_id)
    await store.put_manifest(made)
    return made


async def test_a_backup_is_whole_once_it_has_its_manifest(store: BackupStore) -> None:
    assert await store.find_manifest(ONE) is None
    await store.begin(ONE)
    await store.put_piece(ONE, digest(DATA), DATA)
    assert await store.backups() == {ONE: False}
    assert await store.find_manifest(ONE) is None
    made = await put(store, DATA)
    assert await store.find_manifest(ONE) == made
    assert await store.find_piece(ONE, digest(DATA)) == DATA
    assert await store.backups() == {ONE: True}


async def test_what_was_put_twice_is_there_once(store: BackupStore) -> None:
    for _ in range(2):
        await put(store, DATA, DATA, b"more")
    assert await store.find_piece(ONE, digest(b"more")) == b"more"
    assert await store.backups() == {ONE: True}


async def test_a_manifest_removes_what_it_does_not_list(store: BackupStore) -> None:
    await store.begin(ONE)
    await store.put_piece(ONE, digest(b"of another try"), b"of another try")
    await put(store, DATA)
    assert await store.find_piece(ONE, digest(b"of another try")) is None


async def test_a_deleted_backup_is_gone_and_nobody_writes_to_it_late(store: BackupStore) -> None:
    await put(store, DATA)
    await put(store, DATA, backup_id=OTHER)
    for _ in range(2):
        await store.delete(ONE)
    with pytest.raises(Conflict):
        await store.put_piece(ONE, digest(DATA), DATA)
    with pytest.raises(Conflict):
        await store.put_manifest(manifest(DATA))
    assert await store.backups() == {OTHER: True}
    assert await store.find_piece(OTHER, digest(DATA)) == DATA


async def test_a_manifest_that_makes_no_sense_is_told(store: BackupStore, tmp_path: Path) -> None:
    await put(store, DATA)
    (tmp_path / "backups" / ONE / "manifest.json").write_text("{}")
    with pytest.raises(Conflict, match="damaged"):
        await store.find_manifest(ONE)


async def test_a_directory_that_is_not_there_has_lost_nothing(
    store: BackupStore, tmp_path: Path
) -> None:
    await put(store, DATA)
    (tmp_path / "backups").rename(tmp_path / "away")
    with pytest.raises(Unavailable):
        await store.delete(ONE)
    with pytest.raises(Unavailable):
        await store.backups()
    with pytest.raises(Unavailable):
        await store.find_manifest(ONE)
    (tmp_path / "away").rename(tmp_path / "backups")
    assert await store.backups() == {ONE: True}


async def test_a_removal_that_was_killed_is_gone_on_with(
    store: BackupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, DATA, b"more")

    def die(path: Path) -> None:
        next(iter(path.iterdir())).unlink()
        raise OSError(errno.EIO, "killed")

    with monkeypatch.context() as killed:
        killed.setattr(shutil, "rmtree", die)
        with pytest.raises(Unavailable):
            await store.delete(ONE)
    assert await store.backups() == {ONE: False}
    await store.delete(ONE)
    assert await store.backups() == {}
