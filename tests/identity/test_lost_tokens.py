"""What goes by the end of a group, a role or an implication comes back to no token of before."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.identity.cloud import IdentityCloud

pytestmark = pytest.mark.anyio


class Crew:
    """Ann, who has but what a group gives her on `demo`: `captain`, which implies `sailor`."""

    def __init__(self, cloud: IdentityCloud) -> None:
        self.cloud = cloud

    async def sign_on(self) -> None:
        make, cloud = self.cloud.make, self.cloud
        user = await make("/users", {"user": {"name": "ann", "password": "secret"}})
        self.user, cloud.passwords["ann"] = user["id"], "secret"
        self.captain, self.sailor = [
            (await make("/roles", {"role": {"name": name}}))["id"] for name in ("captain", "sailor")
        ]
        self.domain = (await make("/domains", {"domain": {"name": "blue"}}))["id"]
        group = {"name": "crew", "domain_id": self.domain}
        self.group = (await make("/groups", {"group": group}))["id"]
        self.project = await cloud.id_of("projects", "demo")
        self.implies = f"/roles/{self.captain}/implies/{self.sailor}"
        given = f"/projects/{self.project}/groups/{self.group}/roles/{self.captain}"
        for path in (self.implies, f"/groups/{self.group}/users/{self.user}", given):
            await self.do("PUT", path)

    async def do(self, method: str, path: str, body: object = None) -> None:
        answer = await self.cloud.ask(method, path, body, user="admin")
        assert answer.status in {200, 201, 204}, answer

    async def lose(self, what: str) -> None:
        if what == "domain":
            await self.do("PATCH", f"/domains/{self.domain}", {"domain": {"enabled": False}})
        paths = {
            "group": f"/groups/{self.group}",
            "domain": f"/domains/{self.domain}",
            "role": f"/roles/{self.captain}",
            "implied role": f"/roles/{self.sailor}",
            "implication": self.implies,
        }
        await self.do("DELETE", paths[what])

    async def token(self) -> str:
        answer = await self.cloud.log_in("ann", project="demo")
        assert answer.status == 201, answer
        return answer.headers["x-subject-token"]

    async def roles(self, token: str) -> set[str]:
        answer = await self.cloud.show(token)
        return {role["name"] for role in answer.body["token"]["roles"]}


@pytest.fixture
async def crew(tmp_path: Path, location: str) -> AsyncGenerator[Crew]:
    database = location if location.startswith("postgresql:") else ""
    async with IdentityCloud(tmp_path, database=database) as cloud:
        made = Crew(cloud)
        await made.sign_on()
        yield made


@pytest.mark.parametrize("lost", ["group", "domain", "role"])
async def test_what_one_had_by_what_is_deleted_is_given_to_no_token_of_before(
    crew: Crew, lost: str
) -> None:
    token = await crew.token()
    assert await crew.roles(token) == {"captain", "sailor"}
    await crew.lose(lost)
    await crew.do("PUT", f"/projects/{crew.project}/users/{crew.user}/roles/{crew.sailor}")
    assert (await crew.cloud.show(token)).status == 404
    assert await crew.roles(await crew.token()) == {"sailor"}


async def test_a_role_that_was_implied_ends_the_tokens_of_those_who_had_it(crew: Crew) -> None:
    token = await crew.token()
    await crew.lose("implied role")
    assert (await crew.cloud.show(token)).status == 404
    assert await crew.roles(await crew.token()) == {"captain"}


async def test_an_implication_that_is_made_again_gives_nothing_to_tokens_of_before(
    crew: Crew,
) -> None:
    with_it = await crew.token()
    await crew.lose("implication")
    without = await crew.token()
    assert await crew.roles(with_it) == {"captain"}
    await crew.do("PUT", crew.implies)
    assert [(await crew.cloud.show(one)).status for one in (with_it, without)] == [404, 404]
    again = await crew.token()
    await crew.do("PUT", crew.implies)
    assert await crew.roles(again) == {"captain", "sailor"}, "nothing was taken since"


async def test_a_group_that_gave_nothing_ends_no_token(crew: Crew) -> None:
    other = await crew.cloud.make("/groups", {"group": {"name": "guests"}})
    await crew.do("PUT", f"/groups/{other['id']}/users/{crew.user}")
    token = await crew.token()
    await crew.do("DELETE", f"/groups/{other['id']}")
    assert await crew.roles(token) == {"captain", "sailor"}


async def test_who_has_by_another_group_what_one_gave_that_is_deleted_keeps_its_token(
    crew: Crew,
) -> None:
    other = await crew.cloud.make("/groups", {"group": {"name": "deck"}})
    await crew.do("PUT", f"/groups/{other['id']}/users/{crew.user}")
    await crew.do("PUT", f"/projects/{crew.project}/groups/{other['id']}/roles/{crew.captain}")
    token = await crew.token()
    await crew.lose("domain")
    assert await crew.roles(token) == {"captain", "sailor"}
