"""The states that are opened: a sample, or all with `--every`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.laws.trials import Trials
from tests.sampling import choose
from tests.upgrade.states import KEPT, open_archive

SAMPLE = 12
RELEASES = sorted(path.name.removesuffix(".json.xz") for path in KEPT.glob("*.json.xz"))


@pytest.fixture(scope="module")
def trials() -> Iterator[Trials]:
    made = Trials()
    yield made
    made.remove()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that takes a `release` and a `state` both."""
    if "state" in metafunc.fixturenames:
        cases = [(name, state) for name in RELEASES for state in open_archive(name).states]
        chosen = choose(metafunc.config, "upgrade", cases, SAMPLE)
        names = [f"{release}-{state}" for release, state in chosen]
        metafunc.parametrize(("release", "state"), chosen, ids=names)
