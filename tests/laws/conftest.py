"""What all laws share the arrangements of, and the cases that they choose."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.laws.sampling import choose
from tests.laws.trials import Trials


@pytest.fixture(scope="session")
def trials() -> Iterator[Trials]:
    made = Trials()
    yield made
    made.remove()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test marked `cases(list, count)` its parameter `case`: a sample, or all."""
    for marker in metafunc.definition.iter_markers("cases"):
        cases, count = marker.args
        chosen = choose(metafunc.config, metafunc.definition.nodeid, cases, count)
        metafunc.parametrize(
            "case", chosen, ids=[getattr(case, "name", str(case)) for case in chosen]
        )
