from __future__ import annotations

from typing import Any

import pytest

from tests.identity.cloud import IdentityCloud

pytestmark = pytest.mark.anyio


async def make_role(cloud: IdentityCloud, name: str) -> str:
    return (await cloud.make("/roles", {"role": {"name": name}}))["id"]


async def write(cloud: IdentityCloud, method: str, path: str) -> Any:
    return await cloud.ask(method, path, user="admin")


async def test_a_role_implies_another_until_it_does_not(cloud: IdentityCloud) -> None:
    prior, implied = await make_role(cloud, "captain"), await make_role(cloud, "sailor")
    path = f"/roles/{prior}/implies/{implied}"
    assert (await write(cloud, "HEAD", path)).status == 404
    made = await write(cloud, "PUT", path)
    assert made.status == 201
    inference = made.body["role_inference"]
    assert (inference["prior_role"]["name"], inference["implies"]["name"]) == ("captain", "sailor")
    assert (await write(cloud, "PUT", path)).status == 201
    assert (await cloud.get(path)) == made.body
    assert (await write(cloud, "HEAD", path)).status == 204
    listed = (await cloud.get(f"/roles/{prior}/implies"))["role_inference"]["implies"]
    assert [role["id"] for role in listed] == [implied]
    await cloud.add_user("ann", "secret", role="captain", project="demo")
    answer = await cloud.log_in("ann", project="demo")
    assert {role["name"] for role in answer.body["token"]["roles"]} == {"captain", "sailor"}
    assert (await write(cloud, "DELETE", path)).status == 204
    assert (await write(cloud, "DELETE", path)).status == 404
    shown = (await cloud.show(answer.headers["x-subject-token"])).body["token"]
    assert {role["name"] for role in shown["roles"]} == {"captain"}


async def test_roles_that_imply_each_other_are_one(cloud: IdentityCloud) -> None:
    one, other = await make_role(cloud, "one"), await make_role(cloud, "other")
    for path in (f"/roles/{one}/implies/{other}", f"/roles/{other}/implies/{one}"):
        assert (await write(cloud, "PUT", path)).status == 201
    await cloud.add_user("ann", "secret", role="other", project="demo")
    answer = await cloud.log_in("ann", project="demo")
    assert {role["name"] for role in answer.body["token"]["roles"]} == {"one", "other"}


async def test_no_role_implies_itself_or_admin_or_what_is_not_there(cloud: IdentityCloud) -> None:
    role, admin = await make_role(cloud, "sailor"), await cloud.id_of("roles", "admin")
    for implied, status in ((role, 400), (admin, 403), ("none", 404)):
        path = f"/roles/{role}/implies/{implied}"
        assert (await write(cloud, "PUT", path)).status == status
    assert (await cloud.get(f"/roles/{role}/implies"))["role_inference"]["implies"] == []


async def test_no_role_that_another_implies_gets_the_name_of_admin(cloud: IdentityCloud) -> None:
    prior, implied = await make_role(cloud, "captain"), await make_role(cloud, "sailor")
    assert (await write(cloud, "PUT", f"/roles/{prior}/implies/{implied}")).status == 201
    body = {"role": {"name": "Admin"}}
    assert (await cloud.ask("PATCH", f"/roles/{implied}", body, user="admin")).status == 403
    assert (await cloud.ask("PATCH", f"/roles/{prior}", body, user="admin")).status == 200
