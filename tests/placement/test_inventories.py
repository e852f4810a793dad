from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.placement.office import Office, error_of

pytestmark = pytest.mark.anyio


async def test_an_inventory_has_the_usual_defaults(office: Office) -> None:
    uuid = await office.provider(VCPU={"total": 4})
    answer = await office.ask("GET", f"/resource_providers/{uuid}/inventories")
    assert answer.json() == {
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


async def test_put_replaces_all_and_raises_the_generation(office: Office) -> None:
    uuid = await office.provider(VCPU={"total": 4}, DISK_GB={"total": 10})
    body = {"resource_provider_generation": 1, "inventories": {"VCPU": {"total": 8}}}
    path = f"/resource_providers/{uuid}/inventories"
    answer = await office.ask("PUT", path, body)
    assert answer.json()["resource_provider_generation"] == 2
    assert list(answer.json()["inventories"]) == ["VCPU"]
    status, code, _ = error_of(await office.ask("PUT", path, body))
    assert (status, code) == (409, "placement.concurrent_update")


async def test_a_class_that_is_used_stays(office: Office) -> None:
    uuid = await office.provider(VCPU={"total": 4})
    await office.claim(str(uuid4()), {uuid: {"VCPU": 1}})
    path = f"/resource_providers/{uuid}/inventories"
    body: dict[str, Any] = {"resource_provider_generation": 2, "inventories": {}}
    for answer in (
        await office.ask("PUT", path, body),
        await office.ask("DELETE", path),
        await office.ask("DELETE", f"{path}/VCPU"),
    ):
        assert error_of(answer)[:2] == (409, "placement.inventory.inuse")
    assert (await office.used(uuid)) == {"VCPU": 1}
    assert (await office.generation(uuid)) == 2


async def test_one_class_is_added_changed_and_taken_away(office: Office) -> None:
    uuid = await office.provider()
    path = f"/resource_providers/{uuid}/inventories"
    new = {"resource_provider_generation": 0, "resource_class": "VCPU", "total": 4}
    answer = await office.ask("POST", path, new)
    assert (answer.status_code, answer.json()["total"]) == (201, 4)
    assert answer.headers["location"].endswith("/inventories/VCPU")
    assert (await office.ask("POST", path, new | {"resource_provider_generation": 1})).status_code
    changed = {"resource_provider_generation": 1, "total": 6, "allocation_ratio": 16}
    answer = await office.ask("PUT", f"{path}/VCPU", changed)
    assert (answer.status_code, answer.json()["allocation_ratio"]) == (200, 16.0)
    assert (await office.ask("GET", f"{path}/VCPU")).json()["total"] == 6
    assert (await office.ask("DELETE", f"{path}/VCPU")).status_code == 204
    assert (await office.ask("GET", f"{path}/VCPU")).status_code == 404
    assert (await office.ask("DELETE", f"{path}/VCPU")).status_code == 404


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
    office: Office, inventory: dict[str, Any], version: str, status: int
) -> None:
    uuid = await office.provider()
    body = {"resource_provider_generation": 0, "inventories": {"VCPU": inventory}}
    path = f"/resource_providers/{uuid}/inventories"
    assert (await office.ask("PUT", path, body, version=version)).status_code == status


async def test_an_unknown_class_is_400_until_it_is_made(office: Office) -> None:
    uuid = await office.provider()
    body = {"resource_provider_generation": 0, "inventories": {"CUSTOM_GOLD": {"total": 1}}}
    path = f"/resource_providers/{uuid}/inventories"
    assert (await office.ask("PUT", path, body)).status_code == 400
    assert (await office.ask("PUT", "/resource_classes/CUSTOM_GOLD")).status_code == 201
    assert (await office.ask("PUT", "/resource_classes/CUSTOM_GOLD")).status_code == 204
    assert (await office.ask("PUT", path, body)).status_code == 200
    assert (await office.ask("DELETE", "/resource_classes/CUSTOM_GOLD")).status_code == 409


async def test_resource_classes_are_listed_made_renamed_and_deleted(office: Office) -> None:
    path = "/resource_classes"
    assert (await office.ask("POST", path, {"name": "CUSTOM_TIN"})).status_code == 201
    assert (await office.ask("POST", path, {"name": "CUSTOM_TIN"})).status_code == 409
    assert (await office.ask("POST", path, {"name": "TIN"})).status_code == 400
    renamed = await office.ask("PUT", f"{path}/CUSTOM_TIN", {"name": "CUSTOM_ZINC"}, version="1.6")
    assert renamed.json()["name"] == "CUSTOM_ZINC"
    names = [each["name"] for each in (await office.ask("GET", path)).json()["resource_classes"]]
    assert (len(names), names[-1]) == (22, "CUSTOM_ZINC")
    assert (await office.ask("DELETE", f"{path}/VCPU")).status_code == 400
    assert (await office.ask("DELETE", f"{path}/CUSTOM_ZINC")).status_code == 204
    assert (await office.ask("GET", f"{path}/CUSTOM_ZINC")).status_code == 404


async def test_traits_are_listed_made_and_deleted(office: Office) -> None:
    assert (await office.ask("PUT", "/traits/CUSTOM_FAST")).status_code == 201
    assert (await office.ask("PUT", "/traits/CUSTOM_FAST")).status_code == 204
    assert (await office.ask("PUT", "/traits/FAST")).status_code == 400
    assert (await office.ask("GET", "/traits/COMPUTE_STORAGE_VIRTIO_FS")).status_code == 204
    assert (await office.ask("GET", "/traits/CUSTOM_SLOW")).status_code == 404
    for query, expected in {
        "name=in:CUSTOM_FAST,COMPUTE_NODE,WARP": ["COMPUTE_NODE", "CUSTOM_FAST"],
        "name=startswith:CUSTOM_": ["CUSTOM_FAST"],
        "associated=true": [],
    }.items():
        assert (await office.ask("GET", f"/traits?{query}")).json()["traits"] == expected
    assert (await office.ask("GET", "/traits?name=FAST")).status_code == 400
    uuid = await office.provider()
    body = {"resource_provider_generation": 0, "traits": ["CUSTOM_FAST"]}
    await office.ask("PUT", f"/resource_providers/{uuid}/traits", body)
    assert (await office.ask("DELETE", "/traits/CUSTOM_FAST")).status_code == 409
    await office.ask("DELETE", f"/resource_providers/{uuid}/traits")
    assert (await office.ask("DELETE", "/traits/CUSTOM_FAST")).status_code == 204
    assert (await office.ask("DELETE", "/traits/COMPUTE_NODE")).status_code == 400
    assert (await office.ask("GET", "/traits", version="1.5")).status_code == 404
