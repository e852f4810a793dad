"""Every seeded fault is noticed by the tests it names: two in each run, all with `--every`."""

from __future__ import annotations

import os
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

import pytest

from tests.mutants.mutant import Mutant
from tests.sampling import COLLECTED, choose

CHECKOUT = Path(__file__).parents[2]
SAMPLE = 2
LIMIT_S, HANGING_S = 300, 60
"""How long the tests may take that notice a fault, and how long those do at least that hang."""


def find_mutants() -> list[Mutant]:
    """Return the faults of every area, in the order of their modules' names."""
    modules = pkgutil.iter_modules([str(Path(__file__).parent)])
    areas = [one.name for one in modules if one.name not in {"mutant", "test_mutants"}]
    return [one for area in areas for one in import_module(f"tests.mutants.{area}").MUTANTS]


MUTANTS = find_mutants()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mutant" in metafunc.fixturenames:
        chosen = choose(metafunc.config, "mutants", MUTANTS, SAMPLE)
        metafunc.parametrize("mutant", chosen, ids=str)


@pytest.mark.parametrize("known", MUTANTS, ids=str)
def test_every_fault_still_fits(known: Mutant) -> None:
    assert (CHECKOUT / "src/mooring" / known.file).read_text("utf-8").count(known.old) == 1


def test_every_fault_has_a_name_of_its_own() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names))


def test_every_fault_names_tests_that_there_are(pytestconfig: pytest.Config) -> None:
    unseen = find_unseen(MUTANTS, pytestconfig.stash[COLLECTED])
    # Cases that this run has not chosen are looked for, and files that it was not asked for.
    assert find_unseen(unseen, collect(sorted({file_of(one) for one in unseen}))) == []


def collect(files: Sequence[str]) -> list[str]:
    """Return the ids of all tests of some files, every case among them."""
    if not files:
        return []
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--every"]
    asked = subprocess.run(
        [*command, "-p", "no:cacheprovider", *files],
        cwd=CHECKOUT,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in asked.stdout.splitlines() if "::" in line]


def find_unseen(mutants: Sequence[Mutant], tests: Sequence[str]) -> list[Mutant]:
    """Return the faults that name none of some tests."""
    of_file: dict[str, list[str]] = {}
    for test in tests:
        of_file.setdefault(test.partition("::")[0], []).append(test.lower())
    return [one for one in mutants if not any(map(names(one), of_file.get(file_of(one), [])))]


def file_of(mutant: Mutant) -> str:
    """Return the file of the tests that a fault names."""
    return mutant.tests.partition("::")[0]


def names(mutant: Mutant) -> Callable[[str], bool]:
    """Return whether a fault names a test, by the test's id in small letters."""
    where = mutant.tests.lower()
    ways = [way.split(" and ") for way in mutant.only.lower().split(" or ")]

    def named(test: str) -> bool:
        return test.startswith(where) and any(all(word in test for word in way) for way in ways)

    return named


def test_the_fault_is_noticed(mutant: Mutant, tmp_path: Path) -> None:
    source = tmp_path / "src"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(CHECKOUT / "src/mooring", source / "mooring", ignore=ignored)
    file = source / "mooring" / mutant.file
    file.write_text(file.read_text("utf-8").replace(mutant.old, mutant.new) + mutant.more, "utf-8")
    command = [sys.executable, "-m", "pytest", mutant.tests, "-x", "-q", "--every"]
    command += ["-o", f"pythonpath={source} {CHECKOUT}", "-p", "no:cacheprovider"]
    command += ["-k", mutant.only] if mutant.only else []
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ran = subprocess.run(
            command,
            cwd=CHECKOUT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=HANGING_S if mutant.hangs else LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        # On a machine that is busy the tests may only be slow, and notice nothing in the end.
        assert mutant.hangs, f"the tests of '{mutant}' did not end within {LIMIT_S} s"
        return
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout[-2000:] + ran.stderr[-2000:]
