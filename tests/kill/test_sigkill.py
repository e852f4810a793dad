"""Kill a process at a point its sagas have: every operation ends, and the doctor finds nothing.

`make test` kills at a sample that the commit chooses, `make kill` (--every) at every point.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kill.agent_points import AGENT_POINTS, AgentPoint
from tests.kill.harness import OTHER, KilledCloud, copy_template
from tests.kill.saga_points import SAGA_POINTS, SagaPoint
from tests.kill.shared_move_workload import SWEEP
from tests.kill.workload import load_project, rarer_operations, ten_operations

pytestmark = pytest.mark.kill

DIES_S = 120.0
SAMPLE = 7
SAMPLE_OF_AGENT = 4
SAMPLE_ON_POSTGRESQL = 3
SAMPLE_OF_AGENT_ON_POSTGRESQL = 1


@pytest.mark.cases(SAGA_POINTS, SAMPLE)
def test_a_killed_control_plane_ends_every_operation(case: SagaPoint, template: Path) -> None:
    live_through(KilledCloud(copy_template(template)), case)


@pytest.mark.postgres
@pytest.mark.cases(SAGA_POINTS, SAMPLE_ON_POSTGRESQL)
def test_a_killed_control_plane_on_postgresql_ends_every_operation(
    case: SagaPoint, on_postgresql: Callable[[str], KilledCloud]
) -> None:
    live_through(on_postgresql(case.name), case)


@pytest.mark.cases(AGENT_POINTS, SAMPLE_OF_AGENT)
def test_a_killed_agent_ends_every_operation(case: AgentPoint, template: Path) -> None:
    live_with(KilledCloud(copy_template(template)), case)


@pytest.mark.postgres
@pytest.mark.cases(AGENT_POINTS, SAMPLE_OF_AGENT_ON_POSTGRESQL)
def test_a_killed_agent_on_postgresql_ends_every_operation(
    case: AgentPoint, on_postgresql: Callable[[str], KilledCloud]
) -> None:
    live_with(on_postgresql(case.name), case)


def live_with(cloud: KilledCloud, case: AgentPoint) -> None:
    """Do ten things while an agent dies at the point and comes back: all of it ends."""
    project = load_project((cloud.directory / "project.json").read_bytes())
    there = case.host == OTHER
    cloud.start_agent(kill_at="" if there else case.kill_at, held_at=case.held_at)
    if case.is_of_move:
        cloud.start_other(kill_at=case.kill_at if there else "")
    cloud.start_control(kill_at=case.failing)
    try:
        besides = case.besides(rarer_operations(cloud, project))
        dying = cloud.other if there else cloud.agent
        assert dying is not None
        with cloud.meanwhile(*ten_operations(cloud, project), *besides):
            cloud.until(dying.is_dead, f"the agent passes {case.name}", DIES_S)
            assert dying.wait() == -9
            (cloud.start_other if there else cloud.start_agent)()
        cloud.settle()
        cloud.until(lambda: not cloud.findings(), "the doctor finds nothing")
    finally:
        cloud.stop()


def live_through(cloud: KilledCloud, case: SagaPoint) -> None:
    """Do ten things, die at the point, come back, and see that all of it has ended."""
    project = load_project((cloud.directory / "project.json").read_bytes())
    if case.has_two_pools:
        cloud.give_two_pools()
    cloud.start_agent()
    if case.kill_other_at is not None:
        cloud.start_other(kill_at=case.kill_other_at)
    cloud.start_control(kill_at=case.kill_at)
    try:
        besides = case.besides(rarer_operations(cloud, project))
        cloud.at_once(*ten_operations(cloud, project), *besides)
        cloud.until(cloud.control.is_dead, f"the process passes {case.name}", DIES_S)
        assert cloud.control.wait() == -9
        cloud.start_control()
        cloud.settle()
        if case.saga.name == SWEEP:
            # One that was killed as it began, nobody asked for: the next look begins it again.
            cloud.ask("POST", "/mooring/doctor", user="admin")
            cloud.settle()
        assert cloud.findings() == []
    finally:
        cloud.stop()
