"""What a figure is worth on this machine: the median of many, and how long its disk takes."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
"""Where figures are kept, and clouds live for a while: on the disk of the checkout."""

FLUSHES = 200
BLOCK_BYTES = 4096


def flush_ms(directory: Path) -> float:
    """Return the median of this disk's fdatasync, in ms."""
    spent: list[float] = []
    path = directory / "flush"
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    for _ in range(FLUSHES):
        os.write(file, b"x" * BLOCK_BYTES)
        start = time.perf_counter()
        os.fdatasync(file)
        spent.append(time.perf_counter() - start)
    os.close(file)
    path.unlink()
    return statistics.median(spent) * 1000


@contextmanager
def scratch() -> Generator[Path]:
    """Give a directory on the checkout's disk that goes with the block."""
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=RESULTS) as name:
        yield Path(name)


def median(values: Iterable[float]) -> float:
    """Return the middle of some values."""
    return statistics.median(values)


def quantile(values: Iterable[float], part: float) -> float:
    """Return the value that a part (0 to 1) of all values stays below."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
