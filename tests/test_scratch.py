"""What killed runs of the tests left is removed by the next one, and nothing that is in use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests import scratch

_MAKES_ONE = """
import sys
from pathlib import Path
from tests import scratch
print(scratch.make("one-", Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def test_a_directory_lasts_as_long_as_its_process(tmp_path: Path) -> None:
    words = [sys.executable, "-c", _MAKES_ONE, str(tmp_path)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        theirs = Path(process.stdout.readline().strip())
        ours = scratch.make("one-", tmp_path)
        assert sorted(tmp_path.iterdir()) == sorted([theirs, ours])
        process.send_signal(signal.SIGKILL)
    third = scratch.make("one-", tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([ours, third])


def test_the_latest_that_were_left_stay_where_somebody_wants_them(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"one-{number}").mkdir()
        os.utime(tmp_path / f"one-{number}", ns=(number + 1, number + 1))
    made = scratch.make("one-", tmp_path, keep=1)
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "one-2", made])
