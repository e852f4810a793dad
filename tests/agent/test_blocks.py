"""Files as blocks that are not zeros: what a digest tells apart, and how fast blocks may go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mooring.agent import blocks
from mooring.agent.blocks import BLOCK_BYTES, Digest, Measured, Piece, Reader, measure
from mooring.agent.pace import Pace

pytestmark = pytest.mark.anyio
MIB = 1024**2


def make(path: Path, size_bytes: int, *parts: tuple[int, bytes]) -> Path:
    """Make a file of holes, with data in it."""
    with path.open("wb") as file:
        for offset, data in parts:
            os.pwrite(file.fileno(), data, offset)
        os.ftruncate(file.fileno(), size_bytes)
    return path


async def test_a_hole_reads_as_the_zeros_that_are_written(tmp_path: Path) -> None:
    data = os.urandom(100_000)
    sparse = make(tmp_path / "sparse", 3 * MIB + 5, (MIB + 7, data))
    dense = tmp_path / "dense"
    dense.write_bytes(sparse.read_bytes())
    measured = await measure(sparse)
    assert await measure(dense) == measured
    assert measured.size_bytes == 3 * MIB + 5
    assert measured.data_bytes == 2 * BLOCK_BYTES


@pytest.mark.parametrize(
    "other",
    [
        (3 * MIB, (MIB, b"b")),
        (3 * MIB, (MIB + 1, b"a")),
        (3 * MIB, (2 * MIB, b"a")),
        (3 * MIB + 1, (MIB, b"a")),
        (3 * MIB,),
    ],
    ids=["another byte", "another place", "another block", "another size", "nothing"],
)
async def test_no_other_file_has_the_same_digest(
    tmp_path: Path, other: tuple[int, *tuple[tuple[int, bytes], ...]]
) -> None:
    first = await measure(make(tmp_path / "first", 3 * MIB, (MIB, b"a")))
    second = await measure(make(tmp_path / "second", *other))
    assert first.digest != second.digest


async def test_an_empty_file_and_one_hole_have_nothing_to_send(tmp_path: Path) -> None:
    assert (await measure(make(tmp_path / "empty", 0))).data_bytes == 0
    hole = await measure(make(tmp_path / "hole", 1 << 40))
    assert hole == Measured(1 << 40, 0, Digest().end(1 << 40))


@given(
    parts=some.lists(
        some.tuples(some.integers(0, 4 * MIB), some.binary(min_size=1, max_size=9)), max_size=6
    ),
    begin=some.integers(0, 64),
)
def test_what_is_read_from_a_block_on_is_all_that_follows(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[int, bytes]], begin: int
) -> None:
    path = make(tmp_path_factory.mktemp("x") / "file", 4 * MIB + 10, *parts)
    reader = Reader(path, begin * BLOCK_BYTES)
    rebuilt, at = bytearray(4 * MIB + 10), begin * BLOCK_BYTES
    while (piece := reader.next()) is not None:
        assert at <= piece.offset
        at = piece.end
        rebuilt[piece.offset : piece.end] = piece.data
    reader.close()
    assert rebuilt[begin * BLOCK_BYTES :] == path.read_bytes()[begin * BLOCK_BYTES :]


async def test_a_file_is_copied_with_its_holes(tmp_path: Path) -> None:
    source = make(tmp_path / "source", 64 * MIB + 3, (0, b"a"), (40 * MIB, b"b"))
    await blocks.copy(source, tmp_path / "target")
    assert await measure(tmp_path / "target") == await measure(source)
    assert (tmp_path / "target").stat().st_blocks * 512 < MIB


def test_a_digest_is_one_of_whole_blocks_however_they_came() -> None:
    data = os.urandom(3 * BLOCK_BYTES + 10)
    together, apart = Digest(), Digest()
    together.add(Piece(0, data))
    for at in range(0, len(data), BLOCK_BYTES):
        apart.add(Piece(at, data[at : at + BLOCK_BYTES]))
    assert together.end(len(data)) == apart.end(len(data))


class Watch:
    """A clock that stands still but for who rests."""

    def __init__(self) -> None:
        self.now, self.rests = 100.0, list[float]()

    async def rest(self, seconds: float) -> None:
        """Let time pass."""
        self.rests.append(seconds)
        self.now += seconds


async def test_all_together_go_no_faster_than_they_may() -> None:
    watch = Watch()
    pace = Pace(MIB, now=lambda: watch.now, rest=watch.rest)
    for _ in range(5):
        await pace.take(MIB)
    assert watch.rests == [1.0] * 4
    watch.now += 60
    for _ in range(3):
        await pace.take(MIB // 2)
    assert watch.rests[4:] == [0.5] * 2


async def test_without_a_bound_nobody_rests() -> None:
    watch = Watch()
    pace = Pace(0, now=lambda: watch.now, rest=watch.rest)
    for _ in range(5):
        await pace.take(1 << 40)
    assert watch.rests == []
