"""Which cases run: all of them with `--every`, else a sample that the commit chooses.

With `--brief`, the same of the tests that start real guests.
"""

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


def choose_guests(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Return those of the tests with real guests that a short run leaves out.

    Of single tests two in three; of those that share a cloud (tests/hosts) every other module, as
    making the cloud takes longest.
    """
    alone = {item.nodeid: [item] for item in _with_guests(items) if not _shares_cloud(item)}
    shared: dict[str, list[pytest.Item]] = {}
    for item in _with_guests(items):
        if _shares_cloud(item):
            shared.setdefault(item.path.name, []).append(item)
    left: set[pytest.Item] = set()
    for groups, run in ((alone, len(alone) // 3), (shared, len(shared) // 2)):
        names = sorted(groups)
        random.Random(f"{seed()} guests").shuffle(names)
        left.update(item for name in names[run:] for item in groups[name])
    return left


def _with_guests(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    return [item for item in items if item.get_closest_marker("hosts")]


def _shares_cloud(item: pytest.Item) -> bool:
    return item.path.parent.name == "hosts"
