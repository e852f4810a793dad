"""How the space of a file is taken, where a file system does so by itself and where it does not."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.agent.drivers.allocation import Allocator
from mooring.agent.run import Runner
from mooring.errors import NoCapacity
from mooring.fence.journal import Journal

pytestmark = pytest.mark.anyio
MIB = 1 << 20


@pytest.fixture
def allocator(journal: Journal) -> Allocator:
    return Allocator("pool", Runner(journal))


@contextmanager
def small_file_system(directory: Path, kind: str, size_mib: int = 32) -> Generator[Path]:
    """Mount one of so many MiB. ext2 takes no space by itself, as NFS below 4.2."""
    image, mounted = directory / "image", directory / "mounted"
    mounted.mkdir()
    image.touch()
    os.truncate(image, size_mib * MIB)
    for argv in (
        [f"mkfs.{kind}", "-q", str(image)],
        ["mount", "-o", "loop", str(image), str(mounted)],
    ):
        program = shutil.which(argv[0], path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        if program is None:
            pytest.skip(f"no file system to fill: {argv[0]} is not there")
        done = subprocess.run([program, *argv[1:]], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no file system to fill: {done.stderr.strip()}")
    try:
        yield mounted
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


def make_sparse(path: Path) -> bytes:
    """Make a file of 8 MiB with a few bytes in the middle; return what it holds."""
    path.touch()
    os.truncate(path, 8 * MIB)
    with path.open("r+b") as file:
        file.seek(5 * MIB)
        file.write(b"written by a guest")
    return path.read_bytes()


@pytest.mark.parametrize("beside_guests", [True, False])
async def test_space_is_taken_and_what_is_there_stays(
    allocator: Allocator, tmp_path: Path, *, beside_guests: bool
) -> None:
    path = tmp_path / "disk"
    held = make_sparse(path)
    assert await allocator.take(path, (4 * MIB, 8 * MIB), "op", beside_guests=beside_guests)
    assert 4 * MIB <= path.stat().st_blocks * 512 < 5 * MIB
    assert path.read_bytes() == held


async def test_where_a_file_system_cannot_blocks_are_written_unless_a_guest_may_write_too(
    allocator: Allocator, tmp_path: Path
) -> None:
    with small_file_system(tmp_path, "ext2") as mounted:
        path = mounted / "disk"
        held, blocks = make_sparse(path), path.stat().st_blocks
        assert not await allocator.take(path, (4 * MIB, 8 * MIB), "op", beside_guests=True)
        assert path.stat().st_blocks == blocks
        assert await allocator.take(path, (4 * MIB, 8 * MIB), "op")
        assert path.stat().st_blocks * 512 >= 4 * MIB
        assert path.read_bytes() == held


@pytest.mark.parametrize("kind", ["ext2", "ext4"])
async def test_a_full_file_system_is_told_whichever_way_space_is_taken(
    allocator: Allocator, tmp_path: Path, kind: str
) -> None:
    with small_file_system(tmp_path, kind) as mounted:
        path = mounted / "disk"
        make_sparse(path)
        with pytest.raises(NoCapacity, match="no room"):
            await allocator.take(path, (8 * MIB, 64 * MIB), "op")
