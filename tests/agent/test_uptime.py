from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from mooring.agent import uptime

NOW = datetime(2026, 1, 1, 8, 32, 11, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ("59.9 1", "up 0 min,"),
        ("3725.00 7200.1", "up 1:02,"),
        ("90000 1", "up 1 day, 1:00,"),
        ("8101500.5 1", "up 93 days, 18:25,"),
    ],
)
def test_it_says_how_long_the_machine_runs(tmp_path: Path, seconds: str, words: str) -> None:
    file = tmp_path / "uptime"
    file.write_text(seconds)
    told = uptime.read(NOW, file)
    assert told.startswith(f" 08:32:11 {words}")
    assert "load average: " in told


@pytest.mark.parametrize("content", ["", "soon", None])
def test_who_cannot_tell_says_nothing(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "uptime"
    if content is not None:
        file.write_text(content)
    assert uptime.read(NOW, file) == ""
