"""Application credentials end with what their users lose, and stay so when it is given again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session

from mooring.identity import groups, users
from mooring.identity.users import UserChange
from tests.identity.cloud import IdentityCloud

pytestmark = pytest.mark.anyio

PASSWORD = "secret"


class Crew:
    """Ann, who is `member` of `demo` by herself and `sailor` by the group `crew` of a domain."""

    def __init__(self, cloud: IdentityCloud) -> None:
        self.cloud = cloud

    async def sign_on(self) -> None:
        make = self.cloud.make
        self.user = await self.cloud.add_user("ann", PASSWORD, role="member", project="demo")
        self.project = await self.cloud.id_of("projects", "demo")
        self.member = await self.cloud.id_of("roles", "member")
        self.domain = (await make("/domains", {"domain": {"name": "blue"}}))["id"]
        group = {"name": "crew", "domain_id": self.domain}
        self.group = (await make("/groups", {"group": group}))["id"]
        self.sailor = (await make("/roles", {"role": {"name": "sailor"}}))["id"]
        self.cook = (await make("/roles", {"role": {"name": "cook"}}))["id"]
        await self.do("PUT", f"/roles/{self.sailor}/implies/{self.cook}", 201)
        await self.do("PUT", self.membership)
        await self.do("PUT", self.group_grant)

    @property
    def membership(self) -> str:
        return f"/groups/{self.group}/users/{self.user}"

    @property
    def group_grant(self) -> str:
        return f"/projects/{self.project}/groups/{self.group}/roles/{self.sailor}"

    def grant(self, role_id: str, user_id: str = "") -> str:
        return f"/projects/{self.project}/users/{user_id or self.user}/roles/{role_id}"

    async def do(self, method: str, path: str, status: int = 204, body: Any = None) -> None:
        assert (await self.cloud.ask(method, path, body, user="admin")).status == status

    async def enable(self, path: str, *, enabled: bool) -> None:
        body = {path.split("/")[1][:-1]: {"enabled": enabled}}
        await self.do("PATCH", path, 200, body)

    async def key(self, *roles: str, name: str = "key", user: str = "ann") -> dict[str, str]:
        answer = await self.cloud.log_in(user, project="demo")
        new = {"name": name, "roles": [{"name": role} for role in roles]}
        user_id = answer.body["token"]["user"]["id"]
        path = f"/users/{user_id}/application_credentials"
        token = answer.headers["x-subject-token"]
        made = await self.cloud.make(path, {"application_credential": new}, user=token)
        return {"id": made["id"], "secret": made["secret"]}

    async def opens(self, key: dict[str, str]) -> int:
        identity = {"methods": ["application_credential"], "application_credential": key}
        return (
            await self.cloud.ask("POST", "/auth/tokens", {"auth": {"identity": identity}})
        ).status

    async def names(self) -> list[str]:
        found = await self.cloud.get(f"/users/{self.user}/application_credentials")
        return [one["name"] for one in found["application_credentials"]]


@pytest.fixture
async def crew(tmp_path: Path, database: str) -> AsyncGenerator[Crew]:
    async with IdentityCloud(tmp_path, database=database) as cloud:
        crew = Crew(cloud)
        await crew.sign_on()
        yield crew


async def lose(crew: Crew, what: str) -> None:
    """Take something from ann, and give it again."""
    if what == "the user":
        for enabled in (False, True):
            await crew.enable(f"/users/{crew.user}", enabled=enabled)
        return
    path = {
        "her role": crew.grant(crew.member),
        "a role beside": crew.grant(crew.sailor),
        "the membership": crew.membership,
        "the group's role": crew.group_grant,
    }[what]
    if what == "a role beside":
        await crew.do("PUT", path)
    for method in ("DELETE", "PUT"):
        await crew.do(method, path)


@pytest.mark.parametrize(
    ("what", "roles"),
    [
        ("the user", ["member"]),
        ("her role", ["member"]),
        ("her role", ["reader"]),
        ("a role beside", ["member"]),
        ("the membership", ["sailor"]),
        ("the group's role", ["cook"]),
    ],
)
async def test_a_credential_ends_with_what_its_user_loses_and_does_not_come_back(
    crew: Crew, what: str, roles: list[str]
) -> None:
    key = await crew.key(*roles)
    others = await crew.key(user="demo")
    assert await crew.opens(key) == 201
    await lose(crew, what)
    assert await crew.opens(key) == 401
    assert await crew.names() == []
    assert await crew.opens(others) == 201
    assert await crew.opens(await crew.key(*roles)) == 201, "its name is free again"


@pytest.mark.parametrize("what", ["group", "role", "domain"])
async def test_a_credential_ends_with_what_gave_its_role(crew: Crew, what: str) -> None:
    key, others = await crew.key("cook"), await crew.key(user="demo")
    path = {"group": crew.group, "role": crew.sailor, "domain": crew.domain}[what]
    if what == "domain":
        await crew.enable(f"/domains/{path}", enabled=False)
    await crew.do("DELETE", f"/{what}s/{path}")
    await crew.do("PUT", crew.grant(crew.cook))
    assert await crew.opens(key) == 401
    assert await crew.names() == []
    assert await crew.opens(others) == 201


async def test_a_credential_that_names_a_role_goes_with_it(crew: Crew) -> None:
    await crew.key("sailor", "cook", name="both")
    await crew.key("member", name="other")
    await crew.do("DELETE", f"/roles/{crew.cook}")
    assert await crew.names() == ["other"]


async def test_roles_elsewhere_end_no_credential(crew: Crew) -> None:
    key = await crew.key()
    for place in (f"/domains/{crew.domain}", "/system"):
        for holder in (f"users/{crew.user}", f"groups/{crew.group}"):
            for method in ("PUT", "DELETE"):
                await crew.do(method, f"{place}/{holder}/roles/{crew.member}")
    assert await crew.opens(key) == 201


@pytest.mark.parametrize("what", ["projects", "domains"])
async def test_a_credential_rests_while_its_place_is_disabled(crew: Crew, what: str) -> None:
    body = {"project": {"name": "p", "domain_id": crew.domain}}
    project_id = (await crew.cloud.make("/projects", body))["id"]
    await crew.do("PUT", f"/projects/{project_id}/users/{crew.user}/roles/{crew.member}")
    scope = {"project": {"id": project_id}}
    answer = await crew.cloud.log_in("ann", project=None, scope=scope)
    token, path = answer.headers["x-subject-token"], f"/users/{crew.user}/application_credentials"
    made = await crew.cloud.make(path, {"application_credential": {"name": "k"}}, user=token)
    key = {"id": made["id"], "secret": made["secret"]}
    place = {"projects": project_id, "domains": crew.domain}[what]
    statuses: list[int] = []
    for enabled in (False, True):
        await crew.enable(f"/{what}/{place}", enabled=enabled)
        statuses.append(await crew.opens(key))
    assert statuses == [401, 201]


@pytest.mark.postgres
@pytest.mark.parametrize("what", ["the user", "the membership", "the group"])
async def test_a_credential_made_while_its_user_loses_is_not_made(
    tmp_path: Path, postgres_url: str, what: str
) -> None:
    async with IdentityCloud(tmp_path, database=postgres_url) as cloud:
        crew = Crew(cloud)
        await crew.sign_on()
        lost, may_end = threading.Event(), threading.Event()

        def lose(tx: Session) -> None:
            if what == "the user":
                users.change(tx, crew.user, UserChange(enabled=False), {}, password_hash=None)
            elif what == "the group":
                groups.remove(tx, crew.group)
            else:
                groups.take_out(tx, crew.group, crew.user, until=cloud.clock.now())
            lost.set()
            assert may_end.wait(30.0)

        token = (await cloud.log_in("ann", project="demo")).headers["x-subject-token"]
        losing = asyncio.create_task(cloud.cloud.stores["identity"].write(lose))
        assert await asyncio.to_thread(lost.wait, 30.0)
        new = {"application_credential": {"name": "late", "roles": [{"name": "sailor"}]}}
        path = f"/users/{crew.user}/application_credentials"
        making = asyncio.create_task(cloud.ask("POST", path, new, user=token))
        await asyncio.wait([making], timeout=1.0)
        may_end.set()
        await losing
        assert (await making).status in {400, 401}
        assert await crew.names() == []
