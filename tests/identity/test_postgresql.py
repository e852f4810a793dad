from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.identity import bootstrap
from tests.identity.town import URLS, Town, enter

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


@pytest.fixture
async def town(tmp_path: Path, postgres_url: str) -> AsyncGenerator[Town]:
    identity = await enter(tmp_path, postgres_url)
    known = dict.fromkeys(bootstrap.SERVICE_USERS, "known from before")
    made = await bootstrap.ensure(identity, urls=URLS, known=known)
    yield Town(identity, {**made, **known})
    await identity.store.close()


async def test_logins_lists_and_grants_work(town: Town) -> None:
    assert (await town.log_in("volume")).status == 201
    user_id = await town.add_user("ann", "secret", role="member", project="demo")
    answer = await town.log_in("ann", project="demo")
    assert {role["name"] for role in answer.json["token"]["roles"]} == {"member", "reader"}
    found = await town.get("/users?name__icontains=AN&enabled=true&limit=1")
    assert [user["id"] for user in found["users"]] == [user_id]
    assert (await town.ask("DELETE", f"/users/{user_id}", by="admin")).status == 204


async def test_of_two_who_want_one_name_one_gets_it(town: Town) -> None:
    await town.token("admin")
    body = {"role": {"name": "sailor"}}
    answers = await asyncio.gather(
        *(town.ask("POST", "/roles", body, by="admin") for _ in range(4))
    )
    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409]


async def test_a_grant_given_twice_at_once_is_given(town: Town) -> None:
    user_id, role_id = await town.id_of("users", "compute"), await town.id_of("roles", "reader")
    path = f"/system/users/{user_id}/roles/{role_id}"
    answers = await asyncio.gather(*(town.ask("PUT", path, by="admin") for _ in range(4)))
    assert {answer.status for answer in answers} == {204}
