"""What all laws share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mooring.agent import serving
from mooring.compute.moves.sagas import sending
from tests.laws.trials import Trials

SAMPLED = 2
"""In how many scenarios a sampled case is tried: of some sagas there are twelve and more."""


def count_scenarios(config: pytest.Config) -> int:
    """Return in how many scenarios a case is tried; 0: in all that come to it."""
    return 0 if config.getoption("--every") else SAMPLED


@pytest.fixture(scope="session")
def trials(pytestconfig: pytest.Config) -> Iterator[Trials]:
    made = Trials(most=count_scenarios(pytestconfig))
    yield made
    made.remove()


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have guests on their way looked at more often than every 5 s, which is real time here."""
    monkeypatch.setattr(serving, "AGENT_PATIENCE_S", 0.05)
    monkeypatch.setattr(sending, "_LOOK_S", 0.2)
