"""A host leaves: refused while it is used, cut off at once, ended whoever is killed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import pytest

from mooring import certificates
from mooring.agent_api.client import Agents
from mooring.agent_api.joining import JoinRequest, read_token
from mooring.clock import SimulatedClock
from mooring.errors import Conflict, Forbidden, NotFound, Unavailable
from mooring.fleet import removal
from mooring.fleet.fleet import Fleet, open_fleet
from mooring.fleet.removal import Tenant
from mooring.limits import FLEET_POLL_S
from mooring.saga.seal import Sealer
from mooring.service import require_unheard
from mooring.store.base import Store
from tests.fleet.stores import BOTH, open_fleet_store

pytestmark = pytest.mark.anyio
SEALER = Sealer(b"k" * 32)
NOWHERE = "127.0.0.1:1"
"""Where nobody answers."""


class Lodger:
    """A service that has as many things on a host as a test says."""

    def __init__(self) -> None:
        self.things, self.forgotten = 0, list[str]()
        self.debts = 0
        self.comes_late = False
        self.fails = 0
        self.heard = dict[str, datetime]()
        self.before_forgetting = asyncio.Event()
        """Whether it forgets at once; else whoever asks sleeps before it does."""
        self.before_forgetting.set()
        self.asked = asyncio.Event()

    async def seen(self) -> Mapping[str, datetime]:
        return self.heard

    async def uses(self, host: str, *, gone: bool) -> Sequence[str]:
        owed = 0 if gone else self.debts
        found = {"things": self.things, "debts": owed}
        return [f"{count} {what}" for what, count in found.items() if count]

    async def forget(self, host: str, *, gone: bool, heard: datetime | None) -> None:
        self.asked.set()
        await self.before_forgetting.wait()
        require_unheard(host, self.heard.get(host), heard)
        if self.fails:
            self.fails -= 1
            raise Unavailable("Not now.")
        if self.things or self.comes_late:
            raise Conflict(f"Host {host} still has a thing.")
        if self.debts and not gone:
            raise Conflict(f"Host {host} still has a debt.")
        self.debts = 0
        self.forgotten.append(host)
        self.heard.pop(host, None)


@pytest.fixture(params=BOTH)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    async with open_fleet_store(request, tmp_path) as opened:
        yield opened


@pytest.fixture
def lodger() -> Lodger:
    return Lodger()


@pytest.fixture
async def fleet(store: Store, lodger: Lodger) -> Fleet:
    return await start(store, lodger)


async def start(store: Store, lodger: Lodger) -> Fleet:
    """Begin as a process of the control plane does."""
    fleet = await open_fleet(store, SEALER, Agents(), SimulatedClock())
    fleet.tenants = (Tenant(uses=lodger.uses, forget=lodger.forget, seen=lodger.seen),)
    return fleet


async def join(fleet: Fleet, name: str = "h2", *, address: str = "10.0.0.2:8471") -> JoinRequest:
    token, _ = await fleet.invite(name, ["compute"], "10.0.0.1:8472")
    wish = certificates.make_request(certificates.new_key(), name).decode()
    asked = JoinRequest(read_token(token).secret, wish, address)
    await fleet.join(asked)
    return asked


async def until_waiting(fleet: Fleet, leaving: asyncio.Task[None]) -> SimulatedClock:
    """Let a removal go on until it waits for the other processes, or has ended."""
    clock = fleet.clock
    assert isinstance(clock, SimulatedClock)
    while clock.next_wake() is None and not leaving.done():
        await asyncio.wait({leaving}, timeout=0.01)
    return clock


async def remove(fleet: Fleet, name: str = "h2", *, gone: bool = False) -> None:
    leaving = asyncio.create_task(removal.remove(fleet, name, gone=gone))
    clock = await until_waiting(fleet, leaving)
    clock.advance(2 * FLEET_POLL_S)
    await leaving


async def test_a_host_that_leaves_is_forgotten_and_needs_a_new_token(
    fleet: Fleet, lodger: Lodger
) -> None:
    asked = await join(fleet)
    first = (await fleet.host("h2")).enrolment
    client = fleet.agents["h2"]
    await remove(fleet)
    assert lodger.forgotten == ["h2"]
    assert "h2" not in fleet.agents
    with pytest.raises(Unavailable, match="taken out"):
        await client.host()
    with pytest.raises(NotFound):
        await removal.remove(fleet, "h2")
    with pytest.raises(Forbidden, match="was removed"):
        await fleet.join(asked)
    await join(fleet)
    # What the first joining was certified for is no name that anybody asks for now.
    assert (await fleet.host("h2")).enrolment != first


async def test_a_host_in_use_stays_as_it_was(fleet: Fleet, lodger: Lodger) -> None:
    await join(fleet)
    lodger.things = 3
    with pytest.raises(Conflict, match="still has 3 things"):
        await removal.remove(fleet, "h2")
    assert (await fleet.host("h2")).status == "joined"
    assert "h2" in fleet.agents


async def test_a_host_that_is_used_in_the_last_moment_comes_back(
    fleet: Fleet, lodger: Lodger
) -> None:
    await join(fleet)
    lodger.comes_late = True
    with pytest.raises(Conflict, match="still has a thing"):
        await remove(fleet)
    assert (await fleet.host("h2")).status == "joined"
    assert "h2" in fleet.agents


async def test_what_a_host_owes_that_is_gone_is_struck(fleet: Fleet, lodger: Lodger) -> None:
    await join(fleet, address=NOWHERE)
    lodger.debts = 2
    with pytest.raises(Conflict, match=r"2 debts.*--gone"):
        await removal.remove(fleet, "h2")
    lodger.things = 1
    with pytest.raises(Conflict, match="still has 1 things"):
        await removal.remove(fleet, "h2", gone=True)
    assert (lodger.debts, (await fleet.host("h2")).status) == (2, "joined")
    lodger.things = 0
    await remove(fleet, gone=True)
    assert (lodger.debts, lodger.forgotten) == (0, ["h2"])
    assert await fleet.hosts() == []


async def test_who_ends_the_removal_of_another_knows_that_the_host_is_gone(
    fleet: Fleet, store: Store, lodger: Lodger
) -> None:
    await join(fleet, address=NOWHERE)
    lodger.debts = 2
    leaving = asyncio.create_task(removal.remove(fleet, "h2", gone=True))
    await until_waiting(fleet, leaving)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    assert lodger.debts == 2
    heir = await start(store, lodger)
    going_on = asyncio.create_task(removal.go_on(heir))
    (await until_waiting(heir, going_on)).advance(2 * FLEET_POLL_S)
    await going_on
    assert (lodger.debts, await heir.hosts()) == (0, [])


async def test_an_invitation_is_withdrawn_at_once(fleet: Fleet, lodger: Lodger) -> None:
    token, _ = await fleet.invite("h2", ["compute"], "10.0.0.1:8472")
    await removal.remove(fleet, "h2")
    assert (await fleet.hosts(), lodger.forgotten) == ([], [])
    wish = certificates.make_request(certificates.new_key(), "h2").decode()
    with pytest.raises(Forbidden, match="was removed"):
        await fleet.join(JoinRequest(read_token(token).secret, wish, "10.0.0.2:8471"))


async def test_a_removal_whose_process_died_is_ended_by_the_next(
    fleet: Fleet, store: Store, lodger: Lodger
) -> None:
    await join(fleet)
    leaving = asyncio.create_task(removal.remove(fleet, "h2"))
    await until_waiting(fleet, leaving)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    heir = await start(store, lodger)
    assert ("h2" in heir.agents, lodger.forgotten) == (False, [])
    # A service that cannot answer now keeps it until it can.
    lodger.fails = 1
    for forgotten in ([], ["h2"]):
        going_on = asyncio.create_task(removal.go_on(heir))
        clock = await until_waiting(heir, going_on)
        clock.advance(2 * FLEET_POLL_S)
        await going_on
        assert lodger.forgotten == forgotten
    assert await heir.hosts() == []


async def test_who_ends_a_removal_late_forgets_no_host_that_joined_anew(
    fleet: Fleet, store: Store, lodger: Lodger
) -> None:
    await join(fleet)
    late = await start(store, lodger)
    leaving = asyncio.create_task(removal.remove(fleet, "h2"))
    await until_waiting(fleet, leaving)
    going_on = asyncio.create_task(removal.go_on(late))
    clock = await until_waiting(late, going_on)
    (await until_waiting(fleet, leaving)).advance(2 * FLEET_POLL_S)
    await leaving
    await join(fleet)
    lodger.heard["h2"] = clock.now()
    clock.advance(2 * FLEET_POLL_S)
    await going_on
    assert lodger.forgotten == ["h2"]
    assert (await fleet.host("h2")).status == "joined"


async def test_who_slept_as_a_service_was_to_forget_a_host_has_no_later_one_forgotten(
    fleet: Fleet, store: Store, lodger: Lodger
) -> None:
    await join(fleet)
    lodger.heard["h2"] = fleet.clock.now()
    lodger.before_forgetting.clear()
    leaving = asyncio.create_task(removal.remove(fleet, "h2"))
    (await until_waiting(fleet, leaving)).advance(2 * FLEET_POLL_S)
    await lodger.asked.wait()
    # Only the sleeper is held there.
    held, lodger.before_forgetting = lodger.before_forgetting, asyncio.Event()
    lodger.before_forgetting.set()
    heir = await start(store, lodger)
    going_on = asyncio.create_task(removal.go_on(heir))
    clock = await until_waiting(heir, going_on)
    clock.advance(2 * FLEET_POLL_S)
    await going_on
    assert lodger.forgotten == ["h2"]
    await join(heir)
    lodger.heard["h2"] = clock.now()
    held.set()
    with pytest.raises(Unavailable, match="joined anew"):
        await leaving
    assert lodger.forgotten == ["h2"]
    assert (await heir.host("h2")).status == "joined"


async def test_a_host_that_is_used_again_stays_whoever_else_takes_it_out(
    fleet: Fleet, store: Store, lodger: Lodger
) -> None:
    await join(fleet)
    late = await start(store, lodger)
    leaving = asyncio.create_task(removal.remove(fleet, "h2"))
    await until_waiting(fleet, leaving)
    going_on = asyncio.create_task(removal.remove(late, "h2"))
    clock = await until_waiting(late, going_on)
    lodger.comes_late = True
    (await until_waiting(fleet, leaving)).advance(2 * FLEET_POLL_S)
    with pytest.raises(Conflict, match="still has a thing"):
        await leaving
    lodger.comes_late = False
    clock.advance(2 * FLEET_POLL_S)
    with pytest.raises(Conflict, match="has joined meanwhile"):
        await going_on
    assert (lodger.forgotten, (await fleet.host("h2")).status) == ([], "joined")


async def test_the_loops_of_a_process_look_and_end_removals(
    fleet: Fleet, store: Store, lodger: Lodger
) -> None:
    other = await start(store, lodger)
    working = asyncio.create_task(other.run())
    await join(fleet)
    clock = other.clock
    assert isinstance(clock, SimulatedClock)
    while "h2" not in other.agents:
        assert not working.done()
        clock.advance(FLEET_POLL_S)
        await asyncio.wait({working}, timeout=0.01)
    leaving = asyncio.create_task(removal.remove(fleet, "h2"))
    await until_waiting(fleet, leaving)
    leaving.cancel()
    while await other.hosts():
        assert not working.done()
        clock.advance(FLEET_POLL_S)
        await asyncio.wait({working}, timeout=0.01)
    assert lodger.forgotten[-1] == "h2"
    assert "h2" not in other.agents
    working.cancel()
    await asyncio.gather(working, leaving, return_exceptions=True)


async def test_a_host_that_nobody_is_started_with_leaves_once_it_is_silent_and_unused(
    fleet: Fleet, lodger: Lodger
) -> None:
    clock = fleet.clock
    assert isinstance(clock, SimulatedClock)
    lodger.heard["lab-3"] = clock.now()
    with pytest.raises(NotFound, match="no host lab-4"):
        await removal.remove_absent(fleet.tenants, clock, "lab-4", gone=True)
    with pytest.raises(Conflict, match="less than a minute ago"):
        await removal.remove_absent(fleet.tenants, clock, "lab-3")
    clock.advance(61.0)
    lodger.things, lodger.debts = 1, 1
    with pytest.raises(Conflict, match="still has 1 things, 1 debts"):
        await removal.remove_absent(fleet.tenants, clock, "lab-3")
    lodger.things = 0
    with pytest.raises(Conflict, match="still has 1 debts"):
        await removal.remove_absent(fleet.tenants, clock, "lab-3")
    await removal.remove_absent(fleet.tenants, clock, "lab-3", gone=True)
    assert lodger.forgotten == ["lab-3"]
