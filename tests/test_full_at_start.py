"""A start on a disk without room: one line says what is full, and once there is room it works."""

from __future__ import annotations

import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from msgspec import Struct

from tests.kill.processes import CommandProcess, run_forked
from tests.small_disk import SmallDisk, mounted

DISK_MIB = 64


class Start(Struct, frozen=True):
    """What a start finds: a cloud from before, or none, and how much room."""

    room_kib: int
    is_first: bool

    def __str__(self) -> str:
        return f"{'first' if self.is_first else 'next'}-{self.room_kib}"


STARTS = [
    # Each of them ends at another file: the first one needs 3 MiB in all, a later one 0.4.
    *(Start(kib, is_first=True) for kib in (0, 8, 16, 128, 400, 2000)),
    *(Start(kib, is_first=False) for kib in (0, 32, 48, 192)),
]


@pytest.fixture
def small() -> Generator[SmallDisk]:
    with mounted(DISK_MIB) as disk:
        yield disk


@pytest.mark.cases(STARTS, 2)
def test_a_start_without_room_says_so_in_one_line(
    small: SmallDisk, tmp_path: Path, case: Start
) -> None:
    if not case.is_first:
        start_and_end(small, tmp_path)
    small.fill(but_kib=case.room_kib)
    code, _, warned = run_forked(*command(small))
    lines = [line for line in warned.splitlines() if not line.startswith("{")]
    assert (code, len(lines)) == (1, 1), warned
    assert lines[0].startswith("mooring: ")
    assert str(small.directory) in lines[0] or "no room left on its disk" in lines[0]
    assert "room" in lines[0]
    small.make_room()
    start_and_end(small, tmp_path)


def start_and_end(small: SmallDisk, tmp_path: Path) -> None:
    process = CommandProcess(*command(small), log=tmp_path / "log")
    process.popen.send_signal(signal.SIGTERM)
    assert process.wait() == 0, (tmp_path / "log").read_text()


def command(small: SmallDisk) -> list[str]:
    where = ["--state-dir", str(small.directory / "state"), "--listen", "127.0.0.1:0"]
    return ["up", *where, "--hypervisor", "simulated"]
