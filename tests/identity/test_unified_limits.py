"""Registered limits and limits: how they are set, and what they stand and fall with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.identity.cloud import ROOT, IdentityCloud
from tests.identity.limiting import ids, image_service, limit, register, wish, write

pytestmark = pytest.mark.anyio
NOWHERE = "0123456789abcdef0123456789abcdef"


@pytest.fixture
async def any_cloud(database: str, tmp_path: Path) -> AsyncIterator[IdentityCloud]:
    async with IdentityCloud(tmp_path, database=database) as opened:
        yield opened


async def test_a_registered_limit_is_made_shown_changed_and_deleted(
    any_cloud: IdentityCloud,
) -> None:
    made = await register(any_cloud, description="of everybody", region_id="RegionOne")
    path = f"/registered_limits/{made['id']}"
    assert made == {
        "id": made["id"],
        "service_id": await image_service(any_cloud),
        "region_id": "RegionOne",
        "resource_name": "widgets",
        "default_limit": 10,
        "description": "of everybody",
        "links": {"self": f"{ROOT}/v3{path}"},
    }
    assert (await any_cloud.get(path))["registered_limit"] == made
    compute = await any_cloud.id_of("services", "nova")
    changes = {
        "service_id": compute,
        "region_id": None,
        "resource_name": "gadgets",
        "default_limit": -1,
        "description": None,
    }
    answer = await any_cloud.ask("PATCH", path, {"registered_limit": changes}, user="admin")
    assert (answer.status, answer.body["registered_limit"]) == (200, {**made, **changes})
    assert (await any_cloud.get("/registered_limits"))["registered_limits"] == [{**made, **changes}]
    assert await write(any_cloud, "DELETE", path) == 204
    assert await write(any_cloud, "GET", path) == 404
    assert await write(any_cloud, "DELETE", path) == 404
    assert await write(any_cloud, "PATCH", path, {"registered_limit": {}}) == 404


async def test_a_limit_is_made_shown_changed_and_deleted(any_cloud: IdentityCloud) -> None:
    registered = await register(any_cloud)
    project_id = await any_cloud.id_of("projects", "demo")
    made = await limit(any_cloud, registered, description="of demo", project_id=project_id)
    path = f"/limits/{made['id']}"
    assert made == {
        "id": made["id"],
        "service_id": registered["service_id"],
        "region_id": None,
        "project_id": project_id,
        "domain_id": None,
        "resource_name": "widgets",
        "resource_limit": 3,
        "description": "of demo",
        "links": {"self": f"{ROOT}/v3{path}"},
    }
    assert (await any_cloud.get(path))["limit"] == made
    changes = {"resource_limit": 0, "description": None}
    answer = await any_cloud.ask("PATCH", path, {"limit": changes}, user="admin")
    assert (answer.status, answer.body["limit"]) == (200, {**made, **changes})
    assert (await any_cloud.get("/limits"))["limits"] == [{**made, **changes}]
    assert await write(any_cloud, "DELETE", path) == 204
    assert await write(any_cloud, "GET", path) == 404
    assert await write(any_cloud, "DELETE", path) == 404
    assert await write(any_cloud, "PATCH", path, {"limit": {}}) == 404


async def test_the_model_is_flat(any_cloud: IdentityCloud) -> None:
    model = (await any_cloud.get("/limits/model", user="demo"))["model"]
    assert model["name"] == "flat"
    assert model["description"]


async def test_a_resource_is_registered_once_for_each_region_and_once_for_none(
    any_cloud: IdentityCloud,
) -> None:
    everywhere, there = await register(any_cloud), await register(any_cloud, region_id="RegionOne")
    body = {name: there[name] for name in ("service_id", "region_id", "resource_name")}
    for region in (None, "RegionOne"):
        again = {**body, "region_id": region, "default_limit": 1}
        path = "/registered_limits"
        assert await write(any_cloud, "POST", path, {"registered_limits": [again]}) == 409
    path = f"/registered_limits/{everywhere['id']}"
    changes = {"registered_limit": {"region_id": "RegionOne"}}
    assert await write(any_cloud, "PATCH", path, changes) == 409
    # To say what holds already is no change of it.
    changes = {"registered_limit": {**body, "region_id": None, "default_limit": 4}}
    assert await write(any_cloud, "PATCH", path, changes) == 200


async def test_of_many_who_set_one_limit_at_once_one_does(any_cloud: IdentityCloud) -> None:
    await any_cloud.token("admin")
    body = {"service_id": await image_service(any_cloud), "resource_name": "w", "default_limit": 1}
    asking = [
        write(any_cloud, "POST", "/registered_limits", {"registered_limits": [body]})
        for _ in range(4)
    ]
    assert sorted(await asyncio.gather(*asking)) == [201, 409, 409, 409]
    owner: dict[str, Any] = {"project_id": await any_cloud.id_of("projects", "demo")}
    own = {**body, "resource_limit": 1, **owner}
    del own["default_limit"]
    asking = [write(any_cloud, "POST", "/limits", {"limits": [own]}) for _ in range(4)]
    assert sorted(await asyncio.gather(*asking)) == [201, 409, 409, 409]


async def test_a_list_is_made_whole_or_not_at_all(any_cloud: IdentityCloud) -> None:
    registered = await register(any_cloud)
    demo: dict[str, Any] = {"project_id": await any_cloud.id_of("projects", "demo")}
    admin: dict[str, Any] = {"project_id": await any_cloud.id_of("projects", "admin")}
    both = [wish(registered, **demo), wish(registered, **demo)]
    assert await write(any_cloud, "POST", "/limits", {"limits": both}) == 409
    assert await ids(any_cloud, "/limits") == []
    both = [wish(registered, 1, **demo), wish(registered, 2, **admin)]
    made = await any_cloud.make("/limits", {"limits": both})
    assert [one["resource_limit"] for one in made] == [1, 2]
    wanted = [
        {"service_id": service, "resource_name": "gadgets", "default_limit": 1}
        for service in (registered["service_id"], NOWHERE)
    ]
    body = {"registered_limits": wanted}
    assert await write(any_cloud, "POST", "/registered_limits", body) == 400
    assert await ids(any_cloud, "/registered_limits") == [registered["id"]]


async def test_a_limit_is_for_a_project_or_for_a_domain(any_cloud: IdentityCloud) -> None:
    registered = await register(any_cloud)
    project: dict[str, Any] = {"project_id": await any_cloud.id_of("projects", "demo")}
    domain: dict[str, Any] = {"domain_id": "default"}
    for owner in ({}, {**project, **domain}):
        body = {"limits": [wish(registered, **owner)]}
        assert await write(any_cloud, "POST", "/limits", body) == 400
    made = await limit(any_cloud, registered, **domain)
    assert (made["project_id"], made["domain_id"]) == (None, "default")
    await limit(any_cloud, registered, **project)
    for owner in (project, domain):
        body = {"limits": [wish(registered, **owner)]}
        assert await write(any_cloud, "POST", "/limits", body) == 409


async def test_a_limit_needs_a_registered_one_of_its_region(any_cloud: IdentityCloud) -> None:
    registered = await register(any_cloud, region_id="RegionOne")
    owner: dict[str, Any] = {"project_id": await any_cloud.id_of("projects", "demo")}
    for odd in ({"resource_name": "gadgets"}, {"region_id": None}):
        body = {"limits": [{**wish(registered, **owner), **odd}]}
        assert await write(any_cloud, "POST", "/limits", body) == 403
    await limit(any_cloud, registered, **owner)


async def test_what_limits_refer_to_stays_as_it_is(any_cloud: IdentityCloud) -> None:
    registered = await register(any_cloud)
    made = await limit(any_cloud, registered)
    path = f"/registered_limits/{registered['id']}"
    assert await write(any_cloud, "DELETE", path) == 403
    for odd in (
        {"resource_name": "gadgets"},
        {"region_id": "RegionOne"},
        {"service_id": await any_cloud.id_of("services", "nova")},
    ):
        assert await write(any_cloud, "PATCH", path, {"registered_limit": odd}) == 403
    changes = {"registered_limit": {"default_limit": 4, "description": "less"}}
    assert await write(any_cloud, "PATCH", path, changes) == 200
    assert await write(any_cloud, "DELETE", f"/limits/{made['id']}") == 204
    changes = {"registered_limit": {"resource_name": "gadgets"}}
    assert await write(any_cloud, "PATCH", path, changes) == 200
    assert await write(any_cloud, "DELETE", path) == 204


@pytest.mark.parametrize("amount", [-2, 2**31, "4", 1.5, None, True])
async def test_an_amount_that_makes_no_sense_is_400(cloud: IdentityCloud, amount: Any) -> None:
    registered = await register(cloud)
    project_id = await cloud.id_of("projects", "demo")
    made = await limit(cloud, registered, project_id=project_id)
    new = {
        "service_id": registered["service_id"],
        "resource_name": "other",
        "default_limit": amount,
    }
    other = wish(registered, amount, domain_id="default")
    for method, path, body in (
        ("POST", "/registered_limits", {"registered_limits": [new]}),
        (
            "PATCH",
            f"/registered_limits/{registered['id']}",
            {"registered_limit": {"default_limit": amount}},
        ),
        ("POST", "/limits", {"limits": [other]}),
        ("PATCH", f"/limits/{made['id']}", {"limit": {"resource_limit": amount}}),
    ):
        assert await write(cloud, method, path, body) == 400


async def test_the_ends_of_what_is_allowed_are_taken(cloud: IdentityCloud) -> None:
    name, text = "n" * 255, "d" * 1000
    registered = await register(cloud, name, default_limit=2**31 - 1, description=text)
    made = await limit(cloud, registered, -1, domain_id="default", description=text)
    assert (made["resource_name"], made["resource_limit"]) == (name, -1)


@pytest.mark.parametrize(
    "odd",
    [
        {"service_id": NOWHERE},
        {"region_id": "nowhere"},
        {"resource_name": ""},
        {"resource_name": "n" * 256},
        {"description": 4},
        {"colour": "blue"},
    ],
)
async def test_what_a_limit_cannot_be_of_is_400(cloud: IdentityCloud, odd: Any) -> None:
    registered = await register(cloud)
    new = {name: registered[name] for name in ("service_id", "region_id")}
    new = {**new, "resource_name": "gadgets", "default_limit": 1, **odd}
    body = {"registered_limits": [new]}
    assert await write(cloud, "POST", "/registered_limits", body) == 400
    path = f"/registered_limits/{registered['id']}"
    assert await write(cloud, "PATCH", path, {"registered_limit": odd}) == 400
    own = {**wish(registered, domain_id="default"), **odd}
    assert await write(cloud, "POST", "/limits", {"limits": [own]}) == 400


@pytest.mark.parametrize("owner", [{"project_id": NOWHERE}, {"domain_id": NOWHERE}])
async def test_a_limit_of_nobody_is_400(any_cloud: IdentityCloud, owner: Any) -> None:
    body = {"limits": [wish(await register(any_cloud), **owner)]}
    assert await write(any_cloud, "POST", "/limits", body) == 400


async def test_a_limit_does_not_become_another_ones(cloud: IdentityCloud) -> None:
    made = await limit(cloud, await register(cloud))
    for odd in ({"project_id": NOWHERE}, {"resource_name": "gadgets"}, {"domain_id": "default"}):
        assert await write(cloud, "PATCH", f"/limits/{made['id']}", {"limit": odd}) == 400


async def test_the_limits_of_a_project_go_with_it(any_cloud: IdentityCloud) -> None:
    registered = await register(any_cloud)
    project = (await any_cloud.make("/projects", {"project": {"name": "p"}}))["id"]
    stays = await limit(any_cloud, registered)
    await limit(any_cloud, registered, project_id=project)
    assert await write(any_cloud, "DELETE", f"/projects/{project}") == 204
    assert await ids(any_cloud, "/limits") == [stays["id"]]


async def test_the_limits_of_a_domain_and_of_its_projects_go_with_it(
    any_cloud: IdentityCloud,
) -> None:
    registered = await register(any_cloud)
    home = {"name": "blue", "enabled": False}
    blue = (await any_cloud.make("/domains", {"domain": home}))["id"]
    body = {"project": {"name": "p", "domain_id": blue}}
    project = (await any_cloud.make("/projects", body))["id"]
    await limit(any_cloud, registered, project_id=project)
    await limit(any_cloud, registered, domain_id=blue)
    stays = await limit(any_cloud, registered, domain_id="default")
    assert await write(any_cloud, "DELETE", f"/domains/{blue}") == 204
    assert await ids(any_cloud, "/limits") == [stays["id"]]


async def test_what_is_registered_for_a_service_goes_with_it(any_cloud: IdentityCloud) -> None:
    service = (await any_cloud.make("/services", {"service": {"type": "harbour"}}))["id"]
    await limit(any_cloud, await register(any_cloud, service_id=service))
    stays = await limit(any_cloud, registered := await register(any_cloud))
    assert await write(any_cloud, "DELETE", f"/services/{service}") == 204
    assert await ids(any_cloud, "/registered_limits") == [registered["id"]]
    assert await ids(any_cloud, "/limits") == [stays["id"]]


async def test_a_region_with_registered_limits_stays(any_cloud: IdentityCloud) -> None:
    await any_cloud.make("/regions", {"region": {"id": "north"}})
    registered = await register(any_cloud, region_id="north")
    assert await write(any_cloud, "DELETE", "/regions/north") == 403
    assert await write(any_cloud, "DELETE", f"/registered_limits/{registered['id']}") == 204
    assert await write(any_cloud, "DELETE", "/regions/north") == 204


@pytest.mark.parametrize("many", ["registered_limits", "limits"])
async def test_an_empty_list_of_limits_is_400(any_cloud: IdentityCloud, many: str) -> None:
    answer = await any_cloud.ask("POST", f"/{many}", {many: []}, user="admin")
    assert answer.status == 400, answer.text
