"""Who may join, and what the cloud remembers of those who may not: nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
import structlog
from msgspec.structs import replace
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring import certificates
from mooring.agent_api.client import Agents
from mooring.agent_api.joining import Joined, JoinRequest, JoinToken, read_token, write_token
from mooring.clock import SimulatedClock
from mooring.errors import Bug, Conflict, Forbidden, Invalid, MooringError, NotFound, OverQuota
from mooring.fleet import door, joining
from mooring.fleet.fleet import Fleet, open_fleet
from mooring.fleet.tables import AuthorityRow, HostRow
from mooring.limits import JOIN_TOKEN_S
from mooring.saga.seal import Sealer
from mooring.store.base import Store
from mooring.web.audit import FILE, STRANGERS, AuditLog
from tests.fleet.stores import BOTH, open_fleet_store

pytestmark = pytest.mark.anyio
SEALER = Sealer(b"k" * 32)
HERE = "10.0.0.1:8472"


@pytest.fixture(params=BOTH)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    async with open_fleet_store(request, tmp_path) as opened:
        yield opened


@pytest.fixture
async def fleet(store: Store) -> Fleet:
    return await open_fleet(store, SEALER, Agents(), SimulatedClock())


def knock(token: str, key: bytes, *, name: str = "", address: str = "10.0.0.2:8471") -> JoinRequest:
    said = read_token(token)
    wish = certificates.make_request(key, name or said.host).decode()
    return JoinRequest(secret=said.secret, wish=wish, address=address)


async def rows(store: Store) -> list[dict[str, Any]]:
    def load(tx: Session) -> list[dict[str, Any]]:
        return [dict(row) for row in tx.execute(select(*HostRow.__table__.columns)).mappings()]

    return await store.read(load)


def turn(fleet: Fleet, seconds: float) -> None:
    assert isinstance(fleet.clock, SimulatedClock)
    fleet.clock.advance(seconds)


async def test_a_host_joins_once_and_is_known_from_then_on(fleet: Fleet) -> None:
    token, until = await fleet.invite("h2", ["compute"], HERE)
    assert until - fleet.clock.now() == timedelta(seconds=JOIN_TOKEN_S)
    assert list(fleet.agents) == []
    joined = await fleet.join(knock(token, certificates.new_key()))
    assert (joined.name, joined.roles) == ("h2", ["compute"])
    assert list(fleet.agents) == ["h2"]
    assert (await fleet.host("h2")).address == "10.0.0.2:8471"


async def test_a_token_is_kept_as_a_digest_alone(fleet: Fleet, store: Store) -> None:
    token, _ = await fleet.invite("h2", ["volume"], HERE)
    assert read_token(token).secret not in str(await rows(store))
    await fleet.join(knock(token, certificates.new_key()))
    assert read_token(token).secret not in str(await rows(store))


async def test_the_same_key_gets_the_same_answer_however_often_and_late(fleet: Fleet) -> None:
    token, _ = await fleet.invite("h2", ["compute"], HERE)
    key = certificates.new_key()
    first = await fleet.join(knock(token, key))
    turn(fleet, 2 * JOIN_TOKEN_S)
    assert await fleet.join(knock(token, key, address="10.0.0.3:8471")) == first
    assert [row.address for row in await fleet.hosts()] == ["10.0.0.3:8471"]


async def test_of_two_who_use_a_token_at_once_one_joins(fleet: Fleet) -> None:
    token, _ = await fleet.invite("h2", ["compute"], HERE)
    both = [fleet.join(knock(token, certificates.new_key())) for _ in range(2)]
    answers = await asyncio.gather(*both, return_exceptions=True)
    assert [type(each) for each in answers if not isinstance(each, Joined)] == [Conflict]


async def refuse(
    fleet: Fleet, store: Store, asked: JoinRequest, kind: type[MooringError], said: str
) -> None:
    """Hold that a request is refused and leaves no trace."""
    before = await rows(store)
    with pytest.raises(kind, match=said):
        await fleet.join(asked)
    assert await rows(store) == before
    assert "h2" not in fleet.agents


async def test_bad_tokens_are_refused_without_a_trace(fleet: Fleet, store: Store) -> None:
    earlier, _ = await fleet.invite("h2", ["compute"], HERE)
    token, _ = await fleet.invite("h2", ["compute"], HERE)
    key = certificates.new_key()
    forged = write_token(JoinToken(address=HERE, authority="f" * 64, host="h2", secret="guess"))
    for unknown in (earlier, forged):
        await refuse(fleet, store, knock(unknown, key), Forbidden, "mooring host add")
    wrong_name = knock(token, key, name="h3")
    await refuse(fleet, store, wrong_name, Forbidden, "for host h2, not for h3")
    for address in ("somewhere", "10.0.0.2:0", "10.0.0.2:65536"):
        nowhere = knock(token, key, address=address)
        await refuse(fleet, store, nowhere, Invalid, "ADDRESS:PORT .* 1 to 65535")
    no_wish = JoinRequest(secret=read_token(token).secret, wish="please", address="10.0.0.2:1")
    await refuse(fleet, store, no_wish, Invalid, "no request for a certificate")
    turn(fleet, JOIN_TOKEN_S + 1)
    await refuse(
        fleet, store, knock(token, key), Forbidden, "was good until .* mooring host add h2"
    )


async def test_a_used_token_lets_no_other_key_in(fleet: Fleet, store: Store) -> None:
    token, _ = await fleet.invite("h2", ["compute"], HERE)
    await fleet.join(knock(token, certificates.new_key()))
    before = await rows(store)
    with pytest.raises(Conflict, match=r"joined with another key\. .* mooring host remove h2"):
        await fleet.join(knock(token, certificates.new_key()))
    assert await rows(store) == before


async def test_names_that_exist_or_cannot_be_are_refused(fleet: Fleet, store: Store) -> None:
    fleet.agents.unix("near", "/nowhere")
    token, _ = await fleet.invite("h2", ["compute"], HERE)
    await fleet.join(knock(token, certificates.new_key()))
    before = await rows(store)
    with pytest.raises(Conflict, match="beside the control plane already"):
        await fleet.invite("near", ["compute"], HERE)
    with pytest.raises(Conflict, match="joined already"):
        await fleet.invite("h2", ["compute"], HERE)
    for name in ("", "-x", "x.", "a/b", "ü", "x" * 64):
        with pytest.raises(Invalid, match="is no name for a host"):
            await fleet.invite(name, ["compute"], HERE)
    for roles in ([], ["router"], ["compute", "compute"]):
        with pytest.raises(Invalid, match="one or more of the roles"):
            await fleet.invite("h3", roles, HERE)
    assert await rows(store) == before
    with pytest.raises(NotFound, match="mooring host list"):
        await fleet.host("h3")


async def test_a_fleet_has_a_bound(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "FLEET_HOSTS", 1)
    await fleet.invite("h2", ["compute"], HERE)
    await fleet.invite("h2", ["compute"], HERE)
    with pytest.raises(OverQuota, match="mooring host remove"):
        await fleet.invite("h3", ["compute"], HERE)


async def test_every_process_finds_the_same_authorities_whose_keys_are_sealed(store: Store) -> None:
    opening = (open_fleet(store, SEALER, Agents(), SimulatedClock()) for _ in range(6))
    fleets = await asyncio.gather(*opening)
    assert len({(fleet.authority, fleet.moves.certificate) for fleet in fleets}) == 1
    query = select(AuthorityRow.sealed_key)
    sealed = await store.read(lambda tx: tx.execute(query).scalars().all())
    assert len(sealed) == 2
    assert all(b"PRIVATE" in SEALER.open(one) for one in sealed)
    with pytest.raises(Bug, match="the key in the state directory is another one"):
        await open_fleet(store, Sealer(b"q" * 32), Agents(), SimulatedClock())


async def test_other_processes_learn_who_joined(fleet: Fleet, store: Store) -> None:
    other = await open_fleet(store, SEALER, Agents(), SimulatedClock())
    token, _ = await fleet.invite("h2", ["compute"], HERE)
    await fleet.join(knock(token, certificates.new_key()))
    assert "h2" not in other.agents
    await other.look()
    client = other.agents["h2"]
    await other.look()
    assert other.agents["h2"] is client


@pytest.mark.parametrize("text", ["", "h2", "mooring-join-1.", "mooring-join-1.!", "x" * 5000])
def test_what_is_no_token_is_told(text: str) -> None:
    with pytest.raises(Invalid, match="mooring host add"):
        read_token(text)


async def test_the_audit_log_says_who_was_let_in_and_apart_who_was_not(
    fleet: Fleet, tmp_path: Path
) -> None:
    app = door.build(fleet, AuditLog(tmp_path / FILE))
    transport = httpx2.ASGITransport(app=app, client=("192.0.2.7", 4711))
    token, _ = await fleet.invite("h2", ["compute"], HERE)
    key = certificates.new_key()
    asked = knock(token, key)
    async with httpx2.AsyncClient(transport=transport, base_url="http://door") as client:
        wrong = msgspec.json.encode(replace(asked, secret="guessed"))
        assert (await client.post("/join", content=wrong)).status_code == 403
        assert not (tmp_path / FILE).exists()
        right = await client.post("/join", content=msgspec.json.encode(asked))
        assert right.status_code == 200
    [line] = (tmp_path / FILE).read_text().splitlines()
    told = msgspec.json.decode(line)
    assert (told["what"], told["host"], told["address"]) == ("host", "h2", "192.0.2.7")
    [line] = (tmp_path / STRANGERS).read_text().splitlines()
    told = msgspec.json.decode(line)
    assert (told["what"], told["status"], told["address"]) == ("refused", 403, "192.0.2.7")
    assert "guessed" not in line
    assert read_token(token).secret not in (tmp_path / FILE).read_text()


@pytest.mark.parametrize("how", ["used", "too late", "for another host"])
async def test_whoever_is_not_let_in_is_in_the_log_and_nothing_of_the_token(
    fleet: Fleet, tmp_path: Path, how: str
) -> None:
    app = door.build(fleet, AuditLog(tmp_path / FILE))
    transport = httpx2.ASGITransport(app=app, client=("192.0.2.7", 4711))
    token, _ = await fleet.invite("h2", ["compute"], HERE)
    if how == "used":
        await fleet.join(knock(token, certificates.new_key()))
    elif how == "too late":
        turn(fleet, JOIN_TOKEN_S + 1)
    name = "h3" if how == "for another host" else "h2"
    asked = msgspec.json.encode(knock(token, certificates.new_key(), name=name))
    async with httpx2.AsyncClient(transport=transport, base_url="http://door") as client:
        with structlog.testing.capture_logs() as logged:
            answer = await client.post("/join", content=asked)
    assert answer.status_code == (409 if how == "used" else 403)
    [said] = [one for one in logged if one["event"] == "a host was not let in"]
    assert "192.0.2.7" in said["caller"]
    [line] = (tmp_path / STRANGERS).read_text().splitlines()
    assert msgspec.json.decode(line)["status"] == answer.status_code
    assert read_token(token).secret not in line + str(logged)


async def test_a_host_that_is_being_removed_is_told_by_name_what_lets_it_back(
    fleet: Fleet, store: Store
) -> None:
    token, _ = await fleet.invite("h2", ["compute"], HERE)
    asked = knock(token, certificates.new_key())
    await fleet.join(asked)

    def leave(tx: Session) -> None:
        row = joining.find(tx, "h2")
        assert row is not None
        row.status = "leaving"

    await store.write(leave)
    with pytest.raises(Conflict, match=r"being removed\. .* mooring host add h2\."):
        await fleet.join(asked)
