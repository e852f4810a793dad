"""What holds for the fence of a service: it stands and falls with the change itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable

import pytest
from sqlalchemy.orm import Session

from mooring.errors import Conflict
from mooring.fence import debts, table
from mooring.fence.operation import Operation
from mooring.fence.rules import Answer, Gone
from tests.fence.receivers import Service

pytestmark = pytest.mark.anyio
CREATE = Operation("s1", "create_volume", 1, 1000)


async def test_an_ordinary_users_request_is_not_fenced(service: Service) -> None:
    def create(tx: Session) -> Answer | None:
        earlier = table.admit(tx, None, "volumes", verb="POST")
        table.record(tx, None, "volumes", Answer(status=202), ["v1"], verb="POST")
        return earlier

    assert await service.store.write(create) is None
    assert await service.store.write(create) is None


async def test_burying_tells_what_was_made(service: Service) -> None:
    await service.admit(CREATE, "volumes", "POST")
    await service.finish(CREATE, "volumes", Answer(status=202, made=("v1", "v2")), "POST")
    assert await service.bury(CREATE.key) == ["v1", "v2"]
    assert await service.bury(CREATE.key) == ["v1", "v2"]
    with pytest.raises(Gone):
        await service.admit(CREATE, "volumes", "POST")


async def test_burying_what_never_came_bars_it_on_every_resource(service: Service) -> None:
    assert await service.bury(CREATE.key) == []
    for resource in ("volumes", "volumes/1"):
        with pytest.raises(Gone):
            await service.admit(CREATE, resource, "POST")
    assert await service.admit(CREATE, "volumes/1", "DELETE") is None


async def test_what_is_rolled_back_was_never_called(service: Service) -> None:
    def create(tx: Session) -> None:
        table.admit(tx, CREATE, "volumes", verb="POST")
        table.record(tx, CREATE, "volumes", Answer(), ["v1"], verb="POST")
        raise Conflict("no")

    with pytest.raises(Conflict):
        await service.store.write(create)
    assert await service.admit(Operation("s1", "create_volume", 0, 1), "volumes", "POST") is None
    assert await service.bury(CREATE.key) == []


async def test_the_same_call_at_once_makes_one(service: Service) -> None:
    made: list[str] = []

    def create(tx: Session) -> Answer:
        earlier = table.admit(tx, CREATE, "volumes", verb="POST")
        if earlier is not None:
            return earlier
        made.append("v1")
        answer = Answer(status=202, body="v1")
        table.record(tx, CREATE, "volumes", answer, ["v1"], verb="POST")
        return answer

    answers = await asyncio.gather(*(service.store.write(create) for _ in range(10)))
    assert {answer.body for answer in answers} == {"v1"}
    assert made == ["v1"]


async def test_burying_waits_for_a_call_that_is_under_way(service: Service) -> None:
    admitted, go_on = threading.Event(), threading.Event()

    def create_slowly(tx: Session) -> None:
        table.admit(tx, CREATE, "volumes", verb="POST")
        admitted.set()
        assert go_on.wait(10)
        table.record(tx, CREATE, "volumes", Answer(), ["v1"], verb="POST")

    creating = asyncio.create_task(service.store.write(create_slowly))
    await asyncio.to_thread(admitted.wait)
    burying = asyncio.create_task(service.bury(CREATE.key))
    done, _ = await asyncio.wait([burying], timeout=0.05)
    assert not done
    go_on.set()
    await creating
    assert await burying == ["v1"]


async def test_a_host_pays_its_debts_oldest_first(service: Service) -> None:
    unplug = Operation("s1", "plug", 1, 10)
    disconnect = Operation("s1", "connect", 1, 10)

    def owe(tx: Session) -> None:
        debts.owe(tx, "h1", "DELETE", "servers/1/disks/2", unplug)
        debts.owe(tx, "h1", "DELETE", "connections/3", disconnect)
        debts.owe(tx, "h2", "DELETE", "servers/4", unplug)

    await service.store.write(owe)
    owed = await service.store.read(lambda tx: debts.owed(tx, "h1"))
    assert [(debt.resource, debt.operation) for debt in owed] == [
        ("servers/1/disks/2", unplug),
        ("connections/3", disconnect),
    ]
    assert await service.store.read(debts.hosts_in_debt) == ["h1", "h2"]
    for debt in owed:
        assert await service.store.write(lambda tx, debt=debt: debts.pay(tx, debt))
        assert not await service.store.write(lambda tx, debt=debt: debts.pay(tx, debt))
    assert await service.store.read(debts.hosts_in_debt) == ["h2"]


async def test_of_two_debts_on_one_resource_the_newer_stands(service: Service) -> None:
    old, new = Operation("s1", "plug", 1, 10), Operation("s2", "plug", 1, 11)

    def owe(operation: Operation) -> Awaitable[None]:
        return service.store.write(lambda tx: debts.owe(tx, "h1", "DELETE", "servers/1", operation))

    await owe(old)
    (first,) = await service.store.read(lambda tx: debts.owed(tx, "h1"))
    await owe(new)
    await owe(old)
    (debt,) = await service.store.read(lambda tx: debts.owed(tx, "h1"))
    assert debt.operation == new
    assert not await service.store.write(lambda tx: debts.pay(tx, first))
    assert await service.store.write(lambda tx: debts.pay(tx, debt))


async def test_what_is_made_later_for_an_operation_is_ended_with_it(service: Service) -> None:
    def add(tx: Session) -> bool:
        return table.add_made(tx, CREATE.key, "volumes/later", ["v2"])

    await service.admit(CREATE, "volumes", "POST")
    await service.finish(CREATE, "volumes", Answer(status=202, made=("v1",)), "POST")
    assert await service.store.write(add)
    assert sorted(await service.bury(CREATE.key)) == ["v1", "v2"]


async def test_nothing_is_made_any_more_for_an_operation_that_was_buried(service: Service) -> None:
    def add(tx: Session) -> bool:
        return table.add_made(tx, CREATE.key, "volumes/later", ["v2"])

    assert await service.bury(CREATE.key) == []
    assert not await service.store.write(add)
    assert await service.bury(CREATE.key) == []
