"""Every saga of the volume service, failed and crashed at each of its steps."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import select

from mooring.errors import MooringError
from mooring.saga import laws
from mooring.saga.define import Each, Saga
from mooring.saga.laws import LawProbe, Outcome
from mooring.saga.tables import SagaRow
from mooring.volume.tables import AttachmentRow, ExportRow, MessageRow, VolumeRow
from tests.volume.dock import IMAGE, Dock, connector

pytestmark = pytest.mark.anyio
Prepare = Callable[[Dock], Awaitable[str]]
Act = Callable[[Dock, str], Coroutine[Any, Any, None]]


class Scenario:
    """How a saga comes about: what stands ready, and what is asked for."""

    def __init__(self, prepare: Prepare, act: Act) -> None:
        self.prepare, self.act = prepare, act


async def nothing(dock: Dock) -> str:
    return ""


async def reserved(dock: Dock) -> str:
    volume_id = await dock.make()
    await dock.reserve(volume_id)
    return volume_id


async def attached(dock: Dock) -> str:
    volume_id = await dock.make()
    await dock.attach(volume_id)
    return volume_id


async def exported(dock: Dock) -> str:
    volume_id = await dock.make()
    await dock.act(volume_id, "os-initialize_connection", {"connector": connector()})
    return volume_id


async def only_attachment(dock: Dock, volume_id: str) -> str:
    (attachment_id,) = await dock.attachments(volume_id)
    return attachment_id


async def create(dock: Dock, _: str) -> None:
    await dock.ask("POST", "/volumes", {"volume": {"size": 1, "imageRef": IMAGE}})


async def connect(dock: Dock, volume_id: str) -> None:
    await dock.connect(await only_attachment(dock, volume_id))


async def create_connected(dock: Dock, volume_id: str) -> None:
    await dock.reserve(volume_id, connector=connector())


async def detach(dock: Dock, volume_id: str) -> None:
    await dock.detach(await only_attachment(dock, volume_id))


async def delete(dock: Dock, volume_id: str) -> None:
    await dock.ask("DELETE", f"/volumes/{volume_id}")


async def force_delete(dock: Dock, volume_id: str) -> None:
    await dock.act(volume_id, "os-force_delete", {}, who="admin")


async def initialize(dock: Dock, volume_id: str) -> None:
    await dock.act(volume_id, "os-initialize_connection", {"connector": connector()})


async def terminate(dock: Dock, volume_id: str) -> None:
    body = {"connector": connector()}
    await dock.act(volume_id, "os-terminate_connection", body, who="compute")


async def reset(dock: Dock, volume_id: str) -> None:
    body = {"status": "available", "attach_status": "detached"}
    await dock.act(volume_id, "os-reset_status", body, who="admin")


SCENARIOS: dict[str, list[Scenario]] = {
    "volume.create_volume": [Scenario(nothing, create)],
    "volume.connect_attachment": [
        Scenario(reserved, connect),
        Scenario(Dock.make, create_connected),
    ],
    "volume.delete_attachment": [Scenario(attached, detach)],
    "volume.delete_volume": [Scenario(exported, delete)],
    "volume.force_delete_volume": [Scenario(exported, force_delete)],
    "volume.connect_legacy": [Scenario(Dock.make, initialize)],
    "volume.end_legacy": [Scenario(exported, terminate)],
    "volume.reset_status": [Scenario(attached, reset)],
}


class VolumeWorld:
    """One scenario, ready for its act."""

    def __init__(self, location: Path, scenario: Scenario) -> None:
        self.scenario, self.probe = scenario, LawProbe()
        self.dock = Dock(location, self.probe)

    async def arrange(self) -> None:
        await self.dock.open()
        self.volume_id = await self.scenario.prepare(self.dock)

    async def act(self) -> None:
        with contextlib.suppress(MooringError):
            await self.dock.drive(self.scenario.act(self.dock, self.volume_id))

    async def settle(self) -> None:
        await self.dock.engine.settle()

    async def restart(self) -> None:
        await self.dock.restart()

    async def complaints(self) -> list[str]:
        return await self.dock.complaints()

    async def snapshot(self) -> dict[str, Any]:
        """Return what is there, without ids: two worlds make their own."""

        def look(tx: Any) -> dict[str, Any]:
            volume = (VolumeRow.status, VolumeRow.attach_status, VolumeRow.bootable)
            attachment = (
                *(AttachmentRow.server_id, AttachmentRow.attach_status),
                *(AttachmentRow.connection.is_not(None), AttachmentRow.digest),
            )
            queries: dict[str, Any] = {
                "volumes": select(*volume),
                "attachments": select(*attachment),
                "exports": select(ExportRow.host, ExportRow.connection.is_not(None)),
                "messages": select(MessageRow.event_id),
            }
            return {name: [tuple(row) for row in tx.execute(q)] for name, q in queries.items()}

        storage = [len(volume.exports) for volume in await self.dock.storage.volumes()]
        return {**await self.dock.store.read(look), "storage": storage}

    async def ending(self, saga: Saga[Any]) -> str:
        newest = select(SagaRow.outcome).where(SagaRow.name == saga.name)
        query = newest.order_by(SagaRow.created_at.desc())
        return await self.dock.store.read(lambda tx: tx.execute(query).scalars().first() or "")


@pytest.fixture
async def docks() -> AsyncIterator[list[Dock]]:
    opened: list[Dock] = []
    yield opened
    for dock in opened:
        await dock.close()


_learnt: dict[tuple[str, int], Outcome] = {}


async def arrange(docks: list[Dock], location: Path, scenario: Scenario) -> VolumeWorld:
    world = VolumeWorld(location, scenario)
    docks.append(world.dock)
    await world.arrange()
    return world


async def learn(
    docks: list[Dock], location: Path, name: str, number: int
) -> tuple[VolumeWorld, Outcome]:
    """Return a fresh world and what its scenario comes to, run undisturbed once for all tests."""
    scenario = SCENARIOS[name][number]
    if (name, number) not in _learnt:
        world = await arrange(docks, location / "learn", scenario)
        _learnt[name, number] = await laws.learn(world)
    return await arrange(docks, location / "world", scenario), _learnt[name, number]


SAGAS = {saga.name: saga for saga in laws.sagas_of("volume")}
CASES = [
    pytest.param(name, number, point, id=f"{point}-{number}")
    for name, scenarios in SCENARIOS.items()
    for number in range(len(scenarios))
    for point in laws.points_of(SAGAS[name])
    if point.endswith("/forward/after")
]


def step_of(point: str) -> str:
    return point.split("/")[1]


@pytest.mark.parametrize(("name", "number", "point"), CASES)
async def test_failing_anywhere_leaves_no_trace_or_a_declared_end(
    name: str, number: int, point: str, docks: list[Dock], tmp_path: Path
) -> None:
    world, outcome = await learn(docks, tmp_path, name, number)
    if point not in outcome.points:
        pytest.skip("this scenario has no such step")
    await laws.hold_failure(world, SAGAS[name], point, outcome)


@pytest.mark.parametrize(("name", "number", "point"), CASES)
async def test_crashing_anywhere_ends_after_the_restart(
    name: str, number: int, point: str, docks: list[Dock], tmp_path: Path
) -> None:
    world, outcome = await learn(docks, tmp_path, name, number)
    if point not in outcome.points:
        pytest.skip("this scenario has no such step")
    await laws.hold_crash(world, SAGAS[name], point, outcome)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
async def test_every_step_is_reached(name: str, docks: list[Dock], tmp_path: Path) -> None:
    passed: set[str] = set()
    for number in range(len(SCENARIOS[name])):
        _, outcome = await learn(docks, tmp_path / str(number), name, number)
        passed |= set(outcome.points)
    steps = {
        step.name
        for part in SAGAS[name].steps
        for step in (part.steps if isinstance(part, Each) else (part,))
    }
    reached = {step_of(point) for point in passed if point.startswith(f"{name}/")}
    assert steps <= reached


def test_every_saga_of_the_service_has_a_scenario() -> None:
    assert set(SCENARIOS) == set(SAGAS)


class Unwound(NamedTuple):
    """Where a scenario fails, and where it dies on its way back."""

    name: str
    number: int
    failing: str
    point: str


FAILING = [
    ("volume.create_volume", 0, "show_available/forward/before"),
    ("volume.connect_attachment", 0, "announce/forward/before"),
    ("volume.connect_attachment", 1, "announce/forward/before"),
    ("volume.connect_legacy", 0, "export_volume/forward/after"),
]
UNWOUND = [
    Unwound(name, number, f"{name}/{failing}", point)
    for name, number, failing in FAILING
    for point in laws.points_of(SAGAS[name])
    if point.endswith("/back/after")
]


@pytest.mark.parametrize("case", UNWOUND, ids=lambda case: f"{case.point}-{case.number}")
async def test_crashing_while_unwinding_still_leaves_no_trace(
    case: Unwound, docks: list[Dock], tmp_path: Path
) -> None:
    world, outcome = await learn(docks, tmp_path, case.name, case.number)
    saga = SAGAS[case.name]
    await laws.hold_crash_in_undo(world, saga, case.failing, case.point, outcome)
