"""Control planes with state directories of their own on one database, and what they must share."""

from __future__ import annotations

import asyncio
import json
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from mooring import access, installation
from mooring.errors import Invalid
from mooring.identity import renewal
from mooring.identity.app import SERVICE as IDENTITY
from mooring.identity.keys import TOKEN_KEYS
from mooring.limits import IDENTITY_CACHE_S
from mooring.saga import engines
from mooring.saga.tables import EngineRow
from tests.cloud import SimulatedCloud

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]
_ASKED = "/compute/v2.1/servers/detail"


def process(directory: Path, name: str, database: str) -> SimulatedCloud:
    """A control plane with a directory of its own; the first one's key is given to the others."""
    own, key = directory / name, directory / "a" / installation.SEAL_KEY
    own.mkdir()
    if key.exists():
        shutil.copy(key, own)
    return SimulatedCloud(own, database=database, hosts=(), owner=name)


def secrets(cloud: SimulatedCloud) -> list[bytes]:
    """What a process has in common with the others, as its files have it."""
    names = (access.PASSWORDS, TOKEN_KEYS)
    return [(cloud.settings.state_path / name).read_bytes() for name in names]


async def log_in(cloud: SimulatedCloud, name: str) -> str:
    """Log in with the password that a process's file names, and return the token."""
    file = cloud.settings.state_path / access.PASSWORDS
    user = {
        "name": name,
        "domain": {"id": "default"},
        "password": json.loads(file.read_bytes())[name],
    }
    project = {"name": "demo" if name == "demo" else "service", "domain": {"id": "default"}}
    proof = {"methods": ["password"], "password": {"user": user}}
    body = {"auth": {"identity": proof, "scope": {"project": project}}}
    answer = await cloud.ask("POST", "/identity/v3/auth/tokens", body)
    assert answer.status == 201, answer
    return answer.headers["x-subject-token"]


async def test_two_processes_take_nothing_away_from_each_other(
    tmp_path: Path, postgres_url: str
) -> None:
    async with (
        process(tmp_path, "a", postgres_url) as first,
        process(tmp_path, "b", postgres_url) as second,
    ):
        assert secrets(first) == secrets(second)
        for cloud, other in ((first, second), (second, first)):
            for name in ("demo", "compute"):
                headers = {"x-auth-token": await log_in(cloud, name)}
                assert (await other.ask("GET", _ASKED, headers=headers)).status == 200


async def test_two_that_start_at_once_on_an_empty_database_both_come_up(
    tmp_path: Path, postgres_url: str
) -> None:
    first = process(tmp_path, "a", postgres_url)
    (tmp_path / "a" / installation.SEAL_KEY).write_bytes(bytes(32))
    second = process(tmp_path, "b", postgres_url)
    first.is_laid = second.is_laid = False
    await asyncio.gather(first.open(), second.open())
    try:
        assert secrets(first) == secrets(second)
        for cloud in (first, second):
            assert (await cloud.ask("GET", _ASKED)).status == 200
    finally:
        await asyncio.gather(first.close(), second.close())


async def test_a_process_of_the_control_plane_is_up_while_it_renews_its_leases(
    tmp_path: Path, postgres_url: str
) -> None:
    async with (
        process(tmp_path, "a", postgres_url) as first,
        process(tmp_path, "b", postgres_url) as second,
    ):
        for cloud in (first, second):
            for engine in cloud.cloud.engines.values():
                await engine.schedule.share()
        assert await schedulers(first) == {"a-1": "up", "b-1": "up"}
        # One that is gone is silent, and stays to be seen: nothing else lives on its machine.
        for name in ("compute", "volume"):
            await first.cloud.stores[name].write(silence)
        assert await schedulers(first) == {"a-1": "up", "b-1": "down"}
        for engine in second.cloud.engines.values():
            await engine.schedule.share()
        assert await schedulers(first) == {"a-1": "up", "b-1": "up"}


def silence(tx: Session) -> None:
    """Let b be as one that has not renewed for a while."""
    row = tx.get_one(EngineRow, "b-1")
    row.beat_at -= timedelta(seconds=engines.SHOWN_DOWN_S + 1)


async def schedulers(cloud: SimulatedCloud) -> dict[str, str]:
    """Return the state of each scheduler, which compute and volume tell alike."""
    told: list[dict[str, str]] = []
    for path in (
        "/compute/v2.1/os-services?binary=nova-scheduler",
        "/volume/v3/os-services?binary=cinder-scheduler",
    ):
        answer = await cloud.ask("GET", path, user="admin")
        assert answer.status == 200, answer.text
        told.append({one["host"]: one["state"] for one in answer.body["services"]})
    assert told[0] == told[1]
    return told[0]


async def test_a_process_with_another_key_is_refused_and_changes_nothing(
    tmp_path: Path, postgres_url: str
) -> None:
    async with process(tmp_path, "a", postgres_url) as first:
        before = secrets(first)
        stranger = process(tmp_path, "b", postgres_url)
        (tmp_path / "b" / installation.SEAL_KEY).unlink()
        with pytest.raises(Invalid, match=r"seal.key is another key"):
            await stranger.open()
        assert secrets(first) == before
        assert (await first.ask("GET", _ASKED)).status == 200


async def test_the_catalogue_is_not_taken_from_a_process_that_others_reach_elsewhere(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with process(tmp_path, "a", postgres_url):
        pass
    second = process(tmp_path, "b", postgres_url)
    with monkeypatch.context() as patch:
        patch.setattr("tests.cloud.URL", "http://elsewhere")
        with pytest.raises(Invalid, match=r"at http://cloud/.*public_url"):
            await second.open()


async def test_a_process_that_was_killed_while_it_changed_its_address_comes_back(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = process(tmp_path, "a", postgres_url)
    async with cloud:
        pass
    with monkeypatch.context() as patch:
        patch.setattr("tests.cloud.URL", "http://second")
        patch.setattr(access, "_clouds", _die)
        with pytest.raises(ZeroDivisionError):
            await cloud.open()
    with monkeypatch.context() as patch:
        patch.setattr("tests.cloud.URL", "http://third")
        async with cloud:
            assert (await cloud.ask("GET", "http://third" + _ASKED)).status == 200


def _die(*_: object) -> bytes:
    """End a start as a kill would, between the catalogue and the clients' file."""
    raise ZeroDivisionError


async def test_lost_passwords_come_back_from_the_database(tmp_path: Path, database: str) -> None:
    cloud = SimulatedCloud(tmp_path / "a", database=database, hosts=())
    async with cloud:
        before = secrets(cloud)
    for name in (access.PASSWORDS, TOKEN_KEYS):
        (tmp_path / "a" / name).unlink()
    async with cloud:
        assert secrets(cloud) == before
        assert set(json.loads(before[0])) >= {"admin", "demo", "compute"}


async def test_a_password_that_its_owner_changed_may_be_written_into_the_file(
    tmp_path: Path, database: str
) -> None:
    cloud = SimulatedCloud(tmp_path / "a", database=database, hosts=())
    file = tmp_path / "a" / access.PASSWORDS
    async with cloud:
        known = json.loads(file.read_bytes())
        found = await cloud.ask("GET", "/identity/v3/users?name=admin", user="admin")
        path = f"/identity/v3/users/{found.body['users'][0]['id']}/password"
        body = {"user": {"original_password": known["admin"], "password": "chosen by hand"}}
        assert (await cloud.ask("POST", path, body, user="admin")).status == 204
    file.write_text(json.dumps(known | {"admin": "chosen by hand", "demo": "wrong"}))
    async with cloud:
        kept = json.loads(file.read_bytes())
        assert (kept["admin"], kept["demo"]) == ("chosen by hand", known["demo"])
        assert (await cloud.ask("GET", "/identity/v3/users", user="admin")).status == 200
    async with cloud:
        assert json.loads(file.read_bytes())["admin"] == "chosen by hand"


async def test_all_tokens_end_in_every_process_at_one_word(
    tmp_path: Path, postgres_url: str
) -> None:
    async with (
        process(tmp_path, "a", postgres_url) as first,
        process(tmp_path, "b", postgres_url) as second,
    ):
        before, keys = await log_in(second, "demo"), secrets(first)[1]
        headers = {"x-auth-token": before}
        # Neither a file that one process lost the word of, nor what one remembers, keeps a token.
        answer = await first.ask("DELETE", "/identity/v3/mooring/tokens", user="admin")
        assert answer.status == 204
        second.clock.advance(IDENTITY_CACHE_S + 0.1)
        for cloud in (first, second):
            assert (await cloud.ask("GET", _ASKED, headers=headers)).status == 401
        await renewal.follow(second.cloud[IDENTITY])
        assert secrets(first)[1] == secrets(second)[1] != keys
        after = {"x-auth-token": await log_in(second, "demo")}
        for cloud in (first, second):
            assert (await cloud.ask("GET", _ASKED, headers=after)).status == 200


async def test_keys_that_are_rotated_stay_so_and_end_no_token(
    tmp_path: Path, postgres_url: str
) -> None:
    async with (
        process(tmp_path, "a", postgres_url) as first,
        process(tmp_path, "b", postgres_url) as second,
    ):
        headers = {"x-auth-token": await log_in(second, "demo")}
        answer = await first.ask("POST", "/identity/v3/mooring/tokens/keys", user="admin")
        assert answer.status == 204
        kept = secrets(first)
        for cloud in (first, second):
            await renewal.follow(cloud.cloud[IDENTITY])
            assert secrets(cloud) == kept
            assert (await cloud.ask("GET", _ASKED, headers=headers)).status == 200
        refused = await second.ask("POST", "/identity/v3/mooring/tokens/keys")
        assert refused.status == 403
