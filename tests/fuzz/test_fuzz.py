"""Whatever is sent, no service fails: no answer is a server's mistake, and every operation ends.

A seed that fails is run again by the name of its case. `make fuzz` runs all of them, on both
databases: 100,000 requests together, or as many as `make fuzz REQUESTS=20000` says.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from tests.answers import Answer
from tests.cloud import SimulatedCloud
from tests.crowd.case import Case
from tests.crowd.clients import SERVICES, Crowd
from tests.fuzz import questions
from tests.fuzz.amount import count_seeds
from tests.fuzz.questions import Question

pytestmark = pytest.mark.anyio

REQUESTS = 250
"""Sent for each seed."""
SEEDS = [f"seed-{number}" for number in range(count_seeds(os.environ, REQUESTS))]
_BATCH = 25
"""After so many requests everything may come to rest."""


class Stranger:
    """Somebody who sends what comes to their mind, and notes what the answers should not say."""

    def __init__(self, cloud: SimulatedCloud, seed: str) -> None:
        self.cloud, self.chance = cloud, Random(seed)
        self.known: list[str] = []
        self.wrong: list[str] = []
        self._names: dict[str, dict[str, str]] = {}
        self._crowds: dict[str, Crowd] = {}

    async def arrive(self) -> None:
        furnished = Crowd(self.cloud, "")
        await furnished.furnish()
        for service, (root, _) in SERVICES.items():
            self._crowds[service] = Crowd(self.cloud, root)
            self._crowds[service].names |= furnished.names
        self.known += furnished.names.values()

    async def ask_something(self) -> None:
        service = self.chance.choice(list(SERVICES))
        root, cases = SERVICES[service]
        if self.chance.random() < 0.35:
            question = questions.read(self.chance, service, root, self.known[-200:])
        else:
            case = self.chance.choice(cases)
            names = await self._prepare(service, case)
            question = questions.ask(self.chance, service, root, case, names)
        answer = await self._send(question)
        if answer.status >= 500 and answer.status != 501:
            self.wrong.append(f"{question}: {answer.status} {answer.content[:500]!r}")
        self._remember(answer)

    async def _prepare(self, service: str, case: Case) -> dict[str, str]:
        """Return the ids that a case names; what it stands on is made once, if that can be."""
        crowd = self._crowds[service]
        if case.route not in self._names:
            name = f"case{len(self._names)}"
            names = {**crowd.names, "case": name, "CASE": name.upper(), "case12": "0" * 11}
            self._names[case.route] = names
            for ask in case.before:
                try:
                    await crowd.prepare(ask, names)
                except AssertionError:
                    # Something asked before has taken away what it needs.
                    break
        return self._names[case.route]

    async def _send(self, question: Question) -> Answer:
        answer = await self.cloud.do(
            question.method,
            question.path,
            question.body,
            user=question.user,
            version=question.version,
            headers=question.headers,
        )
        assert answer is not None
        return answer

    def _remember(self, answer: Answer) -> None:
        if answer.status < 300 and answer.content[:1] == b"{":
            self.known += _ids(json.loads(answer.content))


def _ids(told: Any) -> list[str]:
    """Return what an answer names things by."""
    found: list[str] = []
    if isinstance(told, list):
        for item in cast("list[Any]", told)[:5]:
            found += _ids(item)
    elif isinstance(told, dict):
        for key, item in cast("dict[str, Any]", told).items():
            found += [str(item)] if key in {"id", "uuid", "name"} and item else _ids(item)
    return found


@pytest.fixture
async def cloud(database: str, tmp_path: Path) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path / "state", database=database) as made:
        yield made


@pytest.mark.cases(SEEDS, 1)
async def test_nothing_that_is_sent_is_answered_with_a_server_s_mistake(
    cloud: SimulatedCloud, case: str
) -> None:
    stranger = Stranger(cloud, case)
    await stranger.arrive()
    for number in range(REQUESTS):
        await stranger.ask_something()
        if number % _BATCH == 0:
            await cloud.look_at_hosts()
            await cloud.settle()
    await cloud.settle()
    assert stranger.wrong == []
    assert await cloud.unfinished() == []
