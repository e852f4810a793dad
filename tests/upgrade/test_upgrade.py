"""What a release began this one ends: its state directories open, every operation comes to rest.

Each of them was left by a process that died in the middle of an operation: before a step, after it,
in its undo, in a bad end. It is opened as an operator would, with the same settings.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mooring.identity.tables import Base as IdentityBase
from mooring.saga import laws
from mooring.saga.define import Saga
from mooring.saga.laws import Outcome
from tests.cloud import SimulatedCloud
from tests.laws.assisted_scenarios import Desk
from tests.laws.scenarios import EVENTS, SCENARIOS
from tests.laws.sites import HOSTS, Site, Trial
from tests.laws.trials import Trials
from tests.upgrade.states import State, open_archive

pytestmark = pytest.mark.anyio
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
_ID = re.compile(r"\b[0-9a-f]{32}\b")
_USERS = frozenset(IdentityBase.metadata.tables)
_PROPERTIES = re.compile(r'"image_properties": \{[^{}]*\}, ')
_RESERVED_BY = re.compile(r'("user_id"|"by_service"): (null|true|false|"\*?")')


class Reopened(Trial):
    """A trial that another process began, with users of its own: these are not compared."""

    async def snapshot(self) -> dict[str, Any]:
        return compared(await super().snapshot())

    async def ending(self, saga: Saga[Any]) -> str:
        """Return how the newest saga of this name ended, which began before the trial did."""
        return await self.cloud.ending(saga, datetime.fromtimestamp(0, UTC))


def compared(seen: dict[str, Any]) -> dict[str, Any]:
    """Return what is to be the same in every cloud, whoever its users are."""
    kinds = {kind: rows for kind, rows in seen.items() if kind not in _USERS}
    found = {kind: sorted(_ID.sub("*", row) for row in rows) for kind, rows in kinds.items()}
    # Who reserved a volume, and by which way, is kept since: attachments of before are nobody's.
    if "attachments" in found:
        found["attachments"] = sorted(
            _RESERVED_BY.sub(r"\1: *", row) for row in found["attachments"]
        )
    # A rebuild that the release before began leaves the properties of the server's former image.
    if "servers" in found:
        found["servers"] = sorted(_PROPERTIES.sub("", row) for row in found["servers"])
    return found


@asynccontextmanager
async def opened(release: str, state: State, directory: Path) -> AsyncGenerator[Reopened]:
    """Lay a state out and open it with the code of today."""
    open_archive(release).lay_out(state, directory)
    start = datetime.fromisoformat(state.now)
    cloud = SimulatedCloud(
        directory, roles=HOSTS, start=start, inline=True, notifications=("keep",)
    )
    site = Site(cloud, dict(state.names))
    if state.desk:
        site.stand_in = desk = Desk()
        for snapshot_id, status in state.desk.items():
            desk.begin(snapshot_id, status)
    await cloud.open()
    try:
        yield Reopened(BY_NAME[state.scenario], site, EVENTS)
    finally:
        await cloud.close()


async def test_every_operation_of_a_release_ends(
    trials: Trials, release: str, state: State, tmp_path: Path
) -> None:
    scenario = BY_NAME[state.scenario]
    learnt = await trials.learn(scenario)
    outcome = Outcome(compared(learnt.before), compared(learnt.after), learnt.points)
    async with opened(release, state, tmp_path) as trial:
        await trial.settle()
        when = f"{release} at {state.point}"
        await laws.require_peace(trial, when)
        await laws.require_end(trial, scenario.saga, outcome, when)
