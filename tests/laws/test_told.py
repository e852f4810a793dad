"""Law *told*, where the others do not get to: an operation that ends before it began.

And that nothing is told of which it does not know.
"""

from __future__ import annotations

import pytest
from sqlalchemy import select

from mooring.saga.tables import SagaRow
from tests.laws.scenarios import EVENTS, SCENARIOS
from tests.laws.test_steps import SAGAS
from tests.laws.told import Story
from tests.laws.trials import Trials

pytestmark = pytest.mark.anyio
OTHERWISE_TOLD = {
    *("compute.attach_waiting", "compute.detach_waiting", "compute.extend_volume"),
    *("compute.fence_host", "compute.picture_volumes", "compute.reset_state"),
    *("share.apply_rule", "share.deny_rule", "share.create_snapshot", "share.delete_snapshot"),
    *("volume.create_snapshot", "volume.copy_snapshot", "volume.delete_snapshot"),
    "volume.await_turn",
    *("volume.back_up_in_use", "volume.back_up_snapshot", "volume.upload_volume"),
    *("volume.connect_attachment", "volume.delete_attachment", "volume.extend_volume"),
    *("volume.migrate_volume", "volume.migrate_in_use"),
}
"""Sagas whose end, going well, is no notification: an instance action or a message alone tells of
it, or another saga, or a step that may be that of another saga, too."""


def test_it_is_known_of_every_saga_what_it_tells() -> None:
    tellers = {saga.name for saga in SAGAS if saga.story}
    stories = [event for event in EVENTS if isinstance(event, Story)]
    assert tellers - {saga.name for story in stories for saga in story.sagas} == OTHERWISE_TOLD


def test_no_event_is_described_twice() -> None:
    names = [name for event in EVENTS for name in event.named()]
    assert len(names) == len(set(names))


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
