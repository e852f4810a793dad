from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from mooring import access, admin_command
from mooring.identity import grants, unified_limits
from mooring.identity.grants import USER, Grant, Holder
from mooring.identity.unified_limits import NewLimit
from mooring.limits import IDENTITY_CACHE_S
from tests.identity.cloud import IdentityCloud
from tests.identity.limiting import ids, image_service, register

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


@pytest.fixture
async def cloud(tmp_path: Path, postgres_url: str) -> AsyncGenerator[IdentityCloud]:
    async with IdentityCloud(tmp_path, database=postgres_url) as opened:
        yield opened


async def test_logins_lists_and_grants_work(cloud: IdentityCloud) -> None:
    assert (await cloud.log_in("volume")).status == 201
    user_id = await cloud.add_user("ann", "secret", role="member", project="demo")
    answer = await cloud.log_in("ann", project="demo")
    assert {role["name"] for role in answer.body["token"]["roles"]} == {"member", "reader"}
    found = await cloud.get("/users?name__icontains=AN&enabled=true&limit=1")
    assert [user["id"] for user in found["users"]] == [user_id]
    assert (await cloud.ask("DELETE", f"/users/{user_id}", user="admin")).status == 204


async def test_of_two_who_want_one_name_one_gets_it(cloud: IdentityCloud) -> None:
    await cloud.token("admin")
    body = {"role": {"name": "sailor"}}
    answers = await asyncio.gather(
        *(cloud.ask("POST", "/roles", body, user="admin") for _ in range(4))
    )
    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409]


async def test_an_administrator_is_made_anew_beside_a_cloud_that_runs(cloud: IdentityCloud) -> None:
    former, user_id = cloud.passwords["admin"], await cloud.id_of("users", "admin")
    held = await cloud.token("admin")
    await admin_command.restore_admin(cloud.settings, print)
    text = (cloud.settings.state_path / access.PASSWORDS).read_text()
    made = json.loads(text)["admin"]
    assert (await cloud.log_in("admin", made)).status == 201
    assert (await cloud.log_in("admin", former)).status == 401
    # What a token is worth a process remembers for a few seconds.
    cloud.clock.advance(IDENTITY_CACHE_S + 1)
    assert (await cloud.ask("GET", f"/users/{user_id}", user=held)).status == 401
    await cloud.restart()
    assert (await cloud.log_in("admin", made)).status == 201


async def test_a_grant_given_twice_at_once_is_given(cloud: IdentityCloud) -> None:
    user_id, role_id = await cloud.id_of("users", "compute"), await cloud.id_of("roles", "reader")
    path = f"/system/users/{user_id}/roles/{role_id}"
    answers = await asyncio.gather(*(cloud.ask("PUT", path, user="admin") for _ in range(4)))
    assert {answer.status for answer in answers} == {204}


async def test_a_domain_with_a_group_works_and_goes(cloud: IdentityCloud) -> None:
    domain_id = (await cloud.make("/domains", {"domain": {"name": "blue"}}))["id"]
    home = {"domain_id": domain_id}
    group_id = (await cloud.make("/groups", {"group": {"name": "crew", **home}}))["id"]
    body = {"user": {"name": "ann", "password": "secret", **home}}
    user_id = (await cloud.make("/users", body))["id"]
    project_id = (await cloud.make("/projects", {"project": {"name": "p", **home}}))["id"]
    role_id = await cloud.id_of("roles", "member")
    for path in (
        f"/groups/{group_id}/users/{user_id}",
        f"/projects/{project_id}/groups/{group_id}/roles/{role_id}",
    ):
        answers = await asyncio.gather(*(cloud.ask("PUT", path, user="admin") for _ in range(3)))
        assert {answer.status for answer in answers} == {204}
    rows = await cloud.get(f"/role_assignments?user.id={user_id}&effective")
    assert len(rows["role_assignments"]) == 2
    body = {"domain": {"enabled": False}}
    assert (await cloud.ask("PATCH", f"/domains/{domain_id}", body, user="admin")).status == 200
    assert (await cloud.ask("DELETE", f"/domains/{domain_id}", user="admin")).status == 204
    assert (await cloud.ask("GET", f"/groups/{group_id}", user="admin")).status == 404


async def test_no_role_outlives_the_domain_of_its_project(cloud: IdentityCloud) -> None:
    """Given while the domain is being deleted: its user could list no projects any more."""
    domain_id = (await cloud.make("/domains", {"domain": {"name": "blue", "enabled": False}}))["id"]
    body = {"project": {"name": "p", "domain_id": domain_id}}
    project_id = (await cloud.make("/projects", body))["id"]
    user_id, role_id = await cloud.id_of("users", "compute"), await cloud.id_of("roles", "reader")
    grant = Grant(Holder(USER, user_id), f"project:{project_id}", role_id)
    given, may_end = threading.Event(), threading.Event()

    def give(tx: Session) -> None:
        grants.give(tx, grant)
        given.set()
        assert may_end.wait(30.0)

    giving = asyncio.create_task(cloud.cloud.stores["identity"].write(give))
    assert await asyncio.to_thread(given.wait, 30.0)
    path = f"/domains/{domain_id}"
    deleting = asyncio.create_task(cloud.ask("DELETE", path, user="admin"))
    await asyncio.wait([deleting], timeout=1.0)
    may_end.set()
    await giving
    assert (await deleting).status == 204
    assert (await cloud.ask("GET", f"/users/{user_id}/projects", user="admin")).status == 200
    found = await cloud.get(f"/role_assignments?user.id={user_id}&scope.project.id={project_id}")
    assert found["role_assignments"] == []


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_no_limit_loses_what_it_refers_to(cloud: IdentityCloud, method: str) -> None:
    """Made while that is renamed, or deleted: it would be of something else, or of nothing."""
    registered = await register(cloud)
    new = NewLimit(
        service_id=await image_service(cloud),
        resource_name=registered["resource_name"],
        resource_limit=1,
        project_id=await cloud.id_of("projects", "demo"),
    )
    made, may_end = threading.Event(), threading.Event()

    def make(tx: Session) -> None:
        unified_limits.create(tx, [new])
        made.set()
        assert may_end.wait(30.0)

    making = asyncio.create_task(cloud.cloud.stores["identity"].write(make))
    assert await asyncio.to_thread(made.wait, 30.0)
    path = f"/registered_limits/{registered['id']}"
    body = {"registered_limit": {"resource_name": "gadgets"}} if method == "PATCH" else None
    changing = asyncio.create_task(cloud.ask(method, path, body, user="admin"))
    await asyncio.wait([changing], timeout=1.0)
    may_end.set()
    await making
    assert (await changing).status == 403
    assert (await cloud.get(path))["registered_limit"] == registered
    assert len(await ids(cloud, "/limits")) == 1
