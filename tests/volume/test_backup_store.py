"""What holds of every store of backups: one contract, for each that there is."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import shutil
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Protocol

import msgspec
import pytest

from mooring import typed
from mooring.errors import Conflict, NoCapacity, Unavailable
from mooring.volume.backups.stores.base import BackupStore, Manifest, Piece
from mooring.volume.backups.stores.directory import DirectoryStore
from mooring.volume.backups.stores.s3 import S3Store
from tests.volume.s3_service import S3Service, Wire

pytestmark = pytest.mark.anyio
ONE, OTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
DATA = b"a piece of data"


class Place(Protocol):
    """Where a store has its backups, which somebody else may reach, too."""

    store: BackupStore

    def write(self, backup_id: str, name: str, data: bytes) -> None: ...
    def files(self, backup_id: str) -> set[str]: ...
    def go_away(self) -> None: ...
    def come_back(self) -> None: ...


class Directory:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.store: BackupStore = DirectoryStore(directory, makes=True)

    def write(self, backup_id: str, name: str, data: bytes) -> None:
        (self._directory / backup_id / name).write_bytes(data)

    def files(self, backup_id: str) -> set[str]:
        return {path.name for path in self._directory.glob(f"{backup_id}*/*")}

    def go_away(self) -> None:
        self._directory.rename(self._directory.with_name("away"))

    def come_back(self) -> None:
        self._directory.with_name("away").rename(self._directory)


class Prefix:
    def __init__(self, service: S3Service, wire: Wire) -> None:
        self._service, self._wire, self._prefix = service, wire, uuid.uuid4().hex
        self.store: BackupStore = S3Store(service.access(self._prefix, wire.port))

    def write(self, backup_id: str, name: str, data: bytes) -> None:
        self._service.put(f"{self._prefix}/{backup_id}/{name}", data)

    def files(self, backup_id: str) -> set[str]:
        found = self._service.names(f"{self._prefix}/{backup_id}/")
        return {name.rpartition("/")[2] for name in found} - {"begun"}

    def go_away(self) -> None:
        self._wire.go_away()

    def come_back(self) -> None:
        self._wire.mend()


@pytest.fixture
def wire(s3_service: S3Service) -> Iterator[Wire]:
    made = Wire(s3_service.port)
    yield made
    made.close()


@pytest.fixture(params=["directory", "s3"])
async def place(tmp_path: Path, anyio_backend: str, request: pytest.FixtureRequest) -> Place:
    made: Place = Directory(tmp_path / "backups")
    if request.param == "s3":
        service: S3Service = request.getfixturevalue("s3_service")
        made = Prefix(service, request.getfixturevalue("wire"))
    await made.store.setup()
    return made


@pytest.fixture
def store(place: Place) -> BackupStore:
    return place.store


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


async def test_a_backup_that_two_delete_at_once_is_gone_for_both(store: BackupStore) -> None:
    for _ in range(10):
        await put(store, *(b"piece %d" % number for number in range(5)))
        await asyncio.gather(store.delete(ONE), store.delete(ONE))
        assert await store.backups() == {}


@pytest.mark.parametrize("damaged", [b"{}", b"", b"\0" * 100])
async def test_a_manifest_that_makes_no_sense_is_told(place: Place, damaged: bytes) -> None:
    await put(place.store, DATA)
    place.write(ONE, "manifest.json", damaged)
    with pytest.raises(Conflict, match="damaged"):
        await place.store.find_manifest(ONE)


async def test_a_manifest_is_read_beside_requests(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(place.store, DATA)
    readers = list[str]()

    def decode(content: bytes, form: type[Manifest]) -> Manifest:
        readers.append(threading.current_thread().name)
        return msgspec.json.decode(content, type=form)

    monkeypatch.setattr(typed, "decode", decode)
    assert await place.store.find_manifest(ONE) is not None
    assert readers != []
    assert threading.current_thread().name not in readers


async def test_a_piece_is_given_as_it_is_and_one_that_is_missing_as_none(place: Place) -> None:
    await put(place.store, DATA)
    place.write(ONE, digest(DATA), b"changed")
    assert await place.store.find_piece(ONE, digest(DATA)) == b"changed"
    assert await place.store.find_piece(ONE, digest(b"never put")) is None
    assert await place.store.find_piece(OTHER, digest(DATA)) is None


async def test_the_pieces_that_are_there_are_listed(place: Place) -> None:
    await put(place.store, DATA, b"more")
    await put(place.store, b"of another", backup_id=OTHER)
    assert await place.store.find_pieces(ONE) == {digest(DATA), digest(b"more")}
    await place.store.delete(ONE)
    assert await place.store.find_pieces(ONE) == frozenset()
    place.go_away()
    with pytest.raises(Unavailable):
        await place.store.find_pieces(OTHER)
    place.come_back()


async def test_a_piece_that_is_there_in_part_is_put_again(place: Place) -> None:
    await place.store.begin(ONE)
    place.write(ONE, digest(DATA), DATA[:3])
    await put(place.store, DATA)
    assert await place.store.find_piece(ONE, digest(DATA)) == DATA


async def test_a_store_that_is_away_has_lost_nothing(place: Place) -> None:
    store = place.store
    await put(store, DATA)
    place.go_away()
    with pytest.raises(Unavailable):
        await store.delete(ONE)
    with pytest.raises(Unavailable):
        await store.backups()
    with pytest.raises(Unavailable):
        await store.find_manifest(ONE)
    with pytest.raises(Unavailable):
        await store.find_piece(ONE, digest(DATA))
    with pytest.raises(Unavailable):
        await store.put_piece(ONE, digest(DATA), DATA)
    with pytest.raises(Unavailable):
        await store.begin(OTHER)
    place.come_back()
    assert await store.backups() == {ONE: True}
    assert place.files(ONE) == {digest(DATA), "manifest.json"}


async def test_a_directorys_removal_that_was_killed_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DirectoryStore(tmp_path / "backups", makes=True)
    await store.setup()
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


async def test_a_directorys_removal_may_find_another_one_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, remove = DirectoryStore(tmp_path / "backups", makes=True), shutil.rmtree
    await store.setup()
    await put(store, DATA, b"more")

    def come_second(path: Path) -> None:
        remove(path)
        remove(path)

    monkeypatch.setattr(shutil, "rmtree", come_second)
    await store.delete(ONE)
    assert await store.backups() == {}


async def test_a_directory_that_goes_away_in_a_removal_has_lost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Directory(tmp_path / "backups")
    await place.store.setup()
    await put(place.store, DATA)
    rename = Path.rename

    def go_away(path: Path, target: Path) -> Path:
        rename(tmp_path / "backups", tmp_path / "away")
        return rename(path, target)

    with monkeypatch.context() as away:
        away.setattr(Path, "rename", go_away)
        with pytest.raises(Unavailable):
            await place.store.delete(ONE)
    place.come_back()
    assert await place.store.backups() == {ONE: True}


async def test_a_directory_keeps_room_for_what_is_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DirectoryStore(tmp_path / "backups", makes=True, reserve_bytes=1 << 20)
    await store.setup()
    await store.begin(ONE)
    left = SimpleNamespace(free=(1 << 20) + len(DATA))

    def disk_usage(path: Path) -> SimpleNamespace:
        del path
        return left

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    await store.put_piece(ONE, digest(DATA), DATA)
    left.free -= len(DATA)
    with pytest.raises(NoCapacity, match="is full"):
        await store.put_piece(ONE, digest(b"more"), b"more")
    # What is there already takes nothing.
    await store.put_piece(ONE, digest(DATA), DATA)
    assert await store.find_pieces(ONE) == {digest(DATA)}
