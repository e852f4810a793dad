"""The outbox: written with the transaction or not at all, in order, and bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mooring import limits
from mooring.errors import Conflict
from mooring.notify import outbox
from mooring.notify.outbox import Outbox

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.clock import SimulatedClock
    from mooring.store.base import Store

pytestmark = pytest.mark.anyio


async def _send(store: Store, box: Outbox, event: str) -> None:
    await store.write(lambda tx: box.send(tx, event, {"of": event}, publisher="volume.h1"))


async def _events(store: Store, target: str = "keep") -> list[str]:
    return [one.event_type for one in await store.read(lambda tx: outbox.read(tx, target))]


async def test_a_notification_is_there_once_its_transaction_is(
    store: Store, clock: SimulatedClock
) -> None:
    box, heard = Outbox(clock, ["keep"]), list[int]()
    box.listen(lambda: heard.append(1))

    def change(tx: Session) -> None:
        box.send(tx, "volume.create.end", {"size": 1}, publisher="volume.h1")
        if not heard:
            raise Conflict("The step failed.")

    with pytest.raises(Conflict):
        await store.write(change)
    assert await store.read(outbox.read) == []

    heard.append(0)
    await store.write(change)
    (one,) = await store.read(outbox.read)
    assert (one.event_type, one.publisher, one.priority) == (
        "volume.create.end",
        "volume.h1",
        "INFO",
    )
    assert (one.payload, one.created_at) == ({"size": 1}, clock.now())
    assert heard == [0, 1]


async def test_nothing_is_written_when_nobody_wants_it(store: Store, clock: SimulatedClock) -> None:
    box = Outbox(clock)
    await _send(store, box, "volume.create.end")

    assert not box.is_on
    assert await store.read(outbox.read) == []


async def test_each_target_has_a_row_of_its_own_under_one_message_id(
    store: Store, clock: SimulatedClock
) -> None:
    box = Outbox(clock, ["keep", "log"])
    await _send(store, box, "volume.create.end")
    (kept,) = await store.read(outbox.read)
    (logged,) = await store.read(lambda tx: outbox.read(tx, "log"))
    await store.write(lambda tx: outbox.forget(tx, [logged]))

    assert kept.message_id == logged.message_id
    assert await _events(store, "log") == []
    assert await _events(store) == ["volume.create.end"]


async def test_what_is_beyond_the_limit_or_a_week_old_is_swept(
    store: Store, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "NOTIFY_ROWS", 3)
    kept, logged = Outbox(clock, ["keep"]), Outbox(clock, ["log"])
    for number in range(5):
        await _send(store, kept, f"volume.{number}")
    await _send(store, logged, "volume.log")

    assert await store.write(lambda tx: outbox.sweep(tx, clock.now())) == {"keep": 2, "log": 0}
    assert await _events(store) == ["volume.2", "volume.3", "volume.4"]
    assert await _events(store, "log") == ["volume.log"]

    clock.advance(limits.NOTIFY_KEEP_S + 1)
    await _send(store, kept, "volume.young")
    assert await store.write(lambda tx: outbox.sweep(tx, clock.now())) == {"keep": 3, "log": 1}
    assert await _events(store) == ["volume.young"]
