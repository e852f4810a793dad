"""A short run leaves no test out, but of many cases half, and of the two databases one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

from tests.sampling import FEW
from tests.tidy.tree import CHECKOUT

OF_BOTH = "tests/store/test_loaded.py"
OF_EITHER = "tests/identity/test_bootstrap.py"
DATABASES = ("sqlite", "postgresql")


def collect(*options: str) -> list[str]:
    """Return the names of the tests that run with some options, of two modules."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    asked = subprocess.run(
        [*command, *options, OF_BOTH, OF_EITHER],
        cwd=CHECKOUT,
        # What is printed is read: options of who runs this would change it.
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in asked.stdout.splitlines() if "::" in line]


def without_database(test: str) -> str:
    for database in DATABASES:
        test = test.replace(database, "")
    return test


def name_of(case: str) -> str:
    return case.partition("[")[0]


def test_a_short_run_has_a_case_on_one_database_and_what_tries_databases_on_both() -> None:
    short, whole = collect("--brief"), collect()
    times = Counter(map(without_database, short))
    assert {n for test, n in times.items() if OF_EITHER in test} == {1}
    assert {test for test in short if OF_BOTH in test} == {
        test for test in whole if OF_BOTH in test
    }
    tried, there = (Counter(map(name_of, {*map(without_database, one)})) for one in (short, whole))
    assert {test: n for test, n in there.items() if n <= FEW} == {
        test: n for test, n in tried.items() if there[test] <= FEW
    }
    assert any(n > FEW for n in there.values())
    for test, cases in there.items():
        least = cases if OF_BOTH in test or cases <= FEW else max(FEW, cases / 2)
        assert least <= tried[test] <= least + 1, test
    for database in DATABASES:
        assert any(OF_EITHER in test and database in test for test in short)
