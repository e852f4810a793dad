"""Which cases run: all of them with `--every`, else a sample that the commit chooses.

With `--brief`, the same of the tests that start real guests or run stock clients, of the two
databases, one for each case, and of a test with many cases, a third of them.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")
OF_A_CLOUD = 2
"""Tests of one cloud with real guests that a short run has at most: each takes up to a minute."""
FEW = 4
"""Cases of one test that are no fewer in a short run; of many, a third."""
COLLECTED = pytest.StashKey[list[str]]()
"""Ids of what was collected, before anything of it was left out."""
OF_DATABASES = {"store", "saga", "fuzz"}
"""Directories whose tests are what a database has to be like: they always run on both, whole."""
OF_FILES = {"tidy", "mutants", "access", "compat"}
"""Directories whose cases look at one file each, and take next to no time: they run whole."""


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


def leave_out(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Return what a short run leaves out: of the tests that take longest, and one of two databases.

    Of single tests with real guests nineteen in twenty; of modules of those that share a cloud
    (tests/hosts) nine in ten, as making the cloud takes longest, and of the others all but a few
    tests each; of modules of stock clients nine in ten.
    What is marked `long` it always leaves out.
    Of tests of which enough is left by then, it leaves out two cases in three.
    """
    guests = [item for item in items if item.get_closest_marker("hosts")]
    alone = [item for item in guests if not _shares_cloud(item)]
    sharing = [item for item in guests if _shares_cloud(item)]
    commands = [item for item in items if item.get_closest_marker("contract")]
    left = {item for item in items if item.get_closest_marker("long")}
    left |= _leave(alone, lambda item: item.nodeid, 1 / 20)
    left |= _leave(sharing, _module_of, 1 / 10)
    left |= _leave(commands, _module_of, 1 / 10)
    left |= _leave_but(OF_A_CLOUD, [item for item in sharing if item not in left])
    left |= _leave_databases(items)
    return left | _leave_cases([item for item in items if item not in left])


def spread(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the same tests, modules with real guests evenly among the others.

    So that no process of tests is left alone with them at the end, while the others are done.
    """
    modules = _groups(items, _module_of)
    heavy = {_module_of(item) for item in items if item.get_closest_marker("hosts")}
    slow = [found for name, found in modules.items() if name in heavy]
    quick = [found for name, found in modules.items() if name not in heavy]
    # Which of them are next to each other: no process begins with all the long ones.
    random.Random(seed()).shuffle(slow)
    places = [((2 * at + 1) * len(slow), found) for at, found in enumerate(quick)]
    places += [((2 * at + 1) * len(quick), found) for at, found in enumerate(slow)]
    return [item for _, found in sorted(places, key=lambda one: one[0]) for item in found]


def _leave(
    items: Sequence[pytest.Item], key: Callable[[pytest.Item], str], share: float
) -> set[pytest.Item]:
    """Return all but a share of the groups that a key makes of tests; the commit chooses."""
    groups = _groups(items, key)
    names = sorted(groups)
    random.Random(f"{seed()} guests").shuffle(names)
    return {item for name in names[round(len(names) * share) :] for item in groups[name]}


def _leave_but(most: int, items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Return what is beyond so many tests of each module; the commit chooses."""
    left: set[pytest.Item] = set()
    for name, found in sorted(_groups(items, _module_of).items()):
        random.Random(f"{seed()} {name}").shuffle(found)
        left |= set(found[most:])
    return left


def _leave_databases(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Return each case that runs on either database as it is on one of them: the commit chooses.

    A test with several cases keeps every other one on each.
    """
    either = [
        one for one in items if _database_of(one) and one.path.parent.name not in OF_DATABASES
    ]
    pairs = {name: found for name, found in _groups(either, _case_of).items() if len(found) == 2}
    left: set[pytest.Item] = set()
    for test, cases in sorted(_groups([pair[0] for pair in pairs.values()], _test_of).items()):
        chance = random.Random(f"{seed()} {test}")
        chance.shuffle(cases)
        first = chance.randrange(2)
        left |= {pairs[_case_of(one)][(first + at) % 2] for at, one in enumerate(cases)}
    return left


def _leave_cases(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Return two thirds of the cases of each test that has many; the commit chooses.

    Not of tests that say themselves how large their sample is, nor of those that always run whole.
    """
    whole = OF_DATABASES | OF_FILES
    single = [
        one
        for one in items
        if one.path.parent.name not in whole and one.get_closest_marker("cases") is None
    ]
    left: set[pytest.Item] = set()
    for test, cases in sorted(_groups(single, _test_of).items()):
        random.Random(f"{seed()} {test}").shuffle(cases)
        left |= set(cases[max(FEW, -(-len(cases) // 3)) :])
    return left


def _groups(
    items: Sequence[pytest.Item], key: Callable[[pytest.Item], str]
) -> dict[str, list[pytest.Item]]:
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _module_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _test_of(item: pytest.Item) -> str:
    """Return a test's name, without the case."""
    return item.nodeid.partition("[")[0]


def _case_of(item: pytest.Item) -> str:
    """Return the name of a test and its case, whatever the database."""
    words = item.nodeid.partition("[")[2].rstrip("]").split("-")
    return _test_of(item) + "-".join(word for word in words if word != _database_of(item))


def _database_of(item: pytest.Item) -> str:
    """Return which database a test runs on, where it runs on each; else nothing."""
    case = getattr(item, "callspec", None)
    return str(case.params.get("database", "")) if case else ""


def _shares_cloud(item: pytest.Item) -> bool:
    return item.path.parent.name == "hosts"
