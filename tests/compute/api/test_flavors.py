from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mooring.compute import app
from mooring.compute.flavors import flavors
from tests.callers import OTHER_PROJECT, PROJECT
from tests.compute.api.cloud import ComputeAlone, fault_of

pytestmark = pytest.mark.anyio

NEW = {"name": "big", "ram": 1024, "vcpus": 2, "disk": 5}
GOLDEN = "tests/golden/compute"


async def create(cloud: ComputeAlone, **more: Any) -> Any:
    answer = await cloud.ask("POST", "/flavors", {"flavor": NEW | more}, user="admin")
    assert answer.status == 200, answer.text
    return answer.body["flavor"]


async def names(cloud: ComputeAlone, query: str = "", **how: str) -> list[str]:
    return [flavor["name"] for flavor in (await cloud.get(f"/flavors{query}", **how))["flavors"]]


async def test_a_new_cloud_has_small_flavors(cloud: ComputeAlone) -> None:
    assert await names(cloud) == ["m1.tiny", "m1.small", "m1.medium", "m1.nano", "m1.micro"]


async def test_a_deleted_default_stays_deleted(cloud: ComputeAlone) -> None:
    assert (await cloud.ask("DELETE", "/flavors/42", user="admin")).status == 202
    await app.SERVICE.prepare(cloud.compute)
    assert "m1.nano" not in await names(cloud)
    assert fault_of(await cloud.ask("GET", "/flavors/42"))[:2] == (404, "itemNotFound")
    assert fault_of(await cloud.ask("DELETE", "/flavors/42", user="admin"))[0] == 404


@pytest.mark.parametrize("version", ["2.1", "2.55", "2.61", "2.75", "2.102"])
async def test_each_version_shows_what_the_golden_file_says(
    cloud: ComputeAlone, golden: Callable[[str, str], None], version: str
) -> None:
    await cloud.ask(
        "POST",
        "/flavors/42/os-extra_specs",
        {"extra_specs": {"hw:cpu_policy": "shared"}},
        user="admin",
    )
    shown = {
        "show": await cloud.get("/flavors/42", version=version),
        "list": await cloud.get("/flavors?limit=1", version=version),
        "detail": await cloud.get("/flavors/detail?limit=1", version=version),
    }
    text = json.dumps(shown, indent=2, sort_keys=True) + "\n"
    golden(f"{GOLDEN}/flavor-{version}.json", text)


async def test_numbers_may_be_text_and_auto_makes_an_id(cloud: ComputeAlone) -> None:
    made = await create(cloud, ram="1024", vcpus="2", disk="0", id="auto", swap="512")
    assert (made["ram"], made["vcpus"], made["disk"], made["swap"]) == (1024, 2, 0, 512)
    assert len(made["id"]) == 36
    named = await create(cloud, name="named", id=7, **{"OS-FLV-EXT-DATA:ephemeral": 3})
    assert (named["id"], named["OS-FLV-EXT-DATA:ephemeral"]) == ("7", 3)


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": " x"},
        {"ram": 0},
        {"ram": 2**31},
        {"ram": "much"},
        {"ram": None},
        {"vcpus": -1},
        {"disk": -1},
        {"disk": 1.5},
        {"id": "a/b"},
        {"id": " x"},
        {"rxtx_factor": 0},
        {"rxtx_factor": "x"},
        {"os-flavor-access:is_public": "maybe"},
        {"description": "x"},
        {"more": 1},
    ],
)
async def test_bad_input_is_400(cloud: ComputeAlone, change: dict[str, Any]) -> None:
    answer = await cloud.ask("POST", "/flavors", {"flavor": NEW | change}, user="admin")
    assert fault_of(answer)[:2] == (400, "badRequest")


@pytest.mark.parametrize(
    ("version", "field", "code"),
    [
        ("2.54", {"description": "x"}, 400),
        ("2.55", {"description": "x"}, 200),
        ("2.101", {"rxtx_factor": 2}, 200),
        ("2.102", {"rxtx_factor": 2}, 400),
        ("2.102", {"description": None}, 200),
    ],
)
async def test_fields_come_and_go(cloud: ComputeAlone, version: str, field: Any, code: int) -> None:
    body = {"flavor": NEW | field}
    answer = await cloud.ask("POST", "/flavors", body, version=version, user="admin")
    assert answer.status == code, answer.text


@pytest.mark.parametrize("taken", [{"name": "m1.tiny"}, {"id": "1"}])
async def test_a_name_or_id_that_is_taken_is_409(
    cloud: ComputeAlone, taken: dict[str, str]
) -> None:
    answer = await cloud.ask("POST", "/flavors", {"flavor": NEW | taken}, user="admin")
    assert fault_of(answer)[:2] == (409, "conflictingRequest")


async def test_only_administrators_change_flavors(cloud: ComputeAlone) -> None:
    asked: list[tuple[str, str, Any]] = [
        ("POST", "/flavors", {"flavor": NEW}),
        ("DELETE", "/flavors/1", None),
        ("POST", "/flavors/1/os-extra_specs", {"extra_specs": {}}),
        ("GET", "/flavors/1/os-flavor-access", None),
    ]
    for method, path, body in asked:
        assert fault_of(await cloud.ask(method, path, body))[:2] == (403, "forbidden")


async def test_only_the_description_may_change(cloud: ComputeAlone) -> None:
    path = "/flavors/1"
    body = {"flavor": {"description": "smallest"}}
    answer = await cloud.ask("PUT", path, body, version="2.55", user="admin")
    assert (answer.status, answer.body["flavor"]["description"]) == (200, "smallest")
    early = await cloud.ask("PUT", path, body, version="2.54", user="admin")
    assert early.status == 404
    renamed = await cloud.ask("PUT", path, {"flavor": {"name": "x"}}, version="2.55", user="admin")
    assert fault_of(renamed)[0] == 400


async def test_a_private_flavor_is_seen_by_whom_it_is_given(cloud: ComputeAlone) -> None:
    await create(cloud, id="p", name="private", **{"os-flavor-access:is_public": False})
    assert fault_of(await cloud.ask("GET", "/flavors/p"))[0] == 404
    assert "private" not in await names(cloud, "?is_public=None")
    action, access = "/flavors/p/action", {"tenant": PROJECT}
    given = await cloud.ask("POST", action, {"addTenantAccess": access}, user="admin")
    expected = {"flavor_access": [{"flavor_id": "p", "tenant_id": PROJECT}]}
    assert (given.status, given.body) == (200, expected)
    assert "private" in await names(cloud)
    assert "private" not in await names(cloud, user="stranger")
    assert await cloud.get("/flavors/p/os-flavor-access", user="admin") == expected
    again = await cloud.ask("POST", action, {"addTenantAccess": access}, user="admin")
    assert fault_of(again)[:2] == (409, "conflictingRequest")
    taken = await cloud.ask("POST", action, {"removeTenantAccess": access}, user="admin")
    assert taken.body == {"flavor_access": []}
    gone = await cloud.ask("POST", action, {"removeTenantAccess": access}, user="admin")
    assert fault_of(gone)[0] == 404


async def test_a_private_flavor_is_shown_to_whom_it_is_given_alone(cloud: ComputeAlone) -> None:
    await create(cloud, id="p", name="private", **{"os-flavor-access:is_public": False})

    async def see() -> list[int]:
        callers = ("member", "stranger", "admin")
        return [(await cloud.ask("GET", "/flavors/p", user=who)).status for who in callers]

    assert await see() == [404, 404, 200]
    access = {"tenant": PROJECT}
    await cloud.ask("POST", "/flavors/p/action", {"addTenantAccess": access}, user="admin")
    assert await see() == [200, 404, 200]
    await cloud.ask("POST", "/flavors/p/action", {"removeTenantAccess": access}, user="admin")
    assert await see() == [404, 404, 200]


async def test_a_public_flavor_has_no_access_list(cloud: ComputeAlone) -> None:
    listed = await cloud.ask("GET", "/flavors/1/os-flavor-access", user="admin")
    assert fault_of(listed)[:2] == (404, "itemNotFound")
    body = {"addTenantAccess": {"tenant": OTHER_PROJECT}}
    answer = await cloud.ask("POST", "/flavors/1/action", body, version="2.7", user="admin")
    assert fault_of(answer)[:2] == (409, "conflictingRequest")


async def test_administrators_choose_which_kind_they_list(cloud: ComputeAlone) -> None:
    await create(cloud, name="private", **{"os-flavor-access:is_public": False})
    assert "private" not in await names(cloud, user="admin")
    assert "private" in await names(cloud, "?is_public=None", user="admin")
    assert await names(cloud, "?is_public=false", user="admin") == ["private"]


async def test_lists_are_filtered_sorted_and_paged(cloud: ComputeAlone) -> None:
    assert await names(cloud, "?minRam=2048") == ["m1.small", "m1.medium"]
    assert await names(cloud, "?minDisk=20") == ["m1.medium"]
    assert (await names(cloud, "?sort_key=memory_mb"))[:2] == ["m1.nano", "m1.micro"]
    assert (await names(cloud, "?sort_key=memory_mb&sort_dir=desc"))[0] == "m1.medium"
    assert await names(cloud, "?name=mi", version="2.102") == ["m1.micro"]
    assert (await names(cloud, "?sort_key=vcpus"))[-1] == "m1.medium"


async def test_every_order_is_paged_to_its_end(cloud: ComputeAlone) -> None:
    for key in flavors.SORT_COLUMNS:
        path, found = f"/flavors?limit=1&sort_key={key}", list[str]()
        while path:
            listed = await cloud.get(path)
            found += [flavor["name"] for flavor in listed["flavors"]]
            path = next((link["href"] for link in listed.get("flavors_links", [])), "")
        assert sorted(found) == sorted(flavor.name for flavor in flavors.DEFAULTS), key


@pytest.mark.parametrize(
    ("query", "version"),
    [
        ("?limit=-1", "2.1"),
        ("?marker=nope", "2.1"),
        ("?minRam=x", "2.1"),
        ("?is_public=maybe", "2.1"),
        ("?sort_key=secret", "2.1"),
        ("?sort_dir=up", "2.1"),
        ("?name=x", "2.101"),
        ("?surprise=1", "2.75"),
    ],
)
async def test_a_bad_query_is_400(cloud: ComputeAlone, query: str, version: str) -> None:
    answer = await cloud.ask("GET", f"/flavors{query}", version=version)
    assert fault_of(answer)[:2] == (400, "badRequest")


async def test_extra_specs_are_added_changed_and_removed(cloud: ComputeAlone) -> None:
    path = "/flavors/1/os-extra_specs"
    added = await cloud.ask("POST", path, {"extra_specs": {"a": "1", "b": 2}}, user="admin")
    assert added.body == {"extra_specs": {"a": "1", "b": "2"}}
    changed = await cloud.ask("PUT", f"{path}/a", {"a": "3"}, user="admin")
    assert changed.body == {"a": "3"}
    assert await cloud.get(path) == {"extra_specs": {"a": "3", "b": "2"}}
    assert await cloud.get(f"{path}/a") == {"a": "3"}
    assert (await cloud.ask("DELETE", f"{path}/a", user="admin")).status == 200
    for method in ("GET", "DELETE"):
        assert fault_of(await cloud.ask(method, f"{path}/a", user="admin"))[0] == 404
    items: list[Any] = [{"a": "1", "b": "2"}, {"b": "1"}, {"a": None}, []]
    for bad in items:
        assert fault_of(await cloud.ask("PUT", f"{path}/a", bad, user="admin"))[0] == 400
    for bad in [{"extra_specs": {"a/b": "1"}}, {"extra_specs": {"": "1"}}, {}]:
        assert fault_of(await cloud.ask("POST", path, bad, user="admin"))[0] == 400
