"""Whoever guesses passwords waits, and nobody else waits for him."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mooring import limits
from mooring.errors import Unauthenticated, Unavailable
from mooring.identity.callers import Caller, neighbourhood, prove
from mooring.identity.failures import Failures
from mooring.identity.passwords import make_secret
from mooring.identity.turns import FairTurns
from tests.answers import Answer
from tests.identity.cloud import DEFAULT, IdentityCloud

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ann(cloud: IdentityCloud) -> IdentityCloud:
    """A cloud with a user who chose her password."""
    await cloud.add_user("ann", "secret", role="member", project="demo")
    return cloud


async def guess(cloud: IdentityCloud, times: int, name: str = "ann") -> list[int]:
    return [(await cloud.log_in(name, "wrong", project="demo")).status for _ in range(times)]


async def test_after_a_few_failures_each_further_login_has_to_wait(ann: IdentityCloud) -> None:
    assert await guess(ann, limits.IDENTITY_FREE_FAILURES) == [401] * limits.IDENTITY_FREE_FAILURES
    refused = await ann.log_in("ann", "secret", project="demo")
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert refused.body["error"]["message"] == (
        "Too many logins failed, so this one was not looked at. Try again in 1 s."
    )
    ann.clock.advance(1.0)
    assert await guess(ann, 2) == [401, 429]
    ann.clock.advance(1.5)
    assert await guess(ann, 1) == [429], "it has to wait twice as long by then"
    ann.clock.advance(0.5)
    assert (await ann.log_in("ann", "secret", project="demo")).status == 201
    assert await guess(ann, 1) == [401], "a login that goes well begins anew"


async def test_it_takes_no_more_than_a_minute_and_is_forgotten(ann: IdentityCloud) -> None:
    for _ in range(20):
        await guess(ann, 1)
        ann.clock.advance(limits.IDENTITY_FAILURE_WAIT_S)
    assert await guess(ann, 2) == [401, 429]
    ann.clock.advance(limits.IDENTITY_FAILURES_S)
    assert await guess(ann, limits.IDENTITY_FREE_FAILURES) == [401] * limits.IDENTITY_FREE_FAILURES


async def test_users_who_do_not_exist_are_answered_the_same(ann: IdentityCloud) -> None:
    times = limits.IDENTITY_FREE_FAILURES + 1
    assert await guess(ann, times) == await guess(ann, times, "nobody")


async def test_others_are_not_kept_waiting(ann: IdentityCloud) -> None:
    await guess(ann, 9)
    assert (await ann.log_in("admin")).status == 201
    hashed = await ann.identity.hasher.hash("secret")
    elsewhere = Caller("192.0.2.7", stays)
    assert await prove(ann.identity, "ann", "secret", hashed, elsewhere)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("", "front", False),
    ],
)
def test_who_has_a_network_of_ipv6_addresses_is_one_caller(
    one: str, other: str, alike: bool
) -> None:
    assert (neighbourhood(one) == neighbourhood(other)) is alike


async def stays() -> bool:
    return False


async def leaves() -> bool:
    return True


async def test_secrets_and_changes_of_passwords_are_guessed_at_no_faster(
    ann: IdentityCloud,
) -> None:
    user_id = await ann.id_of("users", "ann")
    credential = {"id": "f" * 32, "secret": "wrong"}
    identity = {"methods": ["application_credential"], "application_credential": credential}
    words = {"original_password": "wrong", "password": "mine"}

    async def by_credential() -> Answer:
        return await ann.ask("POST", "/auth/tokens", {"auth": {"identity": identity}})

    async def by_change() -> Answer:
        return await ann.ask("POST", f"/users/{user_id}/password", {"user": words})

    for ask in (by_credential, by_change):
        statuses = [(await ask()).status for _ in range(limits.IDENTITY_FREE_FAILURES + 1)]
        assert statuses == [401] * limits.IDENTITY_FREE_FAILURES + [429]


async def test_who_has_left_is_not_looked_at_when_his_turn_comes(ann: IdentityCloud) -> None:
    hashed = await ann.identity.hasher.hash("secret")
    with pytest.raises(Exception, match="left before his turn"):
        await prove(ann.identity, "ann", "secret", hashed, Caller("192.0.2.7", leaves))


@pytest.mark.parametrize("known", [True, False])
async def test_a_wrong_secret_of_ours_takes_as_long_as_one_of_nobody(
    ann: IdentityCloud, known: bool
) -> None:
    secret, hashed = make_secret()
    leaving = Caller("192.0.2.7", leaves)
    with pytest.raises(Unauthenticated) as refused:
        await prove(ann.identity, "credential", "wrong", hashed if known else None, leaving)
    assert "left before his turn" in refused.value.private, "each waits for a turn"
    assert not await prove(ann.identity, "credential", "wrong", hashed, Caller("192.0.2.7", stays))
    assert await prove(ann.identity, "credential", secret, hashed, leaving), "this one is free"


async def test_many_guesses_at_once_are_no_way_around(ann: IdentityCloud) -> None:
    user: dict[str, Any] = {"name": "ann", "domain": DEFAULT, "password": "wrong"}
    body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}
    asked = (ann.ask("POST", "/auth/tokens", body) for _ in range(20))
    statuses = [answer.status for answer in await asyncio.gather(*asked)]
    looked_at = statuses.count(401)
    assert looked_at < limits.IDENTITY_FREE_FAILURES + limits.IDENTITY_HASHES + 1
    assert statuses.count(429) == 20 - looked_at


async def test_what_else_is_shown_of_a_user_makes_no_other_of_him(ann: IdentityCloud) -> None:
    user_id = await ann.id_of("users", "ann")
    statuses: list[int] = []
    for number in range(limits.IDENTITY_FREE_FAILURES + 1):
        named = {"name": "ann", "domain": {"id": "default", "name": f"n{number}"}}
        user = {"id": user_id, "name": f"n{number}"} if number % 2 else named
        identity = {"methods": ["password"], "password": {"user": {**user, "password": "wrong"}}}
        answer = await ann.ask("POST", "/auth/tokens", {"auth": {"identity": identity}})
        statuses.append(answer.status)
    assert statuses == [401] * limits.IDENTITY_FREE_FAILURES + [429]


def test_failures_without_end_are_counted_and_take_no_more_room() -> None:
    failures, now = Failures(), datetime(2026, 1, 1, tzinfo=UTC)
    for _ in range(2000):
        failures.note("192.0.2.7", "x" * 60000, now)
    with pytest.raises(Unauthenticated, match="Try again in 60 s"):
        failures.check("192.0.2.7", "x" * 60000, now)


async def test_a_secret_too_long_to_be_one_is_no_guess(ann: IdentityCloud) -> None:
    long = "x" * (limits.IDENTITY_PASSWORD_CHARS + 1)
    for name in ("ann", "nobody"):
        answers = [
            await ann.log_in(name, long, project="demo")
            for _ in range(limits.IDENTITY_FREE_FAILURES + 2)
        ]
        assert {answer.status for answer in answers} == {401}
    wrong = await ann.log_in("ann", "wrong", project="demo")
    assert answers[0].body == wrong.body
    assert (await ann.log_in("ann", "secret", project="demo")).status == 201


def test_who_fails_with_ever_other_names_forgets_his_own_failures_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "IDENTITY_FAILURES_KEPT", 50)
    failures, now = Failures(), datetime(2026, 1, 1, tzinfo=UTC)
    for _ in range(20):
        for address, user in (("192.0.2.7", "ann"), ("192.0.2.8", "first")):
            failures.note(address, user, now)
    for number in range(100):
        failures.note("192.0.2.8", f"n{number}", now)
    with pytest.raises(Unauthenticated, match="Try again in 60 s"):
        failures.check("192.0.2.7", "ann", now)
    failures.check("192.0.2.8", "first", now)


def test_of_many_addresses_the_one_that_failed_longest_ago_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "IDENTITY_FAILURES_KEPT", 50)
    failures, now = Failures(), datetime(2026, 1, 1, tzinfo=UTC)
    later = now + timedelta(seconds=limits.IDENTITY_FAILURES_S)
    for _ in range(20):
        failures.note("192.0.2.7", "ann", now)
    for number in range(50):
        failures.note(f"198.51.100.{number}", "ann", now)
    failures.check("192.0.2.7", "ann", now)
    # What is too old to count takes no room from what does.
    for number in range(49):
        failures.note("192.0.2.9", f"n{number}", later)
    for _ in range(20):
        failures.note("192.0.2.9", "n0", later)
    with pytest.raises(Unauthenticated, match="Try again in 60 s"):
        failures.check("192.0.2.9", "n0", later)


async def test_turns_go_round_the_addresses() -> None:
    turns, order = FairTurns(1, 100), list[str]()

    async def take(address: str, name: str) -> None:
        async with turns.turn(address):
            order.append(name)
            await asyncio.sleep(0)

    greedy = [take("a", f"a{number}") for number in range(4)]
    await asyncio.gather(*greedy, take("b", "b0"), take("c", "c0"), take("b", "b1"))
    assert order == ["a0", "a1", "b0", "c0", "a2", "b1", "a3"]


async def test_a_turn_that_nobody_waits_for_any_more_goes_to_the_next() -> None:
    turns = FairTurns(1, 100)
    entered = asyncio.Event()

    async def take() -> None:
        async with turns.turn("a"):
            entered.set()

    async with turns.turn("a"):
        waiting = [asyncio.create_task(take()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert entered.is_set()
    async with asyncio.timeout(1), turns.turn("b"):
        pass


async def test_a_row_has_an_end() -> None:
    turns = FairTurns(1, 2)
    async with turns.turn("a"):
        rows = [asyncio.create_task(turns.turn(each).__aenter__()) for each in ("a", "a", "b")]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="wait for their turn"):
            async with turns.turn("a"):
                pass
        for row in rows:
            row.cancel()
        await asyncio.gather(*rows, return_exceptions=True)
