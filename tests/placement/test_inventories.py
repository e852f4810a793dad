from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.placement.cloud import PlacementCloud, error_of

pytestmark = pytest.mark.anyio


async def test_an_inventory_has_the_usual_defaults(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider(VCPU={"total": 4})
    answer = await cloud.ask("GET", f"/resource_providers/{uuid}/inventories")
    assert answer.body == {
        "resource_provider_generation": 1,
        "inventories": {
            "VCPU": {
                "total": 4,
                "reserved": 0,
                "min_unit": 1,
                "max_unit": 2147483647,
                "step_size": 1,
                "allocation_ratio": 1.0,
            }
        },
    }


async def test_put_replaces_all_and_raises_the_generation(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider(VCPU={"total": 4}, DISK_GB={"total": 10})
    body = {"resource_provider_generation": 1, "inventories": {"VCPU": {"total": 8}}}
    path = f"/resource_providers/{uuid}/inventories"
    answer = await cloud.ask("PUT", path, body)
    assert answer.body["resource_provider_generation"] == 2
    assert list(answer.body["inventories"]) == ["VCPU"]
    status, code, _ = error_of(await cloud.ask("PUT", path, body))
    assert (status, code) == (409, "placement.concurrent_update")


async def test_a_class_that_is_used_stays(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider(VCPU={"total": 4})
    await cloud.claim(str(uuid4()), {uuid: {"VCPU": 1}})
    path = f"/resource_providers/{uuid}/inventories"
    body: dict[str, Any] = {"resource_provider_generation": 2, "inventories": {}}
    for answer in (
        await cloud.ask("PUT", path, body),
        await cloud.ask("DELETE", path),
        await cloud.ask("DELETE", f"{path}/VCPU"),
    ):
        assert error_of(answer)[:2] == (409, "placement.inventory.inuse")
    assert (await cloud.used(uuid)) == {"VCPU": 1}
    assert (await cloud.generation(uuid)) == 2


async def test_one_class_is_added_changed_and_taken_away(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider()
    path = f"/resource_providers/{uuid}/inventories"
    new = {"resource_provider_generation": 0, "resource_class": "VCPU", "total": 4}
    answer = await cloud.ask("POST", path, new)
    assert (answer.status, answer.body["total"]) == (201, 4)
    assert answer.headers["location"].endswith("/inventories/VCPU")
    assert (await cloud.ask("POST", path, new | {"resource_provider_generation": 1})).status
    changed = {"resource_provider_generation": 1, "total": 6, "allocation_ratio": 16}
    answer = await cloud.ask("PUT", f"{path}/VCPU", changed)
    assert (answer.status, answer.body["allocation_ratio"]) == (200, 16.0)
    assert (await cloud.ask("GET", f"{path}/VCPU")).body["total"] == 6
    assert (await cloud.ask("DELETE", f"{path}/VCPU")).status == 204
    assert (await cloud.ask("GET", f"{path}/VCPU")).status == 404
    assert (await cloud.ask("DELETE", f"{path}/VCPU")).status == 404


async def test_a_new_class_needs_no_generation_and_is_refused_a_wrong_one(
    cloud: PlacementCloud,
) -> None:
    path = f"/resource_providers/{await cloud.provider()}/inventories"
    answer = await cloud.ask("POST", path, {"resource_class": "VCPU", "total": 4})
    assert (answer.status, answer.body["resource_provider_generation"]) == (201, 1)
    for generation, status in ((-1, 409), (None, 400)):
        more = {"resource_class": "DISK_GB", "total": 4, "resource_provider_generation": generation}
        assert (await cloud.ask("POST", path, more)).status == status


@pytest.mark.parametrize(
    ("inventory", "version", "status"),
    [
        ({"total": 0}, "1.39", 400),
        ({"total": "4"}, "1.39", 400),
        ({"total": 4, "reserved": 5}, "1.39", 400),
        ({"total": 4, "reserved": 4}, "1.26", 200),
        ({"total": 4, "reserved": 4}, "1.25", 400),
        ({"total": 4, "min_unit": 0}, "1.39", 400),
        ({"total": 4, "max_unit": 2**31}, "1.39", 400),
        ({"total": 4, "allocation_ratio": -1}, "1.39", 400),
        ({"total": 4, "colour": "red"}, "1.39", 400),
        ({"reserved": 4}, "1.39", 400),
    ],
)
async def test_an_inventory_must_make_sense(
    cloud: PlacementCloud, inventory: dict[str, Any], version: str, status: int
) -> None:
    uuid = await cloud.provider()
    body = {"resource_provider_generation": 0, "inventories": {"VCPU": inventory}}
    path = f"/resource_providers/{uuid}/inventories"
    assert (await cloud.ask("PUT", path, body, version=version)).status == status


async def test_an_unknown_class_is_400_until_it_is_made(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider()
    body = {"resource_provider_generation": 0, "inventories": {"CUSTOM_GOLD": {"total": 1}}}
    path = f"/resource_providers/{uuid}/inventories"
    assert (await cloud.ask("PUT", path, body)).status == 400
    assert (await cloud.ask("PUT", "/resource_classes/CUSTOM_GOLD")).status == 201
    assert (await cloud.ask("PUT", "/resource_classes/CUSTOM_GOLD")).status == 204
    assert (await cloud.ask("PUT", path, body)).status == 200
    assert (await cloud.ask("DELETE", "/resource_classes/CUSTOM_GOLD")).status == 409


async def test_resource_classes_are_listed_made_renamed_and_deleted(cloud: PlacementCloud) -> None:
    path = "/resource_classes"
    assert (await cloud.ask("POST", path, {"name": "CUSTOM_TIN"})).status == 201
    assert (await cloud.ask("POST", path, {"name": "CUSTOM_TIN"})).status == 409
    assert (await cloud.ask("POST", path, {"name": "TIN"})).status == 400
    renamed = await cloud.ask("PUT", f"{path}/CUSTOM_TIN", {"name": "CUSTOM_ZINC"}, version="1.6")
    assert renamed.body["name"] == "CUSTOM_ZINC"
    names = [each["name"] for each in (await cloud.ask("GET", path)).body["resource_classes"]]
    assert (len(names), names[-1]) == (22, "CUSTOM_ZINC")
    assert (await cloud.ask("DELETE", f"{path}/VCPU")).status == 400
    assert (await cloud.ask("DELETE", f"{path}/CUSTOM_ZINC")).status == 204
    assert (await cloud.ask("GET", f"{path}/CUSTOM_ZINC")).status == 404


async def test_traits_are_listed_made_and_deleted(cloud: PlacementCloud) -> None:
    assert (await cloud.ask("PUT", "/traits/CUSTOM_FAST")).status == 201
    assert (await cloud.ask("PUT", "/traits/CUSTOM_FAST")).status == 204
    assert (await cloud.ask("PUT", "/traits/FAST")).status == 400
    assert (await cloud.ask("GET", "/traits/COMPUTE_STORAGE_VIRTIO_FS")).status == 204
    assert (await cloud.ask("GET", "/traits/CUSTOM_SLOW")).status == 404
    for query, expected in {
        "name=in:CUSTOM_FAST,COMPUTE_NODE,WARP": ["COMPUTE_NODE", "CUSTOM_FAST"],
        "name=startswith:CUSTOM_": ["CUSTOM_FAST"],
        "associated=true": [],
    }.items():
        assert (await cloud.ask("GET", f"/traits?{query}")).body["traits"] == expected
    assert (await cloud.ask("GET", "/traits?name=FAST")).status == 400
    uuid = await cloud.provider()
    body = {"resource_provider_generation": 0, "traits": ["CUSTOM_FAST"]}
    await cloud.ask("PUT", f"/resource_providers/{uuid}/traits", body)
    assert (await cloud.ask("DELETE", "/traits/CUSTOM_FAST")).status == 409
    await cloud.ask("DELETE", f"/resource_providers/{uuid}/traits")
    assert (await cloud.ask("DELETE", "/traits/CUSTOM_FAST")).status == 204
    assert (await cloud.ask("DELETE", "/traits/COMPUTE_NODE")).status == 400
    assert (await cloud.ask("GET", "/traits", version="1.5")).status == 404
