"""Tokens that were exchanged for others, one after the other: what is ended ends all behind it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mooring.identity import tokens
from mooring.identity.tokens import Token
from tests.identity.cloud import DEFAULT, IdentityCloud

pytestmark = pytest.mark.anyio

LENGTH = 9
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def cloud(tmp_path: Path, database: str) -> AsyncGenerator[IdentityCloud]:
    async with IdentityCloud(tmp_path, database=database) as opened:
        yield opened


async def exchange(cloud: IdentityCloud, token: str) -> str:
    identity = {"methods": ["token"], "token": {"id": token}}
    scope = {"project": {"name": "demo", "domain": DEFAULT}}
    auth = {"identity": identity, "scope": scope}
    answer = await cloud.ask("POST", "/auth/tokens", {"auth": auth})
    assert answer.status == 201, answer
    return answer.headers["x-subject-token"]


async def make_chain(cloud: IdentityCloud) -> list[str]:
    chain = [(await cloud.log_in("demo", project=None)).headers["x-subject-token"]]
    while len(chain) < LENGTH:
        chain.append(await exchange(cloud, chain[-1]))
    return chain


async def end(cloud: IdentityCloud, token: str) -> None:
    headers = {"X-Subject-Token": token}
    assert (await cloud.ask("DELETE", "/auth/tokens", user="demo", headers=headers)).status == 204


@pytest.mark.parametrize("ended", [0, 1, 2, 3, 6, LENGTH - 1])
async def test_what_was_made_from_an_ended_token_ends(cloud: IdentityCloud, ended: int) -> None:
    chain = await make_chain(cloud)
    beside = await exchange(cloud, chain[0])
    await end(cloud, chain[ended])
    found = [(await cloud.show(token)).status for token in chain]
    assert found[ended:] == [404] * (LENGTH - ended)
    # One that names all that it was made from, as the first ones do, ends with nothing else.
    assert found[: min(ended, 4)] == [200] * min(ended, 4)
    assert (await cloud.show(beside)).status == (200 if ended else 404)


async def test_a_chain_shows_its_ends_and_stays_short(cloud: IdentityCloud) -> None:
    chain = await make_chain(cloud)
    shown = [(await cloud.show(token)).body["token"]["audit_ids"] for token in chain]
    assert len(shown[0]) == 1
    assert {(len(one), one[-1]) for one in shown[1:]} == {(2, shown[0][0])}
    assert len({one[0] for one in shown}) == LENGTH
    assert max(map(len, chain)) <= 255


async def test_the_largest_counts_leave_a_token_short_enough(cloud: IdentityCloud) -> None:
    token = Token(
        user_id="f" * 32,
        scope=f"project:{'f' * 32}",
        methods=tokens.METHODS,
        issued_at=NOW,
        expires_at=NOW,
        audit_ids=tuple(tokens.new_audit_id() for _ in range(4)),
        generation=2**40,
        place_generation=2**40,
    )
    text = tokens.issue(cloud.identity, token)
    assert len(text) <= 255
    folded = tokens.read(cloud.identity, text)
    assert (folded.whole, folded.shown_audit_ids) == (False, token.shown_audit_ids)
