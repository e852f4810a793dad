"""Law *told*, where the others do not get to: an operation that ends before it began."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from mooring.saga.tables import SagaRow
from tests.laws.scenarios import SCENARIOS
from tests.laws.trials import Trials

pytestmark = pytest.mark.anyio


async def test_a_reboot_that_is_aborted_while_it_waits_was_never_begun(
    trials: Trials,
) -> None:
    [scenario] = [one for one in SCENARIOS if one.name == "insist on reboot"]
    async with trials.begin(scenario) as trial:
        await trial.act()
        cloud = trial.cloud.cloud
        engine, store = cloud.engines["compute"], cloud.stores["compute"]
        query = select(SagaRow.id).where(SagaRow.name == scenario.saga.name)
        waiting = await store.read(lambda tx: tx.execute(query).scalar_one())
        await store.write(lambda tx: engine.abort(tx, waiting))
        await trial.settle()
        assert await trial.ending(scenario.saga) == "undone"
        told = [one.event_type for one in await trial.cloud.told("compute")]
        # What the soft reboot said, whose host answered late.
        said = ["instance.reboot.start", "instance.reboot.end"]
        assert [one for one in told if "reboot" in one] == said
