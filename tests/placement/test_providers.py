from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.placement.cloud import PlacementCloud, error_of

pytestmark = pytest.mark.anyio


async def test_the_root_needs_no_token_and_names_the_versions(cloud: PlacementCloud) -> None:
    answer = await cloud.ask("GET", "/", user="", version="")
    (version,) = answer.body["versions"]
    assert (answer.status, version["max_version"]) == (200, "1.39")


async def test_all_else_needs_the_role_admin_or_service(cloud: PlacementCloud) -> None:
    assert (await cloud.ask("GET", "/resource_providers", user="")).status == 401
    refused = await cloud.ask("GET", "/resource_providers", user="member")
    assert error_of(refused)[0] == 403
    assert (await cloud.ask("GET", "/resource_providers", user="admin")).status == 200


async def test_below_1_20_a_new_provider_is_201_with_a_location_alone(
    cloud: PlacementCloud,
) -> None:
    uuid = str(uuid4())
    body = {"name": "host1", "uuid": uuid}
    answer = await cloud.ask("POST", "/resource_providers", body, version="1.19")
    assert (answer.status, answer.content) == (201, b"")
    assert answer.headers["location"].endswith(f"/placement/resource_providers/{uuid}")


async def test_from_1_20_on_a_new_provider_is_200_and_shown(cloud: PlacementCloud) -> None:
    answer = await cloud.ask("POST", "/resource_providers", {"name": "host1"}, version="1.20")
    shown = answer.body
    assert answer.status == 200
    assert (shown["name"], shown["generation"]) == ("host1", 0)
    assert shown["root_provider_uuid"] == shown["uuid"]
    assert "last-modified" in answer.headers


async def test_links_grow_with_the_version(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider()
    expected = {
        "": ["self", "inventories", "usages"],
        "1.6": ["self", "inventories", "usages", "aggregates", "traits"],
        "1.39": ["self", "inventories", "usages", "aggregates", "traits", "allocations"],
    }
    for version, names in expected.items():
        answer = await cloud.ask("GET", f"/resource_providers/{uuid}", version=version)
        assert [link["rel"] for link in answer.body["links"]] == names
        href = answer.body["links"][0]["href"]
        assert href == f"/placement/resource_providers/{uuid}"
        assert ("root_provider_uuid" in answer.body) == (version == "1.39")


async def test_a_taken_name_is_told_from_a_taken_id_as_nova_needs_it(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider("host1")
    other_id = {"name": "host1", "uuid": str(uuid4())}
    status, code, detail = error_of(await cloud.ask("POST", "/resource_providers", other_id))
    assert (status, code) == (409, "placement.duplicate_name")
    assert "Conflicting resource provider name: host1" in detail
    other_name = {"name": "host2", "uuid": uuid}
    status, code, detail = error_of(await cloud.ask("POST", "/resource_providers", other_name))
    assert (status, code) == (409, "placement.duplicate_name")
    assert "Conflicting resource provider name:" not in detail


async def test_a_provider_is_renamed_unless_the_name_is_taken(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider("host1")
    await cloud.provider("host2")
    path = f"/resource_providers/{uuid}"
    assert (await cloud.ask("PUT", path, {"name": "host3"})).body["name"] == "host3"
    assert (await cloud.ask("PUT", path, {"name": "host2"})).status == 409
    assert (await cloud.ask("GET", path)).body["name"] == "host3"


async def test_a_provider_inside_another_is_refused_clearly(cloud: PlacementCloud) -> None:
    parent = await cloud.provider()
    body = {"name": "child", "parent_provider_uuid": parent}
    status, _, detail = error_of(await cloud.ask("POST", "/resource_providers", body))
    assert (status, "not built" in detail) == (400, True)
    below = await cloud.ask("POST", "/resource_providers", body, version="1.13")
    assert below.status == 400


async def test_an_unknown_provider_is_404_everywhere(cloud: PlacementCloud) -> None:
    for path in ("", "/inventories", "/traits", "/aggregates", "/usages", "/allocations"):
        answer = await cloud.ask("GET", f"/resource_providers/{uuid4()}{path}")
        assert error_of(answer)[0] == 404


async def test_filters_choose_by_name_id_traits_aggregates_and_room(cloud: PlacementCloud) -> None:
    one = await cloud.provider("host1", VCPU={"total": 4})
    two = await cloud.provider("host2", VCPU={"total": 8})
    aggregate = str(uuid4())
    traits = {"resource_provider_generation": 1, "traits": ["HW_CPU_X86_AVX2"]}
    await cloud.ask("PUT", f"/resource_providers/{two}/traits", traits)
    members = {"resource_provider_generation": 1, "aggregates": [aggregate]}
    await cloud.ask("PUT", f"/resource_providers/{one}/aggregates", members)
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
        answer = await cloud.ask("GET", f"/resource_providers?{query}")
        assert [each["uuid"] for each in answer.body["resource_providers"]] == expected, query


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
    cloud: PlacementCloud, query: str, version: str
) -> None:
    answer = await cloud.ask("GET", f"/resource_providers?{query}", version=version)
    assert answer.status == 400


async def test_a_version_out_of_range_is_406_and_names_the_range(cloud: PlacementCloud) -> None:
    answer = await cloud.ask("GET", "/resource_providers", version="1.99")
    (error,) = answer.body["errors"]
    assert (answer.status, error["max_version"], error["min_version"]) == (
        406,
        "1.39",
        "1.0",
    )


async def test_a_body_that_is_not_json_is_415(cloud: PlacementCloud) -> None:
    headers = {"content-type": "text/plain"}
    answer = await cloud.ask("POST", "/resource_providers", {"name": "a"}, headers=headers)
    assert answer.status == 415


async def test_traits_are_replaced_at_the_generation_that_was_seen(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider()
    path = f"/resource_providers/{uuid}/traits"
    body = {"resource_provider_generation": 0, "traits": ["COMPUTE_NODE", "COMPUTE_REBUILD_BFV"]}
    answer = await cloud.ask("PUT", path, body)
    assert answer.body == {**body, "resource_provider_generation": 1}
    status, code, _ = error_of(await cloud.ask("PUT", path, body))
    assert (status, code) == (409, "placement.concurrent_update")
    unknown = {"resource_provider_generation": 1, "traits": ["COMPUTE_WARP"]}
    assert error_of(await cloud.ask("PUT", path, unknown))[0] == 400
    assert (await cloud.ask("DELETE", path)).status == 204
    answer = await cloud.ask("GET", path)
    assert answer.body == {"traits": [], "resource_provider_generation": 2}


async def test_a_sharing_provider_is_refused_clearly(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider()
    body = {"resource_provider_generation": 0, "traits": ["MISC_SHARES_VIA_AGGREGATE"]}
    status, _, detail = error_of(await cloud.ask("PUT", f"/resource_providers/{uuid}/traits", body))
    assert (status, "not built" in detail) == (400, True)


async def test_aggregates_know_generations_from_1_19_on(cloud: PlacementCloud) -> None:
    uuid, aggregate = await cloud.provider(), str(uuid4())
    path = f"/resource_providers/{uuid}/aggregates"
    answer = await cloud.ask("PUT", path, [aggregate], version="1.1")
    assert answer.body == {"aggregates": [aggregate]}
    body: dict[str, Any] = {"resource_provider_generation": 0, "aggregates": []}
    answer = await cloud.ask("PUT", path, body, version="1.19")
    assert answer.body == {"aggregates": [], "resource_provider_generation": 1}
    assert (await cloud.ask("PUT", path, body, version="1.19")).status == 409
    assert (await cloud.ask("GET", path, version="1.0")).status == 404


async def test_a_provider_that_is_used_stays(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider(VCPU={"total": 4})
    consumer = str(uuid4())
    assert (await cloud.claim(consumer, {uuid: {"VCPU": 1}})).status == 204
    status, code, _ = error_of(await cloud.ask("DELETE", f"/resource_providers/{uuid}"))
    assert (status, code) == (409, "placement.resource_provider.inuse")
    assert (await cloud.ask("DELETE", f"/allocations/{consumer}")).status == 204
    assert (await cloud.ask("DELETE", f"/resource_providers/{uuid}")).status == 204
    assert (await cloud.ask("GET", f"/resource_providers/{uuid}")).status == 404
