"""Which cases run: all of them with `--every`, else a sample that the commit chooses."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")


def seed() -> str:
    """Return what chooses: the same cases for the same commit, others for the next."""
    asked = ["git", "rev-parse", "HEAD"]
    here = Path(__file__).parent
    found = subprocess.run(asked, capture_output=True, text=True, cwd=here, check=False)
    return found.stdout.strip() or "no commit"


def choose(config: pytest.Config, what: str, cases: Sequence[T], count: int) -> list[T]:
    """Return the cases to run, in their order; all when there are not more than `count`."""
    everything = config.getoption("--every") or config.getoption("--golden")
    if everything or len(cases) <= count:
        return list(cases)
    chosen = random.Random(f"{seed()} {what}").sample(range(len(cases)), count)
    return [cases[index] for index in sorted(chosen)]
