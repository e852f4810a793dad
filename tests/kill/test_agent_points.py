"""The kill harness passes over no verb of an agent without saying why."""

from __future__ import annotations

from mooring.agent_api import verbs
from tests.kill.agent_points import AGENT_POINTS, UNUSED


def test_an_agent_is_killed_in_every_verb_that_is_not_said_to_be_unused() -> None:
    acting = {name for name, verb in verbs.VERBS.items() if verb.method != "GET"}
    assert {point.verb for point in AGENT_POINTS} | UNUSED.keys() == acting
    assert not {point.verb for point in AGENT_POINTS} & UNUSED.keys()
    assert all(UNUSED.values())
