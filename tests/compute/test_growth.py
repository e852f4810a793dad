"""What is needed no more is taken away, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, insert, select, text, update
from sqlalchemy.dialects import sqlite
from sqlalchemy.orm import Session

from mooring.clock import SimulatedClock
from mooring.compute.growth import actions
from mooring.compute.quotas.quota import usage_query
from mooring.compute.tables import BlockDevice, Fault, InstanceAction, InstanceActionEvent, Server
from mooring.fence.table import EpochRow
from mooring.saga.tables import HistoryRow, LockRow, SagaRow
from mooring.service import COMMON_BOUNDS
from mooring.store import limits
from mooring.store.growth import prune, table_of
from mooring.volume.tables import MessageRow
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio


def _count(row: Any) -> Callable[[Session], int]:
    return lambda tx: tx.execute(select(func.count()).select_from(row)).scalar_one()


async def _server(cloud: ComputeCloud) -> str:
    wanted = {"name": "s", "flavorRef": "42", "imageRef": cloud.image_id, "networks": "none"}
    made = await cloud.ask("POST", "/servers", {"server": wanted})
    await cloud.settle()
    return made.key("server")["id"]


async def _pass(cloud: ComputeCloud, days: float) -> None:
    cloud.clock.step(timedelta(days=days).total_seconds())
    await cloud.cloud.prune()


async def test_a_deleted_server_is_shown_for_its_time_and_then_forgotten_with_all_it_had(
    any_cloud: ComputeCloud,
) -> None:
    cloud = any_cloud
    gone, lives = await _server(cloud), await _server(cloud)
    await cloud.ask("DELETE", f"/servers/{gone}")
    await cloud.settle()
    everything = "/servers?deleted=true&all_tenants=1"
    await _pass(cloud, 89)
    shown = await cloud.ask("GET", everything, user="admin")
    assert [each["id"] for each in shown.key("servers")] == [gone]
    await _pass(cloud, 2)
    assert (await cloud.ask("GET", everything, user="admin")).key("servers") == []
    store = cloud.stores["compute"]
    for row in (InstanceAction, BlockDevice):
        query = select(row.server_id).distinct()
        assert await store.read(lambda tx, query=query: list(tx.scalars(query))) in ([lives], [])
    assert await store.read(_count(InstanceActionEvent)) > 0
    assert (await cloud.ask("GET", f"/servers/{lives}")).key("server")["status"] == "ACTIVE"
    assert await cloud.complaints() == []


async def test_a_deleted_server_stays_while_an_operation_or_a_volume_is_owed(
    any_cloud: ComputeCloud,
) -> None:
    cloud = any_cloud
    server_id = await _server(cloud)
    await cloud.ask("DELETE", f"/servers/{server_id}")
    await cloud.settle()
    store = cloud.stores["compute"]
    held = {"saga_id": "s", "key": f"server:{server_id}", "shared": False, "held": True, "seq": 1}
    await store.write(lambda tx: tx.execute(insert(LockRow).values(held)) and None)
    await _pass(cloud, 200)
    assert await store.read(_count(Server)) == 1


async def test_marks_of_every_fence_go_also_where_no_operations_run(
    any_cloud: ComputeCloud,
) -> None:
    cloud = any_cloud
    await _server(cloud)
    marks = [each for each in COMMON_BOUNDS if each.table.startswith("fence_")]
    # Marks have the machine's own time.
    later = SimulatedClock(datetime.now(UTC) + timedelta(days=15))
    store = cloud.stores["placement"]
    assert await store.read(_count(EpochRow)) > 0
    assert await prune(None, store, later, marks) > 0
    for bound in marks:
        assert await store.read(_count(table_of(bound.row))) == 0


async def test_ended_operations_go_with_their_timeline(
    any_cloud: ComputeCloud,
) -> None:
    cloud = any_cloud
    await _server(cloud)
    store = cloud.stores["compute"]
    assert await store.read(_count(HistoryRow)) > 0
    await _pass(cloud, 29)
    assert await store.read(_count(SagaRow)) > 0
    await _pass(cloud, 2)
    assert await store.read(_count(SagaRow)) == 0
    assert await store.read(_count(HistoryRow)) == 0


async def test_an_operation_that_its_parent_waits_for_stays(cloud: ComputeCloud) -> None:
    await _server(cloud)
    store = cloud.stores["compute"]

    def set_parent(tx: Session) -> None:
        parent = tx.scalars(select(SagaRow)).first()
        assert parent is not None
        values = {c.name: getattr(parent, c.key) for c in table_of(SagaRow).c}
        tx.execute(insert(SagaRow).values(values | {"id": "child", "parent_id": parent.id}))
        tx.execute(update(SagaRow).where(SagaRow.id == parent.id).values(state="parked"))
        tx.execute(update(SagaRow).where(SagaRow.id == parent.id).values(ended_at=None))

    await store.write(set_parent)
    await _pass(cloud, 100)
    assert await store.read(_count(SagaRow)) == 2


async def test_of_what_a_server_collects_the_newest_stay(any_cloud: ComputeCloud) -> None:
    cloud = any_cloud
    server_id, other = await _server(cloud), await _server(cloud)
    store, now = cloud.stores["compute"], cloud.clock.now()
    fault = {"code": 500, "details": "", "created_at": now}
    rows = [{"server_id": server_id, "message": str(n), **fault} for n in range(350)]
    rows += [{"server_id": other, "message": "other", **fault}]
    await store.write(lambda tx: tx.execute(insert(Fault), rows) and None)
    assert await cloud.cloud.prune() == 350 - limits.COMPUTE_FAULTS
    query = select(Fault.message).order_by(Fault.id)
    left = await store.read(lambda tx: list(tx.scalars(query)))
    assert left == [*(str(n) for n in range(250, 350)), "other"]


async def test_an_action_that_lasts_stays(cloud: ComputeCloud) -> None:
    server_id = await _server(cloud)
    store, now = cloud.stores["compute"], cloud.clock.now()
    common = {"server_id": server_id, "request_id": "", "user_id": "", "project_id": ""}
    common |= {"started_at": now, "updated_at": now}

    def add(tx: Session) -> None:
        for number in range(4):
            action = InstanceAction(action=f"reboot{number}", **common)
            tx.add(action)
            tx.flush()
            ended = None if number == 0 else now
            tx.add(
                InstanceActionEvent(
                    action_id=action.id, event="e", started_at=now, finished_at=ended
                )
            )

    await store.write(add)
    await prune(cloud.compute, store, cloud.clock, [actions(1)])
    names = await store.read(lambda tx: list(tx.scalars(select(InstanceAction.action))))
    assert sorted(names) == ["reboot0", "reboot3"]


async def test_messages_go_when_their_time_is_over(any_cloud: ComputeCloud) -> None:
    store, now = any_cloud.stores["volume"], any_cloud.clock.now()

    def add(tx: Session) -> None:
        columns = {c.name: c for c in table_of(MessageRow).c}
        given = {"created_at": now, "expires_at": now}
        texts = {name: "" for name, c in columns.items() if not c.nullable and name not in given}
        for number in range(250):
            tx.execute(insert(MessageRow).values(texts | given | {"id": str(number)}))

    await store.write(add)
    await _pass(any_cloud, 29)
    assert await store.read(_count(MessageRow)) == 250
    await _pass(any_cloud, 2)
    assert await store.read(_count(MessageRow)) == 0


async def test_what_was_touched_since_it_was_found_stays(any_cloud: ComputeCloud) -> None:
    cloud = any_cloud
    await _server(cloud)
    bound = next(each for each in COMMON_BOUNDS if each.table == "fence_epochs")
    rule, store = bound.prune, cloud.stores["placement"]
    assert rule is not None
    at = datetime.now(UTC) + timedelta(days=20)
    found = await store.read(lambda tx: rule.find(None, tx, at))
    assert found
    await store.write(lambda tx: tx.execute(update(bound.row).values(at=at)) and None)
    assert await store.write(lambda tx: rule.drop(tx, found)) == 0


async def test_quotas_are_summed_up_from_an_index_alone(cloud: ComputeCloud) -> None:
    """So a server costs about the same with none and with 10,000, the deleted ones not counted."""
    wanted = usage_query.compile(dialect=sqlite.dialect(paramstyle="named"))

    def explain(tx: Session) -> str:
        rows = tx.execute(text(f"EXPLAIN QUERY PLAN {wanted}"), {"of_project": "p"})
        return " ".join(str(row) for row in rows)

    plan = await cloud.stores["compute"].read(explain)
    assert "USING COVERING INDEX servers_used (project_id=? AND deleted_at=?)" in plan
