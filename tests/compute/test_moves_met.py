"""What a move meets on its way: other operations, hosts that go, and its own end, anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from pathlib import Path
from typing import Any

import pytest

from mooring.clients.transport import Forward, Request, Response
from mooring.compute.moves.sagas.live_migrate import LIVE_MIGRATE
from mooring.errors import Conflict
from mooring.saga.define import Each, Step
from mooring.saga.laws import LawProbe
from tests.compute.cloud import ComputeCloud
from tests.compute.moving import Moving, begun, moving_server, server_that_moves
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2")
ENDS = {(202, "cancelled"), (202, "completed"), (400, "completed")}
STEPS = [
    step.name
    for part in LIVE_MIGRATE.steps
    for step in (part.steps if isinstance(part, Each) else (part,))
    if isinstance(step, Step)
]


@pytest.fixture
async def moving(keeper: Keeper) -> AsyncGenerator[Moving]:
    async with moving_server(keeper, hosts=HOSTS) as made:
        yield made


class Herald(LawProbe):
    """Sets something going when a step of a move begins."""

    def __init__(self) -> None:
        super().__init__()
        self.step, self.work = "", None
        self.asked: asyncio.Task[Any] | None = None

    def when(self, step: str, work: Coroutine[Any, Any, Any]) -> None:
        """Let `work` begin when a step does."""
        self.step, self.work = step, work

    def at(self, point: str) -> None:
        super().at(point)
        is_there = point.startswith(f"{LIVE_MIGRATE.name}/{self.step}/")
        if self.work is not None and is_there and point.endswith("forward/before"):
            self.asked, self.work = asyncio.create_task(self.work), None


async def test_a_move_that_is_aborted_at_any_step_ends_on_one_side_or_the_other(
    tmp_path: Path,
) -> None:
    herald = Herald()
    async with ComputeCloud(tmp_path, hosts=HOSTS, probe=herald) as cloud:
        moving = await server_that_moves(cloud, volumes=2)
        ends: dict[str, str] = {}

        async def abort() -> int:
            newest = (await moving.migrations())[0]
            return (await moving.ask_of("DELETE", newest["id"])).status

        for step in STEPS[1:]:
            herald.when(step, abort())
            assert await moving.migrate() == 202, step
            await cloud.settle()
            assert herald.asked is not None, step
            code, ends[step] = await herald.asked, await moving.status()
            assert (code, ends[step]) in {
                (202, "cancelled"),
                (202, "completed"),
                (400, "completed"),
            }
            if ends[step] == "completed":
                moving.source, moving.destination = moving.destination, moving.source
            await moving.stays_whole()
            assert await cloud.complaints() == [], step
        first = STEPS.index("begin_sending")
        assert {ends[step] for step in STEPS[1:first]} == {"cancelled"}
        assert {ends[step] for step in STEPS[first + 2 :]} == {"completed"}


async def test_a_call_for_room_that_comes_after_its_move_was_undone_gives_none(
    moving: Moving,
) -> None:
    late: list[tuple[Request, Forward]] = []

    async def hold_back(request: Request, forward: Forward) -> Response:
        if request.method != "POST" or not request.target.endswith("/allocations"):
            return await forward(request)
        late.append((request, forward))
        raise Conflict("The call is on its way still.")

    moving.cloud.deliver = hold_back
    await moving.move()
    assert await moving.status() == "error"
    ((request, forward),) = late
    answer = await forward(request)
    assert answer.status in {409, 410}
    await answer.aclose()
    await moving.stays_whole()
    assert await moving.cloud.complaints() == []


@pytest.mark.parametrize("first", ["DELETE", "POST"])
async def test_an_abort_and_a_forced_end_that_race_come_to_one_end(
    moving: Moving, first: str
) -> None:
    settling = await begun(moving)
    (shown,) = await moving.under_way()
    asks = {
        "DELETE": moving.ask_of("DELETE", shown["id"]),
        "POST": moving.ask_of("POST", shown["id"], {"force_complete": None}, suffix="/action"),
    }
    order = [asks.pop(first), *asks.values()]
    answers = [one.status for one in await asyncio.gather(*order)]
    assert (answers[0], answers[1] in {202, 400, 409}) == (202, True)
    await settling
    status = await moving.status()
    assert status in ({"cancelled"} if first == "DELETE" else {"cancelled", "completed"})
    if status == "completed":
        moving.source, moving.destination = moving.destination, moving.source
    await moving.stays_whole()
    assert await moving.cloud.complaints() == []


REFUSED: list[tuple[str, Any]] = [
    ("os-stop", None),
    ("reboot", {"type": "SOFT"}),
    ("reboot", {"type": "HARD"}),
    ("rebuild", {"imageRef": "0f9a1f3e-54f4-4b1a-9d1a-6b1f0d9f7c11"}),
    ("os-start", None),
]


async def test_what_changes_a_server_is_refused_while_it_moves(moving: Moving) -> None:
    """facts/compute.md 1.4: task_state migrating is in no list of these actions."""
    cloud, free = moving.cloud, await moving.cloud.make_volume()
    settling = await begun(moving)
    for action, value in REFUSED:
        code = await cloud.act(moving.server_id, action, value, user="admin", version="2.100")
        assert code == 409, action
    assert (await cloud.attach(moving.server_id, free)).status == 409
    assert (await cloud.detach(moving.server_id, moving.volumes[-1])).status == 409
    path = f"/volume/v3/volumes/{moving.volumes[-1]}"
    assert (await cloud.ask("DELETE", path, version="3.67")).status == 400
    for action in ("os-force_delete", "os-force_detach", "os-reserve"):
        answer = await cloud.ask("POST", f"{path}/action", {action: {}}, user="admin")
        assert answer.status in {400, 409}, (action, answer.text)
    assert await cloud.volume_status(free) == "available"
    cloud.hypervisor(moving.source).knobs.release("send_memory")
    await settling
    moving.source, moving.destination = moving.destination, moving.source
    await moving.stays_whole()
    assert await cloud.complaints() == []


@pytest.mark.parametrize("change", [{"status": "disabled"}, {"forced_down": True}])
@pytest.mark.parametrize("side", ["source", "destination"])
async def test_a_move_ends_when_one_of_its_hosts_is_taken_out_of_service(
    moving: Moving, side: str, change: dict[str, Any]
) -> None:
    cloud, name = moving.cloud, getattr(moving, side)
    settling = await begun(moving)
    listed = await cloud.ask("GET", f"/os-services?host={name}", user="admin")
    path = f"/os-services/{listed.body['services'][0]['id']}"
    assert (await cloud.ask("PUT", path, change, user="admin")).status == 200
    cloud.hypervisor(moving.source).knobs.release("send_memory")
    await settling
    await cloud.settle()
    assert await moving.status() in {"completed", "error"}
    assert await moving.under_way() == []
    states = await moving.states()
    assert states.count("running") == 1
    running = (moving.source, moving.destination)[states.index("running")]
    assert await moving.host() == running


async def test_two_servers_that_go_to_one_last_place_do_not_both_get_it(tmp_path: Path) -> None:
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        both = [await server_that_moves(cloud, volumes=1) for _ in range(2)]
        for one in both:
            if await one.host() == "host2":
                assert await one.migrate(host="host1") == 202
                await cloud.settle()
        placement = cloud.compute.placement
        known = {one.name: one.uuid for one in await placement.providers()}
        for number, vcpus in enumerate((64, 64, 64, 63)):
            await cloud.claim(
                f"{number:08}-0000-4000-8000-000000000000", {known["host2"]: {"VCPU": vcpus}}
            )
        assert await asyncio.gather(*(one.migrate() for one in both)) == [202, 202]
        await cloud.settle()
        assert sorted([await one.status() for one in both]) == ["completed", "error"]
        assert sorted([await one.host() for one in both]) == ["host1", "host2"]
        assert [one.count("running") for one in [await two.states() for two in both]] == [1, 1]


async def test_a_server_moves_with_as_many_volumes_as_the_bus_takes(tmp_path: Path) -> None:
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        quota = {"quota_set": {"volumes": 30}}
        path = f"/os-quota-sets/{cloud.project_id}"
        await cloud.volume_api("PUT", path, quota, user="admin")
        moving = await server_that_moves(cloud, volumes=25)
        await moving.move()
        moving.source, moving.destination = moving.destination, moving.source
        await moving.stays_whole()
        assert await cloud.complaints() == []


async def test_a_guest_that_shuts_down_on_its_way_leaves_its_server_shut_off(
    moving: Moving,
) -> None:
    settling = await begun(moving)
    moving.cloud.hypervisor(moving.source).shut_down_inside(moving.server_id)
    moving.cloud.hypervisor(moving.source).knobs.release("send_memory")
    await settling
    await moving.cloud.look_around()
    assert (await moving.cloud.server(moving.server_id))["status"] == "SHUTOFF"
    assert await moving.host() == moving.source
    assert await moving.connected() == [2, 0]
    assert await moving.cloud.complaints() == []


async def test_what_is_asked_of_a_move_is_told(tmp_path: Path) -> None:
    """facts/compute.md 12.3."""
    async with ComputeCloud(tmp_path, hosts=HOSTS, notifications=("keep",)) as cloud:
        moving = await server_that_moves(cloud, volumes=1)
        settling = await begun(moving)
        (shown,) = await moving.under_way()
        body = {"force_complete": None}
        assert (await moving.ask_of("POST", shown["id"], body, suffix="/action")).status == 202
        assert (await moving.ask_of("DELETE", shown["id"])).status == 202
        await settling
        told = [one.event_type for one in await cloud.told("compute")]
        for what in ("live_migration_force_complete", "live_migration_abort"):
            assert [one for one in told if what in one] == [
                f"instance.{what}.{phase}" for phase in ("start", "end")
            ]
