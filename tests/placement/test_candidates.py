from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from mooring.limits import PLACEMENT_NAMES
from mooring.placement import candidates
from mooring.placement.standard_traits import STANDARD_TRAITS
from tests.placement.cloud import PlacementCloud, error_of

pytestmark = pytest.mark.anyio


async def ask(cloud: PlacementCloud, query: str, version: str = "1.36") -> dict[str, Any]:
    answer = await cloud.ask("GET", f"/allocation_candidates?{query}", version=version)
    assert answer.status == 200, answer.text
    return answer.body


async def found(cloud: PlacementCloud, query: str, version: str = "1.36") -> list[str]:
    body = await ask(cloud, query, version)
    return [next(iter(each["allocations"])) for each in body["allocation_requests"]]


async def give(cloud: PlacementCloud, uuid: str, *traits: str) -> None:
    generation = await cloud.generation(uuid)
    body = {"resource_provider_generation": generation, "traits": traits}
    answer = await cloud.ask("PUT", f"/resource_providers/{uuid}/traits", body)
    assert answer.status == 200, answer.text


async def test_a_candidate_can_be_written_as_it_is(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider(VCPU={"total": 4}, MEMORY_MB={"total": 512, "reserved": 128})
    body = await ask(cloud, "resources=VCPU:1,MEMORY_MB:256")
    assert body["allocation_requests"] == [
        {
            "allocations": {uuid: {"resources": {"VCPU": 1, "MEMORY_MB": 256}}},
            "mappings": {"": [uuid]},
        }
    ]
    assert body["provider_summaries"] == {
        uuid: {
            "resources": {
                "VCPU": {"capacity": 4, "used": 0},
                "MEMORY_MB": {"capacity": 384, "used": 0},
            },
            "traits": [],
            "parent_provider_uuid": None,
            "root_provider_uuid": uuid,
        }
    }
    given = {uuid: {"VCPU": 1, "MEMORY_MB": 256}}
    assert (await cloud.claim(str(uuid4()), given)).status == 204
    assert await found(cloud, "resources=MEMORY_MB:256") == []


async def test_older_versions_show_less(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider(VCPU={"total": 4}, DISK_GB={"total": 4})
    body = await ask(cloud, "resources=VCPU:1", "1.10")
    given = {"resource_provider": {"uuid": uuid}, "resources": {"VCPU": 1}}
    assert body["allocation_requests"] == [{"allocations": [given]}]
    assert body["provider_summaries"] == {uuid: {"resources": {"VCPU": {"capacity": 4, "used": 0}}}}
    wider = await ask(cloud, "resources=VCPU:1", "1.27")
    assert set(wider["provider_summaries"][uuid]["resources"]) == {"VCPU", "DISK_GB"}


async def test_traits_tree_aggregates_and_limit_choose(cloud: PlacementCloud) -> None:
    one = await cloud.provider("host1", VCPU={"total": 4})
    two = await cloud.provider("host2", VCPU={"total": 4})
    await give(cloud, one, "COMPUTE_NODE", "HW_CPU_X86_AVX2")
    await give(cloud, two, "COMPUTE_NODE", "COMPUTE_STATUS_DISABLED")
    aggregate = str(uuid4())
    members = {"resource_provider_generation": 2, "aggregates": [aggregate]}
    await cloud.ask("PUT", f"/resource_providers/{two}/aggregates", members)
    for query, expected in {
        "required=COMPUTE_NODE": {one, two},
        "required=COMPUTE_NODE,HW_CPU_X86_AVX2": {one},
        "required=!HW_CPU_X86_AVX2": {two},
        "root_required=COMPUTE_NODE,!COMPUTE_STATUS_DISABLED": {one},
        f"in_tree={two}": {two},
        f"member_of={aggregate}": {two},
        f"member_of=!in:{aggregate}": {one},
    }.items():
        assert set(await found(cloud, f"resources=VCPU:1&{query}")) == expected, query
    assert len(await found(cloud, "resources=VCPU:1&limit=1")) == 1
    any_of = "resources=VCPU:1&required=in:HW_CPU_X86_AVX2,COMPUTE_STATUS_DISABLED"
    assert set(await found(cloud, any_of, "1.39")) == {one, two}


async def test_those_that_fit_are_found_behind_many_that_are_full(
    cloud: PlacementCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "AT_A_TIME", 2)
    uuids = sorted(
        [await cloud.provider(f"host{number}", VCPU={"total": 4}) for number in range(7)]
    )
    for uuid in uuids[:5]:
        await cloud.claim(str(uuid4()), {uuid: {"VCPU": 4}})
    assert await found(cloud, "resources=VCPU:1&limit=1") == uuids[5:6]
    assert await found(cloud, "resources=VCPU:1&limit=9") == uuids[5:]
    assert await found(cloud, "resources=VCPU:5") == []


async def test_granular_groups_are_met_by_one_provider(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider(VCPU={"total": 4}, VGPU={"total": 2})
    query = "resources=VCPU:1&resources1=VGPU:1&resources2=VGPU:1&group_policy=none"
    body = await ask(cloud, query)
    assert body["allocation_requests"] == [
        {
            "allocations": {uuid: {"resources": {"VCPU": 1, "VGPU": 2}}},
            "mappings": {"": [uuid], "1": [uuid], "2": [uuid]},
        }
    ]
    # Alone each group fits; together they do not.
    assert await found(cloud, query.replace("VGPU:1", "VGPU:2")) == []
    # What must be apart cannot be, where nobody is inside anybody.
    assert await found(cloud, query.replace("none", "isolate")) == []


async def test_a_group_of_traits_alone_is_near_the_others(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider(VCPU={"total": 4})
    query = "resources_A=VCPU:1&required_B=COMPUTE_NODE&same_subtree=_A,_B"
    assert await found(cloud, query) == []
    await give(cloud, uuid, "COMPUTE_NODE")
    assert await found(cloud, query) == [uuid]


@pytest.fixture
async def two(any_cloud: PlacementCloud) -> tuple[str, str]:
    """A provider with a hundred traits, in ten aggregates, and another one that lacks one each."""
    made: list[str] = []
    for lacks in (0, 1):
        uuid = await any_cloud.provider(f"host{lacks}", VCPU={"total": 4}, VGPU={"total": 4})
        await give(any_cloud, uuid, *TRAITS[lacks:])
        generation = await any_cloud.generation(uuid)
        members = {"resource_provider_generation": generation, "aggregates": AGGREGATES[lacks:]}
        await any_cloud.ask("PUT", f"/resource_providers/{uuid}/aggregates", members)
        made.append(uuid)
    return made[0], made[1]


TRAITS = sorted(STANDARD_TRAITS - {"COMPUTE_NODE"})[:100]
AGGREGATES = [str(uuid4()) for _ in range(10)]


async def test_as_many_traits_and_aggregates_are_asked_for_as_anybody_has(
    any_cloud: PlacementCloud, two: tuple[str, str]
) -> None:
    """However often each is named, and in how many groups."""
    twice = ",".join(TRAITS * 12)
    groups = "&".join(f"resources{n}=VGPU:1&required{n}={','.join(TRAITS)}" for n in (1, 2))
    members = "&".join(f"member_of={one}" for one in AGGREGATES)
    barred = "&".join(f"member_of=!{uuid4()}" for _ in range(30))
    for query, expected in {
        f"required={twice}": {two[0]},
        f"required={','.join(TRAITS[1:])}": set(two),
        f"required={','.join([*TRAITS, 'COMPUTE_NODE'])}": set[str](),
        f"{groups}&group_policy=none": {two[0]},
        f"{members}&{barred}": {two[0]},
        f"{barred}&member_of=!{AGGREGATES[0]}": {two[1]},
    }.items():
        listed = await found(any_cloud, f"resources=VCPU:1&{query}")
        assert set(listed) == expected, query[:99]
    listed = await any_cloud.ask("GET", f"/resource_providers?required={twice}")
    assert [one["uuid"] for one in listed.body["resource_providers"]] == [two[0]]


async def test_a_query_that_would_keep_the_database_busy_is_400(
    any_cloud: PlacementCloud, two: tuple[str, str]
) -> None:
    """As one with many choices, each of which is a join, or with more names than anybody has."""
    pairs = [f"required=in:{TRAITS[0]},{other}" for other in TRAITS[1:22]]
    most = "&".join(pairs[: candidates.MOST_CHOICES])
    assert set(await found(any_cloud, f"resources=VCPU:1&{most}", "1.39")) == set(two)
    aggregates = ",".join(str(uuid4()) for _ in range(PLACEMENT_NAMES))
    for query in ("&".join(pairs), f"member_of=in:{aggregates}"):
        for path in ("/allocation_candidates", "/resource_providers"):
            asked = f"{path}?resources=VCPU:1&{query}"
            answer = await any_cloud.ask("GET", asked, version="1.39")
            assert error_of(answer)[:2] == (400, "placement.query.bad_value")


@pytest.mark.parametrize(
    ("query", "version"),
    [
        ("", "1.36"),
        ("limit=1", "1.36"),
        ("resources=VCPU:1&limit=0", "1.36"),
        ("resources=VCPU:1&limit=1", "1.15"),
        ("resources=VCPU:1&required=COMPUTE_NODE", "1.16"),
        ("resources=VCPU:1&required=!COMPUTE_NODE", "1.21"),
        ("resources=VCPU:1&colour=red", "1.36"),
        ("resources=WARP:1", "1.36"),
        ("resources=VCPU:1&required=WARP", "1.36"),
        ("resources=VCPU:1&root_required=WARP", "1.36"),
        ("resources1=VCPU:1", "1.24"),
        ("resources_A=VCPU:1", "1.32"),
        ("resources1=VCPU:1&resources2=VCPU:1", "1.36"),
        ("resources1=VCPU:1&resources2=VCPU:1&group_policy=maybe", "1.36"),
        ("resources1=VCPU:1&required2=COMPUTE_NODE", "1.36"),
        ("resources1=VCPU:1&same_subtree=1,7", "1.36"),
        ("resources=VCPU:1&resources=VCPU:2", "1.36"),
    ],
)
async def test_a_query_that_makes_no_sense_is_400(
    cloud: PlacementCloud, query: str, version: str
) -> None:
    answer = await cloud.ask("GET", f"/allocation_candidates?{query}", version=version)
    assert answer.status == 400


async def test_below_1_10_there_are_no_candidates(cloud: PlacementCloud) -> None:
    answer = await cloud.ask("GET", "/allocation_candidates?resources=VCPU:1", version="1.9")
    assert answer.status == 404
