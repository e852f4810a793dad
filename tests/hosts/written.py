"""What the test guest's writer left on a disk: every block that it says it wrote, and no other.

`scripts/guest/init` begins behind the first block of a disk that starts with LABEL, fills each
block of 4096 bytes with its own number, and goes on at the new part when the disk has grown. So it
does on a boot disk, behind the block `ROOT_FIRST`, if that has the label. Of a disk that starts
with SHARED, which two guests may have, the one with the second image writes to the second half, as
if that were a disk of its own whose blocks are counted from the first half's start.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from msgspec import Struct

LABEL, SHARED = b"MOORING-WRITER", b"MOORING-SHARED"
BUSY = LABEL + b"-BUSY"
"""Of a disk beside which the guest changes its memory all the time."""
BLOCK = 4096
ROOT_FIRST = (22 << 20) // BLOCK
"""Behind the file system of the test guest, where its marker would be (`scripts/build_guest`)."""
# So many blocks the writer fills before it asks the disk to keep them.
UNKEPT = 4


class Written(Struct, frozen=True):
    """How many blocks were written before the disk had grown, and how many behind its old end."""

    before: int
    after: int


def read_written(
    image: Path, image_format: str, old_bytes: int, work: Path, *, first: int = 0
) -> Written:
    """Check every block of an image that no guest has open, and return what was written.

    `work` is a directory that takes a raw copy; `first` the block that has the label. Fails when a
    block is not what it must be.
    """
    raw = work / f"{image.name}.read"
    convert = ["qemu-img", "convert", "-f", image_format, "-O", "raw", str(image), str(raw)]
    subprocess.run(convert, check=True)
    with raw.open("rb") as file:
        begins, old_end = first + 1, old_bytes // BLOCK
        assert os.pread(file.fileno(), BLOCK, first * BLOCK).rstrip(b"\0") in {LABEL, BUSY}
        before = _run_of_blocks(file.fileno(), begins, begins)
        _check_empty(file.fileno(), begins + before, old_end, begins + before)
        after = _run_of_blocks(file.fileno(), old_end, begins + before)
    raw.unlink()
    return Written(before, after)


def read_halves(raw: Path) -> tuple[int, int]:
    """Check every block of a raw image that two guests had, and that none has open.

    Returns how many blocks were written to each half. Fails when a block is not what it must be.
    """
    end = raw.stat().st_size // BLOCK
    half = end // 2
    with raw.open("rb") as file:
        assert file.read(BLOCK).rstrip(b"\0") == SHARED
        counts = [_run_of_blocks(file.fileno(), at, at) for at in (1, half + 1)]
        for at, count, last in zip((1, half + 1), counts, (half + 1, end), strict=True):
            _check_empty(file.fileno(), at + count, last, at + count)
    return counts[0], counts[1]


def labelled(raw: bytes) -> bytes:
    """Return the test guest's disk, which is raw, as one whose guest writes to it without end."""
    at = ROOT_FIRST * BLOCK
    return raw[:at] + LABEL.ljust(BLOCK, b"\0") + raw[at + BLOCK :]


def content(number: int) -> bytes:
    """Return what the block with this number holds."""
    return b"%04096d" % number


def _run_of_blocks(file: int, at: int, number: int) -> int:
    """Return how many blocks from `at` on hold their numbers; behind them there is nothing."""
    count = 0
    while (found := os.pread(file, BLOCK, (at + count) * BLOCK)) == content(number + count):
        count += 1
    told = f"block {at + count} ends with {found[-8:]!r}, and not with {number + count}"
    assert not found.strip(b"\0"), told
    return count


def _check_empty(file: int, at: int, end: int, number: int) -> None:
    """See that no block from `at` to `end` is written, but for few behind the last in a row.

    What the guest had not asked to be kept may have reached the disk in any order.
    """
    blocks = range(at, end)
    written = [block for block in blocks if os.pread(file, BLOCK, block * BLOCK).strip(b"\0")]
    late = [block for block in written if block - at >= UNKEPT]
    assert not late, f"no number {number} at block {at}, but blocks {late[0]} to {late[-1]} written"
