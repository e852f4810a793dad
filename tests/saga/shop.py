"""A small world for the engine: orders in a database, parcels in a ledger outside it."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import String, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from mooring.clock import SimulatedClock
from mooring.errors import Conflict, Unavailable
from mooring.saga.define import Each, Park, Run, Saga, Step, exclusive, shared
from mooring.saga.engine import Engine
from mooring.saga.laws import LawProbe
from mooring.saga.seal import Sealer
from mooring.saga.tables import Base as SagaBase
from mooring.saga.tables import SagaRow
from mooring.store.base import Store, service_base
from tests.migrated import open_store

Base = service_base("shop")


class OrderRow(Base):
    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    status: Mapped[str] = mapped_column(String(16))


class Ledger:
    """The outside world: parcels by operation, as a peer that knows keys would keep them."""

    def __init__(self) -> None:
        self.parcels: dict[str, str] = {}
        self.fail_next: list[Exception] = []
        self.hangs: asyncio.Event | None = None
        """Set by who packs, which then takes a minute; None: packing takes no time."""

    def put(self, key: str, value: str) -> None:
        if self.fail_next:
            raise self.fail_next.pop(0)
        self.parcels[key] = value

    def remove(self, key: str) -> None:
        if self.fail_next:
            raise self.fail_next.pop(0)
        self.parcels.pop(key, None)


class Shop:
    """The service object."""

    def __init__(self, ledger: Ledger, store: Store) -> None:
        self.ledger, self.store = ledger, store


class Order(Struct, frozen=True):
    order_id: str
    parcels: tuple[str, ...] = ("p1", "p2")
    wait: bool = False
    label: str = ""


def set_status(tx: Session, order_id: str, status: str, *, among: tuple[str, ...]) -> None:
    guarded = update(OrderRow).where(OrderRow.id == order_id, OrderRow.status.in_(among))
    changed = guarded.values(status=status).returning(OrderRow.id)
    if tx.execute(changed).first() is None:
        raise Conflict(f"Order {order_id} is not in {among}.")


def restore_status(tx: Session, order_id: str, status: str, *, among: tuple[str, ...]) -> None:
    """Undo `set_status`; find nothing when it never happened."""
    guarded = update(OrderRow).where(OrderRow.id == order_id, OrderRow.status.in_(among))
    tx.execute(guarded.values(status=status))


def check(tx: Session, notes: Order, run: Run[Shop]) -> None:
    del tx, notes, run


def forget(tx: Session, notes: Order, run: Run[Shop]) -> None:
    assert run.error is not None
    restore_status(tx, notes.order_id, "new", among=("packing", "packed"))


async def print_label(notes: Order, run: Run[Shop]) -> Order:
    run.service.ledger.put(f"label:{notes.order_id}", str(run.operation.epoch))
    return replace(notes, label="printed")


async def tear_label(notes: Order, run: Run[Shop]) -> None:
    run.service.ledger.remove(f"label:{notes.order_id}")


async def pack(notes: Order, item: str, run: Run[Shop]) -> None:
    if run.service.ledger.hangs is not None:
        run.service.ledger.hangs.set()
        async with asyncio.timeout(60.0):
            await asyncio.Event().wait()
    run.service.ledger.put(f"{notes.order_id}/{item}", "packed")


async def unpack(notes: Order, item: str, run: Run[Shop]) -> None:
    run.service.ledger.remove(f"{notes.order_id}/{item}")


async def await_courier(notes: Order, run: Run[Shop]) -> None:
    if notes.wait and "courier" not in run.service.ledger.parcels:
        raise Park(signal=f"courier:{notes.order_id}", seconds=30, timeout_s=600)


def mark_packed(tx: Session, notes: Order, run: Run[Shop]) -> None:
    del run
    set_status(tx, notes.order_id, "packed", among=("packing",))


PACK = Saga(
    "shop.pack_order",
    Order,
    Step("check", check, undo=forget),
    Step("print_label", print_label, undo=tear_label),
    Each("parcels", lambda notes: notes.parcels, Step("pack", pack, undo=unpack)),
    Step("await_courier", await_courier),
    Step("mark_packed", mark_packed),
    locks=lambda notes: [shared("shop"), exclusive(f"order:{notes.order_id}")],
    answered_after="print_label",
    visible_after="mark_packed",
)


async def hand_over(notes: Order, run: Run[Shop]) -> None:
    run.service.ledger.put(f"sent:{notes.order_id}", "sent")


async def clear_desk(notes: Order, run: Run[Shop]) -> None:
    run.service.ledger.remove(f"label:{notes.order_id}")


def record_sent(tx: Session, notes: Order, run: Run[Shop]) -> None:
    del run
    set_status(tx, notes.order_id, "sent", among=("sending",))


def record_lost(tx: Session, notes: Order, run: Run[Shop]) -> None:
    del run
    set_status(tx, notes.order_id, "lost", among=("sending",))


def stop_sending(tx: Session, notes: Order, run: Run[Shop]) -> None:
    del run
    restore_status(tx, notes.order_id, "packed", among=("sending",))


def begin_sending(tx: Session, notes: Order, run: Run[Shop]) -> None:
    del run
    set_status(tx, notes.order_id, "sending", among=("packed",))


SEND = Saga(
    "shop.send_order",
    Order,
    Step("begin_sending", begin_sending, undo=stop_sending),
    Step("hand_over", hand_over),
    Step("clear_desk", clear_desk),
    Step("record_sent", record_sent),
    locks=lambda notes: [exclusive(f"order:{notes.order_id}")],
    mode="wait",
    pivot="hand_over",
    failed_end=[Step("record_lost", record_lost)],
)


async def wrap(notes: Order, run: Run[Shop]) -> None:
    run.service.ledger.put(f"paper:{notes.order_id}", "cut")


async def unwrap(notes: Order, run: Run[Shop]) -> None:
    run.service.ledger.remove(f"paper:{notes.order_id}")


async def tie(notes: Order, run: Run[Shop]) -> None:
    run.service.ledger.put(f"ribbon:{notes.order_id}", "tied")


async def untie(notes: Order, run: Run[Shop]) -> None:
    run.service.ledger.remove(f"ribbon:{notes.order_id}")


async def sell_off(notes: Order, run: Run[Shop]) -> None:
    assert run.error is not None
    assert run.undo_error is not None
    run.service.ledger.put(f"sold off:{notes.order_id}", run.undo_error.public)


def record_spoilt(tx: Session, notes: Order, run: Run[Shop]) -> None:
    del run
    set_status(tx, notes.order_id, "spoilt", among=("packed",))


WRAP = Saga(
    "shop.wrap_order",
    Order,
    Step("wrap", wrap, undo=unwrap),
    Step("tie", tie, undo=untie, undo_attempts=3),
    Step("await_courier", await_courier),
    locks=lambda notes: [exclusive(f"order:{notes.order_id}")],
    undo_ends=[Step("sell_off", sell_off), Step("record_spoilt", record_spoilt)],
)


def begin_cancelling(tx: Session, notes: Order, run: Run[Shop]) -> None:
    del run
    tx.execute(update(OrderRow).where(OrderRow.id == notes.order_id).values(status="cancelling"))


async def empty_parcels(notes: Order, run: Run[Shop]) -> None:
    ledger = run.service.ledger
    for key in [key for key in ledger.parcels if notes.order_id in key]:
        ledger.remove(key)


def record_cancelled(tx: Session, notes: Order, run: Run[Shop]) -> None:
    del run
    tx.execute(update(OrderRow).where(OrderRow.id == notes.order_id).values(status="cancelled"))


CANCEL = Saga(
    "shop.cancel_order",
    Order,
    Step("begin_cancelling", begin_cancelling),
    Step("empty_parcels", empty_parcels),
    Step("record_cancelled", record_cancelled),
    locks=lambda notes: [exclusive(f"order:{notes.order_id}")],
    mode="preempt",
    pivot="begin_cancelling",
)


def order(tx: Session, order_id: str) -> None:
    tx.add(OrderRow(id=order_id, status="new"))


class Desk:
    """The shop with its engine, on one database; `reopen` is a process that takes over."""

    def __init__(self, location: Path | str, ledger: Ledger, probe: LawProbe) -> None:
        self.location, self.ledger, self.probe = str(location), ledger, probe
        self.clock = SimulatedClock()
        self.count = 0

    async def open(self) -> None:
        if not self.location.startswith("postgresql:"):
            os.makedirs(self.location, exist_ok=True)  # noqa: PTH103  (no Path in async code)
        self.store = await open_store(self.location, "shop", probe=self.probe)
        await self.store.write(_make_tables)
        self.engine = await self.new_engine()

    async def new_engine(self) -> Engine[Shop]:
        self.count += 1
        engine = Engine(
            "shop",
            Shop(self.ledger, self.store),
            self.store,
            clock=self.clock,
            random=Random(1),
            probe=self.probe,
            sealer=Sealer(b"k" * 32),
            owner=f"desk-{self.count}",
        )
        await engine.open()
        return engine

    async def close(self) -> None:
        await self.engine.stop()
        await self.store.close()

    async def restart(self) -> None:
        await self.close()
        await self.open()

    async def pack(self, order_id: str, **extra: Any) -> str:
        def begin(tx: Session) -> str:
            set_status(tx, order_id, "packing", among=("new",))
            return self.engine.start(tx, PACK, Order(order_id, **extra))

        return await self.engine.submit(begin)

    async def start(self, saga: Saga[Order], order_id: str) -> str:
        return await self.engine.submit(lambda tx: self.engine.start(tx, saga, Order(order_id)))

    async def let_leases_end(self) -> None:
        """Let every lease run out now, as 5 s without renewal would."""
        past = datetime(2000, 1, 1, tzinfo=UTC)
        await self.store.write(lambda tx: tx.execute(update(SagaRow).values(lease_until=past)))

    async def owner(self, saga_id: str) -> str:
        query = select(SagaRow.owner).where(SagaRow.id == saga_id)
        return await self.store.read(lambda tx: tx.execute(query).scalar_one())

    async def add(self, order_id: str) -> None:
        await self.store.write(lambda tx: order(tx, order_id))

    async def statuses(self) -> dict[str, str]:
        query = select(OrderRow.id, OrderRow.status)
        return await self.store.read(lambda tx: {row[0]: row[1] for row in tx.execute(query)})

    async def sagas(self) -> list[tuple[str, ...]]:
        query = select(SagaRow.name, SagaRow.state, SagaRow.outcome).order_by(SagaRow.created_at)
        return await self.store.read(lambda tx: [tuple(row) for row in tx.execute(query)])


def _make_tables(tx: Session) -> None:
    SagaBase.metadata.create_all(tx.connection())
    Base.metadata.create_all(tx.connection())


UNAVAILABLE = Unavailable("The ledger does not answer.")
