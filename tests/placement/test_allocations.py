from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from tests.placement.cloud import PROJECT, USER, PlacementCloud, claim_body, error_of

pytestmark = pytest.mark.anyio


async def test_a_claim_is_shown_and_counted(any_cloud: PlacementCloud) -> None:
    uuid = await any_cloud.provider(VCPU={"total": 4}, MEMORY_MB={"total": 1024})
    consumer = str(uuid4())
    given = {uuid: {"VCPU": 2, "MEMORY_MB": 512}}
    assert (await any_cloud.claim(consumer, given)).status == 204
    answer = await any_cloud.ask("GET", f"/allocations/{consumer}", version="1.28")
    assert answer.body == {
        "allocations": {uuid: {"resources": given[uuid], "generation": 2}},
        "project_id": PROJECT,
        "user_id": USER,
        "consumer_generation": 1,
    }
    assert await any_cloud.used(uuid) == {"VCPU": 2, "MEMORY_MB": 512}
    answer = await any_cloud.ask("GET", f"/resource_providers/{uuid}/allocations", version="1.28")
    assert answer.body["allocations"] == {
        consumer: {"resources": given[uuid], "consumer_generation": 1}
    }


async def test_without_a_version_the_oldest_shapes_are_spoken(cloud: PlacementCloud) -> None:
    uuid, consumer = await cloud.provider(VCPU={"total": 4}), str(uuid4())
    body = {"allocations": [{"resource_provider": {"uuid": uuid}, "resources": {"VCPU": 1}}]}
    put = await cloud.ask("PUT", f"/allocations/{consumer}", body, version="")
    assert put.status == 204
    answer = await cloud.ask("GET", f"/allocations/{consumer}", version="")
    assert answer.body == {"allocations": {uuid: {"resources": {"VCPU": 1}, "generation": 2}}}
    answer = await cloud.ask("GET", f"/resource_providers/{uuid}/allocations", version="")
    assert answer.body == {
        "allocations": {consumer: {"resources": {"VCPU": 1}}},
        "resource_provider_generation": 2,
    }
    assert "last-modified" not in answer.headers


@pytest.mark.parametrize(
    ("version", "change", "status"),
    [
        ("1.8", {}, 400),
        ("1.12", {"consumer_generation": ...}, 204),
        ("1.12", {}, 400),
        ("1.27", {"consumer_generation": ..., "allocations": {}}, 400),
        ("1.28", {}, 204),
        ("1.28", {"consumer_generation": ...}, 400),
        ("1.28", {"allocations": {}}, 204),
        ("1.33", {"mappings": {"": []}}, 400),
        ("1.34", {"mappings": {"": []}}, 204),
        ("1.38", {}, 400),
        ("1.38", {"consumer_type": "INSTANCE"}, 204),
        ("1.38", {"consumer_type": "instance"}, 400),
    ],
)
async def test_the_body_of_a_claim_grows_with_the_version(
    cloud: PlacementCloud, version: str, change: dict[str, Any], status: int
) -> None:
    uuid = await cloud.provider(VCPU={"total": 4})
    body = {**claim_body({uuid: {"VCPU": 1}}), **change}
    body = {key: value for key, value in body.items() if value is not ...}
    answer = await cloud.ask("PUT", f"/allocations/{uuid4()}", body, version=version)
    assert answer.status == status, answer.text


async def test_a_stale_consumer_generation_is_told_in_novas_words(cloud: PlacementCloud) -> None:
    uuid, consumer = await cloud.provider(VCPU={"total": 4}), str(uuid4())
    given = {uuid: {"VCPU": 1}}
    unknown = error_of(await cloud.claim(consumer, given, generation=3))
    assert (await cloud.claim(consumer, given)).status == 204
    again = error_of(await cloud.claim(consumer, given))
    assert (await cloud.claim(consumer, given, generation=1)).status == 204
    stale = error_of(await cloud.claim(consumer, given, generation=1))
    never = error_of(await cloud.claim(consumer, given, generation=-1))
    for status, code, detail in (unknown, again, stale, never):
        assert (status, code) == (409, "placement.concurrent_update")
        assert "consumer generation conflict" in detail
    assert await cloud.used(uuid) == {"VCPU": 1}


async def test_what_is_given_stays_and_changes_hands_on_a_provider_that_has_less_by_now(
    cloud: PlacementCloud,
) -> None:
    uuid, consumer, other = await cloud.provider(VCPU={"total": 4}), str(uuid4()), str(uuid4())
    assert (await cloud.claim(consumer, {uuid: {"VCPU": 4}})).status == 204
    path = f"/resource_providers/{uuid}/inventories"
    told = (await cloud.ask("GET", path)).body["resource_provider_generation"]
    body = {"resource_provider_generation": told, "inventories": {"VCPU": {"total": 2}}}
    assert (await cloud.ask("PUT", path, body)).status == 200
    assert (await cloud.claim(other, {uuid: {"VCPU": 1}})).status == 409
    assert (await cloud.claim(consumer, {uuid: {"VCPU": 4}}, generation=1)).status == 204
    handed = {
        consumer: claim_body({}, generation=2),
        other: claim_body({uuid: {"VCPU": 4}}),
    }
    assert (await cloud.ask("POST", "/allocations", handed, version="1.36")).status == 204
    assert (await cloud.claim(other, {uuid: {"VCPU": 3}}, generation=1)).status == 204
    assert (await cloud.claim(other, {uuid: {"VCPU": 4}}, generation=2)).status == 409
    assert await cloud.used(uuid) == {"VCPU": 3}


async def test_no_consumer_gets_less_or_more_than_a_unit_of_what_was_given_before(
    cloud: PlacementCloud,
) -> None:
    stock = {"total": 16, "min_unit": 2, "step_size": 2, "max_unit": 4}
    uuid, consumer, other = await cloud.provider(VCPU=stock), str(uuid4()), str(uuid4())
    for one in (consumer, other):
        assert (await cloud.claim(one, {uuid: {"VCPU": 4}})).status == 204
    for amount in (1, 3):
        assert (await cloud.claim(other, {uuid: {"VCPU": amount}}, generation=1)).status == 409
    both = {
        consumer: claim_body({}, generation=1),
        other: claim_body({uuid: {"VCPU": 8}}, generation=1),
    }
    assert (await cloud.ask("POST", "/allocations", both, version="1.36")).status == 409
    assert await cloud.used(uuid) == {"VCPU": 8}


async def test_what_does_not_fit_is_409_and_changes_nothing(cloud: PlacementCloud) -> None:
    uuid, consumer = await cloud.provider(VCPU={"total": 4, "reserved": 1}), str(uuid4())
    assert (await cloud.claim(consumer, {uuid: {"VCPU": 2}})).status == 204
    before = await cloud.generation(uuid)
    status, code, detail = error_of(await cloud.claim(str(uuid4()), {uuid: {"VCPU": 2}}))
    assert (status, code) == (409, "placement.undefined_code")
    assert "Unable to allocate VCPU" in detail
    assert error_of(await cloud.claim(str(uuid4()), {uuid: {"DISK_GB": 1}}))[0] == 409
    assert await cloud.generation(uuid) == before
    # What a consumer holds itself does not stand in its way.
    assert (await cloud.claim(consumer, {uuid: {"VCPU": 3}}, generation=1)).status == 204


async def test_unknown_providers_and_classes_are_400(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider(VCPU={"total": 4})
    assert (await cloud.claim(str(uuid4()), {str(uuid4()): {"VCPU": 1}})).status == 400
    assert (await cloud.claim(str(uuid4()), {uuid: {"WARP": 1}})).status == 400
    assert (await cloud.claim("no-uuid", {uuid: {"VCPU": 1}})).status == 400
    assert (await cloud.claim(str(uuid4()), {uuid: {"VCPU": 0}})).status == 400


async def test_the_last_unit_goes_to_one_of_many_who_race_for_it(any_cloud: PlacementCloud) -> None:
    uuid = await any_cloud.provider(VCPU={"total": 3})
    claims = [any_cloud.claim(str(uuid4()), {uuid: {"VCPU": 1}}) for _ in range(12)]
    statuses = [answer.status for answer in await asyncio.gather(*claims)]
    assert sorted(statuses) == [204] * 3 + [409] * 9
    assert await any_cloud.used(uuid) == {"VCPU": 3}


async def test_of_two_writers_with_one_generation_one_wins(any_cloud: PlacementCloud) -> None:
    uuid, consumer = await any_cloud.provider(VCPU={"total": 9}), str(uuid4())
    claims = [any_cloud.claim(consumer, {uuid: {"VCPU": count}}) for count in range(1, 6)]
    statuses = [answer.status for answer in await asyncio.gather(*claims)]
    assert sorted(statuses) == [204, 409, 409, 409, 409]


async def test_an_empty_claim_and_a_delete_end_the_consumer(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider(VCPU={"total": 4})
    consumer, other = str(uuid4()), str(uuid4())
    await cloud.claim(consumer, {uuid: {"VCPU": 1}})
    await cloud.claim(other, {uuid: {"VCPU": 1}})
    assert (await cloud.claim(consumer, {}, generation=1)).status == 204
    assert (await cloud.ask("DELETE", f"/allocations/{other}")).status == 204
    assert (await cloud.ask("DELETE", f"/allocations/{other}")).status == 404
    assert (await cloud.ask("GET", f"/allocations/{other}")).body == {"allocations": {}}
    assert await cloud.used(uuid) == {"VCPU": 0}
    # A consumer of this id is new again.
    assert (await cloud.claim(consumer, {uuid: {"VCPU": 1}})).status == 204


async def test_several_consumers_change_together_or_not_at_all(any_cloud: PlacementCloud) -> None:
    source = await any_cloud.provider("host1", VCPU={"total": 4})
    target = await any_cloud.provider("host2", VCPU={"total": 2})
    server, migration = str(uuid4()), str(uuid4())
    await any_cloud.claim(server, {source: {"VCPU": 3}})
    body = {
        server: claim_body({target: {"VCPU": 3}}, generation=1),
        migration: claim_body({source: {"VCPU": 3}}),
    }
    assert (await any_cloud.ask("POST", "/allocations", body, version="1.28")).status == 409
    assert (await any_cloud.used(source), await any_cloud.used(target)) == (
        {"VCPU": 3},
        {"VCPU": 0},
    )
    body[server] = claim_body({}, generation=1)
    assert (await any_cloud.ask("POST", "/allocations", body, version="1.28")).status == 204
    assert (await any_cloud.ask("GET", f"/allocations/{server}")).body == {"allocations": {}}
    held = (await any_cloud.ask("GET", f"/allocations/{migration}")).body
    assert held["allocations"][source]["resources"] == {"VCPU": 3}


async def test_what_consumers_ask_for_together_is_counted_together(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider(VCPU={"total": 4})
    body = {str(uuid4()): claim_body({uuid: {"VCPU": amount}}) for amount in (2, 3)}
    answer = await cloud.ask("POST", "/allocations", body, version="1.37")
    assert answer.status == 409, answer.text
    assert await cloud.used(uuid) == {"VCPU": 0}


async def test_usages_are_summed_by_project_user_and_type(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider(VCPU={"total": 9})
    typed = {**claim_body({uuid: {"VCPU": 2}}), "consumer_type": "INSTANCE"}
    await cloud.ask("PUT", f"/allocations/{uuid4()}", typed, version="1.38")
    await cloud.claim(str(uuid4()), {uuid: {"VCPU": 3}})
    path = f"/usages?project_id={PROJECT}"
    assert (await cloud.ask("GET", path, version="1.9")).body == {"usages": {"VCPU": 5}}
    assert (await cloud.ask("GET", path, version="1.38")).body == {
        "usages": {
            "INSTANCE": {"consumer_count": 1, "VCPU": 2},
            "unknown": {"consumer_count": 1, "VCPU": 3},
        }
    }
    everything = await cloud.ask("GET", path + "&consumer_type=all", version="1.38")
    assert everything.body == {"usages": {"all": {"consumer_count": 2, "VCPU": 5}}}
    other_user = await cloud.ask("GET", f"{path}&user_id={uuid4()}", version="1.9")
    assert other_user.body == {"usages": {}}
    assert (await cloud.ask("GET", "/usages", version="1.9")).status == 400
    assert (await cloud.ask("GET", path, version="1.9", user="member")).status == 403


async def test_a_reshape_moves_inventory_and_allocations_together(cloud: PlacementCloud) -> None:
    old = await cloud.provider("host1", VCPU={"total": 4})
    new = await cloud.provider("host2")
    consumer = str(uuid4())
    await cloud.claim(consumer, {old: {"VCPU": 3}})
    body: dict[str, Any] = {
        "inventories": {
            old: {"resource_provider_generation": 2, "inventories": {}},
            new: {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 4}}},
        },
        "allocations": {consumer: claim_body({new: {"VCPU": 3}}, generation=1)},
    }
    assert (await cloud.ask("POST", "/reshaper", body, version="1.30")).status == 204
    assert (await cloud.used(old), await cloud.used(new)) == ({}, {"VCPU": 3})
    assert (await cloud.ask("POST", "/reshaper", body, version="1.30")).status == 409
