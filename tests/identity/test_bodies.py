"""What a client sends about a thing is heeded, or refused: nothing of it is dropped in silence."""

from __future__ import annotations

from typing import Any

import pytest

from tests.identity.cloud import IdentityCloud

pytestmark = pytest.mark.anyio

OPTIONS = [
    ("project", {"immutable": True}),
    ("domain", {"immutable": True}),
    ("user", {"lock_password": True}),
    ("user", {"multi_factor_auth_enabled": True, "multi_factor_auth_rules": [["password"]]}),
    ("user", {"ignore_password_expiry": "yes"}),
]


@pytest.mark.parametrize(("kind", "options"), OPTIONS)
async def test_an_option_that_nothing_would_heed_is_refused(
    cloud: IdentityCloud, kind: str, options: dict[str, Any]
) -> None:
    many, body = f"/{kind}s", {"name": "a", "options": options}
    refused = await cloud.ask("POST", many, {kind: body}, user="admin")
    assert (refused.status, next(iter(options)) in refused.body["error"]["message"]) == (400, True)
    assert (await cloud.get(f"{many}?name=a"))[f"{kind}s"] == []
    made = await cloud.make(many, {kind: {"name": "a"}})
    change = {kind: {"options": options}}
    answer = await cloud.ask("PATCH", f"{many}/{made['id']}", change, user="admin")
    assert answer.status == 400


async def test_an_option_that_is_off_is_as_it_should_be(cloud: IdentityCloud) -> None:
    off: dict[str, Any] = {"immutable": False, "lock_password": None, "other": []}
    made = await cloud.make("/projects", {"project": {"name": "a", "options": off}})
    assert made["options"] == {}
    change = {"project": {"options": off}}
    answer = await cloud.ask("PATCH", f"/projects/{made['id']}", change, user="admin")
    assert answer.status == 200


@pytest.mark.parametrize("options", ["immutable", [1], {"immutable": "perhaps"}])
async def test_options_of_the_wrong_shape_are_400(cloud: IdentityCloud, options: Any) -> None:
    for kind in ("project", "role"):
        body = {kind: {"name": "a", "options": options}}
        assert (await cloud.ask("POST", f"/{kind}s", body, user="admin")).status == 400


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("project", "domain_id", "elsewhere"),
        ("project", "parent_id", "elsewhere"),
        ("project", "is_domain", True),
        ("project", "id", "0" * 32),
        ("user", "domain_id", "elsewhere"),
        ("group", "domain_id", "elsewhere"),
        ("domain", "id", "0" * 32),
        ("role", "domain_id", "default"),
    ],
)
async def test_what_stays_for_good_is_not_changed_in_silence(
    cloud: IdentityCloud, kind: str, name: str, value: Any
) -> None:
    made = await cloud.make(f"/{kind}s", {kind: {"name": "a"}})
    path, body = f"/{kind}s/{made['id']}", {kind: {"name": "b", name: value}}
    refused = await cloud.ask("PATCH", path, body, user="admin")
    assert (refused.status, name in refused.body["error"]["message"]) == (400, True)
    assert (await cloud.get(path))[kind]["name"] == "a"
    same = {kind: {"name": "b", name: made.get(name)}}
    assert (await cloud.ask("PATCH", path, same, user="admin")).status == 200


async def test_a_region_is_put_where_its_body_says(cloud: IdentityCloud) -> None:
    refused = await cloud.ask("PUT", "/regions/a", {"region": {"id": "b"}}, user="admin")
    assert refused.status == 400
    assert (await cloud.ask("GET", "/regions/a", user="admin")).status == 404
    assert (
        await cloud.ask("PUT", "/regions/a", {"region": {"id": "a"}}, user="admin")
    ).status == 201


async def test_a_domain_gets_the_id_that_it_has_elsewhere(cloud: IdentityCloud) -> None:
    domain_id = "0123456789abcdef" * 2
    body = {"name": "blue", "explicit_domain_id": domain_id}
    made = await cloud.make("/domains", {"domain": body})
    assert (made["id"], "explicit_domain_id" in made) == (domain_id, False)
    for other, status in ((domain_id, 409), ("blue", 400), (domain_id.upper(), 400)):
        again = {"domain": {"name": "red", "explicit_domain_id": other}}
        assert (await cloud.ask("POST", "/domains", again, user="admin")).status == status


async def test_a_region_is_never_within_itself(cloud: IdentityCloud) -> None:
    for name, parent in (("a", None), ("b", "a"), ("c", "b")):
        await cloud.make("/regions", {"region": {"id": name, "parent_region_id": parent}})
    for parent, status in (("a", 400), ("c", 400), ("d", 404), ("RegionOne", 200)):
        body = {"region": {"parent_region_id": parent}}
        assert (await cloud.ask("PATCH", "/regions/a", body, user="admin")).status == status
    assert (await cloud.get("/regions/a"))["region"]["parent_region_id"] == "RegionOne"


@pytest.mark.parametrize("url", ["http://a/%(user)s", "http://a/$(host)s", "http://a/%(project_id"])
async def test_an_endpoint_whose_url_nobody_can_fill_in_is_400(
    cloud: IdentityCloud, url: str
) -> None:
    service = await cloud.make("/services", {"service": {"type": "dns"}})
    body = {"service_id": service["id"], "interface": "public", "url": url}
    refused = await cloud.ask("POST", "/endpoints", {"endpoint": body}, user="admin")
    assert refused.status == 400
    made = await cloud.make("/endpoints", {"endpoint": body | {"url": "http://a/%(project_id)s"}})
    change = {"endpoint": {"url": url}}
    path = f"/endpoints/{made['id']}"
    assert (await cloud.ask("PATCH", path, change, user="admin")).status == 400
    assert (await cloud.get(path))["endpoint"]["url"] == "http://a/%(project_id)s"


async def test_users_are_not_found_by_what_none_has(cloud: IdentityCloud) -> None:
    group = await cloud.make("/groups", {"group": {"name": "crew"}})
    user_id = await cloud.id_of("users", "demo")
    path = f"/groups/{group['id']}/users"
    assert (await cloud.ask("PUT", f"{path}/{user_id}", user="admin")).status == 204
    for many in ("/users", path):
        assert (await cloud.get(many))["users"]
        for query in ("password_expires_at=lt:2100-01-01T00:00:00Z", "idp_id=a", "unique_id=b"):
            assert (await cloud.get(f"{many}?{query}"))["users"] == []
