"""Certificates are renewed in time, and what fails leaves the one that was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path

import pytest
import structlog

from mooring import certificates
from mooring.agent import membership
from mooring.agent.certificate import Credentials
from mooring.agent.membership import RENEWAL_KEY, Membership
from mooring.agent_api.certificates import Shown
from mooring.agent_api.client import Agents
from mooring.agent_api.joining import JoinRequest, read_token
from mooring.clock import SimulatedClock
from mooring.errors import Conflict, Forbidden, NotFound
from mooring.fleet import renewal
from mooring.fleet.fleet import Fleet, open_fleet
from mooring.limits import CERTIFICATE_LIFETIME_S, CERTIFICATE_RENEW_S
from mooring.saga.seal import Sealer
from mooring.store.base import Store
from tests.agent.hosts import open_host
from tests.fleet.stores import BOTH, open_fleet_store
from tests.sleeping import sleep_before_write

pytestmark = pytest.mark.anyio


@pytest.fixture(params=BOTH)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    async with open_fleet_store(request, tmp_path) as opened:
        yield opened


@pytest.fixture
async def fleet(store: Store) -> Fleet:
    return await open_fleet(store, Sealer(b"k" * 32), Agents(), SimulatedClock())


@pytest.fixture
async def credentials(fleet: Fleet, tmp_path: Path) -> AsyncGenerator[Credentials]:
    """Those of the host h2, which joined; its agent runs in this process."""
    directory = tmp_path / "h2"
    token, _ = await fleet.invite("h2", ["compute"], "10.0.0.1:8472")
    key = certificates.new_key()
    wish = certificates.make_request(key, "h2").decode()
    async with open_host(directory, name="h2") as (_, running):
        fleet.agents.in_process("h2", running.app)
        joined = await fleet.join(JoinRequest(read_token(token).secret, wish, "10.0.0.2:8471"))
        member = Membership(
            name="h2",
            roles=joined.roles,
            address="10.0.0.2:8471",
            token="",
            authority=fleet.authority.decode(),
            certificate=joined.certificate,
            key=key.decode(),
        )
        membership.write(directory, member)
        context = certificates.server_context(member.held, asks_callers=True)
        running.agent.credentials = Credentials(directory, member, context)
        yield running.agent.credentials


def turn(fleet: Fleet, seconds: float) -> None:
    assert isinstance(fleet.clock, SimulatedClock)
    fleet.clock.advance(seconds)


async def test_what_ends_soon_is_renewed_and_nothing_else(
    fleet: Fleet, credentials: Credentials, tmp_path: Path
) -> None:
    first, own = credentials.member, fleet.held
    turn(fleet, CERTIFICATE_LIFETIME_S - CERTIFICATE_RENEW_S - 60)
    await renewal.renew_due(fleet)
    assert (credentials.member, fleet.held) == (first, own)
    turn(fleet, 120)
    await renewal.renew_due(fleet)
    member = credentials.member
    assert member.certificate != first.certificate
    assert member.key != first.key
    assert fleet.held.certificate != own.certificate
    left = certificates.expiry(member.certificate.encode()) - fleet.clock.now()
    assert abs(left - timedelta(seconds=CERTIFICATE_LIFETIME_S)) < timedelta(seconds=2)
    assert (await fleet.host("h2")).certificate == member.certificate
    assert membership.read(tmp_path / "h2") == member
    assert not (tmp_path / "h2" / RENEWAL_KEY).exists()
    assert round((await fleet.certified_s())["h2"] - left.total_seconds()) == 0
    await renewal.renew_due(fleet)
    assert credentials.member == member


async def test_who_slept_over_a_later_renewal_notes_no_certificate_of_before(
    fleet: Fleet, credentials: Credentials
) -> None:
    has_come, is_over = asyncio.Event(), asyncio.Event()

    async def fall() -> None:
        if not has_come.is_set():
            has_come.set()
            await is_over.wait()

    sleep_before_write(fleet.store, "note", fall)
    late = asyncio.create_task(renewal.renew(fleet, "h2"))
    await has_come.wait()
    former = credentials.member.certificate
    turn(fleet, 60)
    await renewal.renew(fleet, "h2")
    shown = credentials.member.certificate
    assert shown != former
    is_over.set()
    await late
    assert (await fleet.host("h2")).certificate == shown


async def test_of_two_renewals_at_once_the_later_one_is_noted(
    fleet: Fleet, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = fleet.agents["h2"]
    ask, has_come, is_over = agent.certificate, asyncio.Event(), asyncio.Event()

    async def ask_late() -> Shown:
        if not has_come.is_set():
            has_come.set()
            await is_over.wait()
        return await ask()

    monkeypatch.setattr(agent, "certificate", ask_late)
    late = asyncio.create_task(renewal.renew(fleet, "h2"))
    await has_come.wait()
    await renewal.renew(fleet, "h2")
    turn(fleet, 60)
    is_over.set()
    await late
    assert (await fleet.host("h2")).certificate == credentials.member.certificate


async def test_a_host_shows_the_same_request_until_it_is_answered(
    credentials: Credentials,
) -> None:
    first, again = (certificates.read_request(credentials.show().wish.encode()) for _ in range(2))
    assert first == again


async def test_a_host_takes_no_certificate_for_another_key(credentials: Credentials) -> None:
    before = credentials.member
    with pytest.raises(Conflict, match="for another key"):
        credentials.take(certificates.make_authority(SimulatedClock().now()).authority.decode())
    credentials.take(before.certificate)
    assert credentials.member == before


async def test_a_host_that_is_silent_keeps_no_other_waiting(
    fleet: Fleet, credentials: Credentials
) -> None:
    first = credentials.member
    token, _ = await fleet.invite("h1", ["compute"], "10.0.0.1:8472")
    wish = certificates.make_request(certificates.new_key(), "h1").decode()
    # Nobody listens there.
    await fleet.join(JoinRequest(read_token(token).secret, wish, "127.0.0.1:1"))
    turn(fleet, CERTIFICATE_LIFETIME_S - 60)
    await renewal.renew_due(fleet)
    assert credentials.member != first
    assert (await fleet.certified_s())["h1"] < 120


async def test_a_mistake_with_one_host_keeps_no_other_waiting(
    fleet: Fleet, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = credentials.member
    token, _ = await fleet.invite("h1", ["compute"], "10.0.0.1:8472")
    wish = certificates.make_request(certificates.new_key(), "h1").decode()
    await fleet.join(JoinRequest(read_token(token).secret, wish, "127.0.0.1:1"))

    async def mistaken() -> None:
        raise ZeroDivisionError

    turn(fleet, CERTIFICATE_LIFETIME_S - 60)
    with structlog.testing.capture_logs() as said:
        monkeypatch.setattr(fleet.agents["h1"], "certificate", mistaken)
        await renewal.renew_due(fleet)
    assert credentials.member != first
    [told] = [line for line in said if "exc_info" in line]
    assert (told["host"], told["exc_info"]) == ("h1", True)


async def test_only_a_host_that_joined_is_renewed(fleet: Fleet, tmp_path: Path) -> None:
    await fleet.invite("h2", ["compute"], "10.0.0.1:8472")
    with pytest.raises(Conflict, match="is invited"):
        await renewal.renew(fleet, "h2")
    with pytest.raises(NotFound):
        await renewal.renew(fleet, "h3")
    async with open_host(tmp_path / "near") as (host, _):
        with pytest.raises(Forbidden, match="needs no certificate"):
            await host.client.certificate()
