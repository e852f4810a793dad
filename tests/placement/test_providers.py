from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.placement.office import Office, error_of

pytestmark = pytest.mark.anyio


async def test_the_root_needs_no_token_and_names_the_versions(office: Office) -> None:
    answer = await office.ask("GET", "/", who="", version="")
    (version,) = answer.json()["versions"]
    assert (answer.status_code, version["max_version"]) == (200, "1.39")


async def test_all_else_needs_the_role_admin_or_service(office: Office) -> None:
    assert (await office.ask("GET", "/resource_providers", who="")).status_code == 401
    refused = await office.ask("GET", "/resource_providers", who="member")
    assert error_of(refused)[0] == 403
    assert (await office.ask("GET", "/resource_providers", who="admin")).status_code == 200


async def test_below_1_20_a_new_provider_is_201_with_a_location_alone(office: Office) -> None:
    uuid = str(uuid4())
    body = {"name": "host1", "uuid": uuid}
    answer = await office.ask("POST", "/resource_providers", body, version="1.19")
    assert (answer.status_code, answer.content) == (201, b"")
    assert answer.headers["location"].endswith(f"/placement/resource_providers/{uuid}")


async def test_from_1_20_on_a_new_provider_is_200_and_shown(office: Office) -> None:
    answer = await office.ask("POST", "/resource_providers", {"name": "host1"}, version="1.20")
    shown = answer.json()
    assert answer.status_code == 200
    assert (shown["name"], shown["generation"]) == ("host1", 0)
    assert shown["root_provider_uuid"] == shown["uuid"]
    assert "last-modified" in answer.headers


async def test_links_grow_with_the_version(office: Office) -> None:
    uuid = await office.provider()
    expected = {
        "": ["self", "inventories", "usages"],
        "1.6": ["self", "inventories", "usages", "aggregates", "traits"],
        "1.39": ["self", "inventories", "usages", "aggregates", "traits", "allocations"],
    }
    for version, names in expected.items():
        answer = await office.ask("GET", f"/resource_providers/{uuid}", version=version)
        assert [link["rel"] for link in answer.json()["links"]] == names
        href = answer.json()["links"][0]["href"]
        assert href == f"/placement/resource_providers/{uuid}"
        assert ("root_provider_uuid" in answer.json()) == (version == "1.39")


async def test_a_taken_name_is_told_from_a_taken_id_as_nova_needs_it(office: Office) -> None:
    uuid = await office.provider("host1")
    other_id = {"name": "host1", "uuid": str(uuid4())}
    status, code, detail = error_of(await office.ask("POST", "/resource_providers", other_id))
    assert (status, code) == (409, "placement.duplicate_name")
    assert "Conflicting resource provider name: host1" in detail
    other_name = {"name": "host2", "uuid": uuid}
    status, code, detail = error_of(await office.ask("POST", "/resource_providers", other_name))
    assert (status, code) == (409, "placement.duplicate_name")
    assert "Conflicting resource provider name:" not in detail


async def test_a_provider_is_renamed_unless_the_name_is_taken(office: Office) -> None:
    uuid = await office.provider("host1")
    await office.provider("host2")
    path = f"/resource_providers/{uuid}"
    assert (await office.ask("PUT", path, {"name": "host3"})).json()["name"] == "host3"
    assert (await office.ask("PUT", path, {"name": "host2"})).status_code == 409
    assert (await office.ask("GET", path)).json()["name"] == "host3"


async def test_a_provider_inside_another_is_refused_clearly(office: Office) -> None:
    parent = await office.provider()
    body = {"name": "child", "parent_provider_uuid": parent}
    status, _, detail = error_of(await office.ask("POST", "/resource_providers", body))
    assert (status, "not built" in detail) == (400, True)
    below = await office.ask("POST", "/resource_providers", body, version="1.13")
    assert below.status_code == 400


async def test_an_unknown_provider_is_404_everywhere(office: Office) -> None:
    for path in ("", "/inventories", "/traits", "/aggregates", "/usages", "/allocations"):
        answer = await office.ask("GET", f"/resource_providers/{uuid4()}{path}")
        assert error_of(answer)[0] == 404


async def test_filters_choose_by_name_id_traits_aggregates_and_room(office: Office) -> None:
    one = await office.provider("host1", VCPU={"total": 4})
    two = await office.provider("host2", VCPU={"total": 8})
    aggregate = str(uuid4())
    traits = {"resource_provider_generation": 1, "traits": ["HW_CPU_X86_AVX2"]}
    await office.ask("PUT", f"/resource_providers/{two}/traits", traits)
    members = {"resource_provider_generation": 1, "aggregates": [aggregate]}
    await office.ask("PUT", f"/resource_providers/{one}/aggregates", members)
    for query, expected in {
        "": [one, two],
        "name=host2": [two],
        f"uuid={one}": [one],
        f"in_tree={two}": [two],
        "resources=VCPU:5": [two],
        "required=HW_CPU_X86_AVX2": [two],
        "required=!HW_CPU_X86_AVX2": [one],
        "required=in:HW_CPU_X86_AVX,HW_CPU_X86_AVX2": [two],
        f"member_of={aggregate}": [one],
        f"member_of=in:{aggregate},{uuid4()}": [one],
        f"member_of=!{aggregate}": [two],
        f"member_of={aggregate}&member_of={uuid4()}": [],
    }.items():
        answer = await office.ask("GET", f"/resource_providers?{query}")
        assert [each["uuid"] for each in answer.json()["resource_providers"]] == expected, query


@pytest.mark.parametrize(
    ("query", "version"),
    [
        ("colour=red", "1.39"),
        ("member_of=7", "1.39"),
        ("resources=VCPU", "1.39"),
        ("resources=VCPU:0", "1.39"),
        ("resources=VCPU:1,VCPU:2", "1.39"),
        ("resources=WARP:1", "1.39"),
        ("required=WARP", "1.39"),
        ("required=COMPUTE_NODE,!COMPUTE_NODE", "1.39"),
        ("required=COMPUTE_NODE", "1.17"),
        ("in_tree=x", "1.39"),
        ("name=a&name=b", "1.39"),
    ],
)
async def test_a_filter_that_makes_no_sense_is_400(
    office: Office, query: str, version: str
) -> None:
    answer = await office.ask("GET", f"/resource_providers?{query}", version=version)
    assert answer.status_code == 400


async def test_a_version_out_of_range_is_406_and_names_the_range(office: Office) -> None:
    answer = await office.ask("GET", "/resource_providers", version="1.99")
    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["max_version"], error["min_version"]) == (
        406,
        "1.39",
        "1.0",
    )


async def test_a_body_that_is_not_json_is_415(office: Office) -> None:
    headers = {"content-type": "text/plain"}
    answer = await office.ask("POST", "/resource_providers", {"name": "a"}, headers=headers)
    assert answer.status_code == 415


async def test_traits_are_replaced_at_the_generation_that_was_seen(office: Office) -> None:
    uuid = await office.provider()
    path = f"/resource_providers/{uuid}/traits"
    body = {"resource_provider_generation": 0, "traits": ["COMPUTE_NODE", "COMPUTE_REBUILD_BFV"]}
    answer = await office.ask("PUT", path, body)
    assert answer.json() == {**body, "resource_provider_generation": 1}
    status, code, _ = error_of(await office.ask("PUT", path, body))
    assert (status, code) == (409, "placement.concurrent_update")
    unknown = {"resource_provider_generation": 1, "traits": ["COMPUTE_WARP"]}
    assert error_of(await office.ask("PUT", path, unknown))[0] == 400
    assert (await office.ask("DELETE", path)).status_code == 204
    answer = await office.ask("GET", path)
    assert answer.json() == {"traits": [], "resource_provider_generation": 2}


async def test_a_sharing_provider_is_refused_clearly(office: Office) -> None:
    uuid = await office.provider()
    body = {"resource_provider_generation": 0, "traits": ["MISC_SHARES_VIA_AGGREGATE"]}
    status, _, detail = error_of(
        await office.ask("PUT", f"/resource_providers/{uuid}/traits", body)
    )
    assert (status, "not built" in detail) == (400, True)


async def test_aggregates_know_generations_from_1_19_on(office: Office) -> None:
    uuid, aggregate = await office.provider(), str(uuid4())
    path = f"/resource_providers/{uuid}/aggregates"
    answer = await office.ask("PUT", path, [aggregate], version="1.1")
    assert answer.json() == {"aggregates": [aggregate]}
    body: dict[str, Any] = {"resource_provider_generation": 0, "aggregates": []}
    answer = await office.ask("PUT", path, body, version="1.19")
    assert answer.json() == {"aggregates": [], "resource_provider_generation": 1}
    assert (await office.ask("PUT", path, body, version="1.19")).status_code == 409
    assert (await office.ask("GET", path, version="1.0")).status_code == 404


async def test_a_provider_that_is_used_stays(office: Office) -> None:
    uuid = await office.provider(VCPU={"total": 4})
    consumer = str(uuid4())
    assert (await office.claim(consumer, {uuid: {"VCPU": 1}})).status_code == 204
    status, code, _ = error_of(await office.ask("DELETE", f"/resource_providers/{uuid}"))
    assert (status, code) == (409, "placement.resource_provider.inuse")
    assert (await office.ask("DELETE", f"/allocations/{consumer}")).status_code == 204
    assert (await office.ask("DELETE", f"/resource_providers/{uuid}")).status_code == 204
    assert (await office.ask("GET", f"/resource_providers/{uuid}")).status_code == 404
