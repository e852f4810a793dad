"""Kill all three parties of a move at one moment: it ends, and the doctor finds nothing.

One of them dies at a point that the move comes to, and both others as soon as it is dead, wherever
they are. They come back in an order that the point chooses: hosts may be asked by nobody for a
while, and the control plane may find hosts that do not answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kill.agent_points import AGENT_POINTS, AgentPoint
from tests.kill.harness import FIRST, KilledCloud, copy_template
from tests.kill.processes import ForkedProcess
from tests.kill.saga_points import SAGA_POINTS, SagaPoint
from tests.kill.workload import load_project, rarer_operations, ten_operations

pytestmark = pytest.mark.kill

Case = AgentPoint | SagaPoint
DIES_S = 120.0
SAMPLE = 4
SAMPLE_ON_POSTGRESQL = 2
OF_CONTROL = [point for point in SAGA_POINTS if point.kill_other_at is not None]
OF_HOSTS = [point for point in AGENT_POINTS if point.is_of_move]
CASES: list[Case] = [*OF_CONTROL, *OF_HOSTS]


@pytest.mark.cases(CASES, SAMPLE)
def test_a_move_ends_whose_parties_are_killed_together(case: Case, template: Path) -> None:
    live_through(KilledCloud(copy_template(template)), case)


@pytest.mark.postgres
@pytest.mark.cases(CASES, SAMPLE_ON_POSTGRESQL)
def test_a_move_on_postgresql_ends_whose_parties_are_killed_together(
    case: Case, on_postgresql: Callable[[str], KilledCloud]
) -> None:
    live_through(on_postgresql(case.name), case)


def live_through(cloud: KilledCloud, case: Case) -> None:
    """Do ten things and the move, let all three die and come back, and see that all has ended."""
    project = load_project((cloud.directory / "project.json").read_bytes())
    begin(cloud, case)
    try:
        besides = case.besides(rarer_operations(cloud, project))
        with cloud.meanwhile(*ten_operations(cloud, project), *besides):
            assert dying(cloud, case).wait(DIES_S) == -9
            cloud.kill()
        for start in coming_back(cloud, case):
            start()
        cloud.settle()
        cloud.until(lambda: not cloud.findings(), "the doctor finds nothing")
    finally:
        cloud.stop()


def begin(cloud: KilledCloud, case: Case) -> None:
    """Start all three, one of which is to die at the point."""
    held_at = "" if isinstance(case, SagaPoint) else case.held_at
    if isinstance(case, SagaPoint):
        settings = "", case.kill_other_at or "", case.kill_at
    elif case.host == FIRST:
        settings = case.kill_at, "", case.failing
    else:
        settings = "", case.kill_at, case.failing
    cloud.start_agent(settings[0], held_at)
    cloud.start_other(settings[1])
    cloud.start_control(settings[2])


def dying(cloud: KilledCloud, case: Case) -> ForkedProcess:
    """Return the process that dies at the point."""
    if isinstance(case, SagaPoint):
        return cloud.control
    died = cloud.agent if case.host == FIRST else cloud.other
    assert died is not None
    return died


def coming_back(cloud: KilledCloud, case: Case) -> list[Callable[[], None]]:
    """Return what starts the three again, in an order that is the same for the same point."""
    starts: list[Callable[[], None]] = [cloud.start_agent, cloud.start_other, cloud.start_control]
    random.Random(case.name).shuffle(starts)
    return starts
