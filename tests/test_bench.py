"""The bench's parts print rows and nothing else, as who runs them all reads each line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import CHECKOUT, PARTS, chosen

_PART = """
import asyncio
import sys
from pathlib import Path

import structlog

from bench.inside import open_inside
from bench.rows import Row, tell


async def measure():
    async with open_inside(Path(sys.argv[1])):
        structlog.get_logger().info("a host paid a debt")


asyncio.run(measure())
tell(Row(what="nothing", measured=1.0, unit="s"))
"""


def test_what_a_cloud_logs_meanwhile_is_not_among_the_rows(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PART, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert [line[:7] for line in done.stdout.splitlines()] == ['{"what"']
    assert "a host paid a debt" in done.stderr


def test_the_parts_that_are_asked_for_are_there() -> None:
    assert chosen(["attach", "detach", "recovery"]) == ["attach", "recovery"]
    assert chosen([]) == [*PARTS]
    assert [part for part in PARTS if not (CHECKOUT / f"bench/{part}.py").exists()] == []
    with pytest.raises(SystemExit, match="no part is called detatch"):
        chosen(["detatch"])
