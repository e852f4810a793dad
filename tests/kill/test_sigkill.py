"""Kill a process at a point its sagas have: every operation ends, and the doctor finds nothing.

`make test` kills at a sample that the commit chooses, `make kill` (--every) at every point.
"""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from psycopg import sql

from mooring.agent import copying, disks, moves, servers, volumes
from mooring.agent_api import verbs
from mooring.saga import laws
from mooring.saga.define import Each, Saga, Step
from mooring.services import SERVICES
from tests.kill import shared_move_workload
from tests.kill.extend_workload import HANGING, HELD_UP, INSIST
from tests.kill.guest_share_workload import DETACHING
from tests.kill.harness import KilledCloud, copy_template, put_away, running
from tests.kill.move_workload import (
    COPY,
    DELETE_MOVING,
    GROW,
    HELD,
    IN_VAIN,
    MOVE,
    MOVES,
    STAYS,
    UNDONE,
)
from tests.kill.rebuild_workload import LEFT_RESERVED, RENEW
from tests.kill.workload import load_project, prepare, rarer_operations, ten_operations
from tests.postgres import Server

pytestmark = pytest.mark.kill

DIES_S = 120.0
SAMPLE = 20
SAMPLE_OF_AGENT = 6
SAMPLE_ON_POSTGRESQL = 4
SAGAS = laws.sagas_of(*(each.name for each in SERVICES))
UNUSED = {
    *("claim_server", "claim_volume", "delete_image", "fence_holder", "hasten_departure"),
    *("lift_fence", "withdraw_offer", "discard_copy", "take_back_restored"),
}
"""Verbs that no operation asks for here: servers and volumes are claimed from deletions that their
hosts left unanswered, a guest is hastened that has been on its way for long, a disk's copy is taken
back where its server stays, and the others, which take an image out of a host's cache or from its
holder, are for operators."""
VERBS = [
    name
    for module in (servers, disks, volumes, moves, copying)
    for name in module.handlers.by_name
    if verbs.VERBS[name].method != "GET" and name not in UNUSED
]
AGENT_POINTS = [f"agent/{name}/{moment}" for name in VERBS for moment in ("begin", "acted")]
UNWINDING = {
    "forget_resize": "!compute.extend_volume/resize_disk/forward/after",
    "forget_content": "!volume.reimage_volume/replace_content/forward/after",
    "delete_arrival": UNDONE,
}
"""What has to fail so that an agent is asked for a verb that only takes back."""
AT_DESTINATION = {"connect", "put_arrival", "delete_arrival", "put_copy"}
"""Verbs that the host is asked which a server moves to."""
OF_COPIES = {"put_offer": COPY, "put_copy": COPY} | dict.fromkeys(
    ("keep_disks", "restore_kept", "forget_kept"), GROW
)
WAITING_FOR = {DELETE_MOVING: HELD} | dict.fromkeys(
    ("compute.reset_state/unmount_share", "compute.reset_state/revoke_access"), DETACHING
)
"""What has to wait so that a step is come to."""
OF_MOVES = {*AT_DESTINATION, *moves.handlers.by_name, *OF_COPIES}
POINTS = [(saga, point) for saga in SAGAS for point in laws.points_of(saga)]


def commit() -> str:
    """What chooses the sample: the same points for the same commit, others for the next."""
    command = ["git", "rev-parse", "HEAD"]
    here = Path(__file__).parent
    found = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "no commit"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test its points: a sample chosen by the commit, or with `--every` all of them."""
    name, every = metafunc.function.__name__, metafunc.config.getoption("--every")
    chance = random.Random(f"{commit()} {name}")
    if "agent" in name:
        count = len(AGENT_POINTS) if every else SAMPLE_OF_AGENT
        metafunc.parametrize("point", chance.sample(AGENT_POINTS, count))
        return
    count = SAMPLE_ON_POSTGRESQL if "postgresql" in name else SAMPLE
    points = chance.sample(POINTS, len(POINTS) if every else count)
    cases = [pytest.param(saga, point, id=point) for saga, point in points]
    metafunc.parametrize(("saga", "point"), cases)


def setting(saga: Saga[Any], point: str) -> str:
    """What `kill_at` must say so that the process gets to the point, and dies there."""
    _, step, heading, _ = point.split("/")
    if heading == "forward" and saga.name == "compute.release_device":
        return f"!compute.detach_volume/delete_attachment/forward/before,{point}"
    if saga.name == "volume.reset_status" and step in {"stop_compute", "settle_size"}:
        return f"{HELD_UP},{point}"
    if saga.name == RENEW and (step, heading) in {
        ("connect_volume", "forward"),
        ("complete_volume", "forward"),
    }:
        return f"{LEFT_RESERVED},{point}"
    if held := WAITING_FOR.get(f"{saga.name}/{step}"):
        return f"{held},{point}"
    before = {INSIST: HANGING, shared_move_workload.RELEASE: shared_move_workload.NOT_LET_GO}
    if saga.name in before:
        point = f"{before[saga.name]},{point}"
    if heading == "forward":
        return point
    refused = f"!{saga.name}/{_last_undo(saga)}/back/before," if heading == "leaving" else ""
    return f"!{saga.name}/{_fails_at(saga, heading)}/forward/before,{refused}{point}"


def _steps(saga: Saga[Any]) -> list[Step]:
    return [
        one
        for part in saga.steps
        for one in (part.steps if isinstance(part, Each) else (part,))
        if isinstance(one, Step)
    ]


def _last_undo(saga: Saga[Any]) -> str:
    """The step whose undo is the first to run, and, refused, ends the unwinding."""
    failing, steps = _fails_at(saga, "leaving"), _steps(saga)
    names = [step.name for step in steps]
    undone = [step.name for step in steps[: names.index(failing) + 1] if step.undo]
    return [name for name in undone if name not in shared_move_workload.OF_SHARES][-1]


def _fails_at(saga: Saga[Any], heading: str) -> str:
    """The step whose failure leads into this heading."""
    names = [one.name for one in _steps(saga)]
    if heading == "failing":
        # Not at the pivot: a leading transaction that fails takes the whole start back.
        return names[-1]
    return names[names.index(saga.pivot) - 1] if saga.pivot else names[-1]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped cloud with a prepared project."""
    directory = tmp_path_factory.mktemp("kill") / "cloud"
    with running(directory) as cloud:
        project = prepare(cloud)
        assert cloud.findings() == []
    (directory / "project.json").write_bytes(msgspec.json.encode(project))
    return put_away(directory)


def test_a_killed_control_plane_ends_every_operation(
    saga: Saga[Any], point: str, template: Path
) -> None:
    cloud = KilledCloud(copy_template(template))
    live_through(cloud, saga, point)


@pytest.fixture(scope="module")
def shared_template(
    postgres_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """The same on PostgreSQL: the directory, and the name of the database to copy."""
    directory = tmp_path_factory.mktemp("kill") / "cloud"
    name = "kill_template"
    with psycopg.connect(postgres_server.url("postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    with running(directory, postgres_server.url(name)) as cloud:
        project = prepare(cloud)
    (directory / "project.json").write_bytes(msgspec.json.encode(project))
    return put_away(directory), name


@pytest.mark.postgres
def test_a_killed_control_plane_on_postgresql_ends_every_operation(
    saga: Saga[Any],
    point: str,
    shared_template: tuple[Path, str],
    postgres_server: Server,
) -> None:
    directory, name = shared_template
    copy = f"kill_{abs(hash(point))}"
    with psycopg.connect(postgres_server.url("postgres"), autocommit=True) as connection:
        names = (sql.Identifier(copy), sql.Identifier(name))
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))
    cloud = KilledCloud(copy_template(directory), postgres_server.url(copy))
    live_through(cloud, saga, point)


def test_a_killed_agent_ends_every_operation(point: str, template: Path) -> None:
    verb = point.split("/")[1]
    cloud = KilledCloud(copy_template(template))
    project = load_project((cloud.directory / "project.json").read_bytes())
    there = verb in AT_DESTINATION
    cloud.start_agent(kill_at="" if there else point)
    if verb in OF_MOVES:
        cloud.start_other(kill_at=point if there else "")
    cloud.start_control(kill_at=UNWINDING.get(verb, ""))
    try:
        rarer = rarer_operations(cloud, project)
        besides = [*rarer["volume.end_legacy"], *rarer["compute.extend_volume"]]
        if "_content/" in point:
            besides = rarer["volume.reimage_volume"]
        if verb in OF_MOVES:
            besides = rarer[OF_COPIES.get(verb, MOVE)]
        dying = cloud.other if there else cloud.agent
        assert dying is not None
        with cloud.meanwhile(*ten_operations(cloud, project), *besides):
            cloud.until(dying.is_dead, f"the agent passes {point}", DIES_S)
            assert dying.wait() == -9
            (cloud.start_other if there else cloud.start_agent)()
        cloud.settle()
        cloud.until(lambda: not cloud.findings(), "the doctor finds nothing")
    finally:
        cloud.stop()


def live_through(cloud: KilledCloud, saga: Saga[Any], point: str) -> None:
    """Do ten things, die at the point, come back, and see that all of it has ended."""
    project = load_project((cloud.directory / "project.json").read_bytes())
    step = point.rpartition("/")[0].rpartition("/")[0]
    cloud.start_agent()
    if saga.name in {*MOVES, shared_move_workload.RELEASE} or step == DELETE_MOVING:
        stays = step in STAYS | shared_move_workload.STAYS
        cloud.start_other(kill_at=IN_VAIN if stays else "")
    cloud.start_control(kill_at=setting(saga, point))
    try:
        rarer = rarer_operations(cloud, project)
        besides = rarer.get(step, rarer.get(saga.name, []))
        cloud.at_once(*ten_operations(cloud, project), *besides)
        cloud.until(cloud.control.is_dead, f"the process passes {point}", DIES_S)
        assert cloud.control.wait() == -9
        cloud.start_control()
        cloud.settle()
        assert cloud.findings() == []
    finally:
        cloud.stop()
