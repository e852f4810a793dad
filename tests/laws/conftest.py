"""What all laws share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.laws.trials import Trials


@pytest.fixture(scope="session")
def trials() -> Iterator[Trials]:
    made = Trials()
    yield made
    made.remove()
