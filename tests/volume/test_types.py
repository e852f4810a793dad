from __future__ import annotations

import pytest

from tests.callers import OTHER_PROJECT
from tests.volume.cloud import UNKNOWN, VolumeCloud

pytestmark = pytest.mark.anyio


async def make(cloud: VolumeCloud, name: str, **fields: object) -> str:
    body = {"volume_type": {"name": name, **fields}}
    answer = await cloud.ask("POST", "/types", body, user="admin")
    assert answer.status == 200, answer.content
    assert "qos_specs_id" not in answer.body["volume_type"]
    return answer.body["volume_type"]["id"]


async def test_there_is_a_default_type(cloud: VolumeCloud) -> None:
    answer = await cloud.ask("GET", "/types", user="reader")
    (shown,) = answer.body["volume_types"]
    assert shown["name"] == "__DEFAULT__"
    assert shown["is_public"] is shown["os-volume-type-access:is_public"] is True
    assert "qos_specs_id" not in shown
    assert (await cloud.ask("GET", "/types/default")).body["volume_type"] == shown
    assert (await cloud.show(await cloud.make()))["volume_type"] == "__DEFAULT__"
    answer = await cloud.ask("DELETE", f"/types/{shown['id']}", user="admin")
    assert answer.status == 400


async def test_an_administrator_makes_changes_and_deletes_types(cloud: VolumeCloud) -> None:
    type_id = await make(cloud, "gold", description="fast", extra_specs={"a": "b"})
    body = {"volume_type": {"name": "gold"}}
    assert (await cloud.ask("POST", "/types", body, user="admin")).status == 409
    assert (await cloud.ask("POST", "/types", body, user="member")).status == 403
    answer = await cloud.ask(
        "PUT", f"/types/{type_id}", {"volume_type": {"name": "silver"}}, user="admin"
    )
    assert answer.body["volume_type"]["name"] == "silver"
    assert answer.body["volume_type"]["description"] == "fast"
    kept = {"qos_specs_id", "os-volume-type-access:is_public"}
    assert not kept & set(answer.body["volume_type"])
    shown = await cloud.ask("GET", f"/types/{type_id}", user="admin")
    assert kept <= set(shown.body["volume_type"])
    volume_id = await cloud.make(volume_type="__DEFAULT__")
    await cloud.set(volume_id, volume_type_id=type_id)
    assert (await cloud.ask("DELETE", f"/types/{type_id}", user="admin")).status == 400
    await cloud.ask("DELETE", f"/volumes/{volume_id}")
    await cloud.settle()
    assert (await cloud.ask("DELETE", f"/types/{type_id}", user="admin")).status == 202
    assert (await cloud.ask("GET", f"/types/{type_id}", user="admin")).status == 404
    assert (await cloud.ask("GET", "/types/gold", user="admin")).status == 404


async def test_types_are_found_by_the_extra_specs_that_one_may_read(cloud: VolumeCloud) -> None:
    await make(cloud, "gold", extra_specs={"tier": "1", "multiattach": "<is> True"})
    await make(cloud, "lead", extra_specs={"tier": "2"})

    async def names(query: str, user: str = "admin", version: str = "3.52") -> list[str]:
        answer = await cloud.ask("GET", f"/types?{query}", user=user, version=version)
        return sorted(row["name"] for row in answer.body["volume_types"])

    assert await names("extra_specs={'tier':'1'}") == ["gold"]
    assert await names("extra_specs={'tier':'1','multiattach':'<is> True'}") == ["gold"]
    assert await names("extra_specs={'tier':'3'}") == []
    assert len(await names("extra_specs={'tier':'3'}", version="3.51")) == 3
    assert await names("extra_specs={'multiattach':'<is> True'}", "member") == ["gold"]
    assert await names("extra_specs={'tier':'1'}", "member") == []
    answer = await cloud.ask("GET", "/types?extra_specs=tier", user="admin", version="3.52")
    assert answer.status == 400


@pytest.mark.parametrize("name", ["", "  "])
async def test_a_type_without_a_name_is_refused(cloud: VolumeCloud, name: str) -> None:
    type_id, body = await make(cloud, "gold"), {"volume_type": {"name": name}}
    for method, path in (("POST", "/types"), ("PUT", f"/types/{type_id}")):
        assert (await cloud.ask(method, path, body, user="admin")).status == 400
    shown = await cloud.ask("GET", f"/types/{type_id}", user="admin")
    assert shown.body["volume_type"]["name"] == "gold"


async def test_extra_specs_are_an_administrators(cloud: VolumeCloud) -> None:
    specs = {"volume_backend_name": "fast", "multiattach": "<is> True"}
    type_id = await make(cloud, "shared", extra_specs=specs)
    path = f"/types/{type_id}/extra_specs"
    assert (await cloud.ask("GET", path, user="admin")).body == {"extra_specs": specs}
    assert (await cloud.ask("GET", path)).body == {"extra_specs": {"multiattach": "<is> True"}}
    added = await cloud.ask("POST", path, {"extra_specs": {"x": "1"}}, user="admin")
    assert added.body == {"extra_specs": {"x": "1"}}
    assert (await cloud.ask("PUT", f"{path}/x", {"x": "2"}, user="admin")).body == {"x": "2"}
    assert (await cloud.ask("PUT", f"{path}/x", {"y": "2"}, user="admin")).status == 400
    assert (await cloud.ask("GET", f"{path}/x", user="admin")).body == {"x": "2"}
    assert (await cloud.ask("DELETE", f"{path}/x", user="admin")).status == 202
    assert (await cloud.ask("DELETE", f"{path}/x", user="admin")).status == 404
    assert (await cloud.ask("POST", path, {"extra_specs": {"x": "1"}})).status == 403


async def test_a_private_type_is_for_projects_with_access(cloud: VolumeCloud) -> None:
    type_id = await make(cloud, "private", **{"os-volume-type-access:is_public": False})
    path, access = f"/types/{type_id}", f"/types/{type_id}/os-volume-type-access"
    assert (await cloud.ask("GET", path, user="stranger")).status == 404
    body = {"volume": {"size": 1, "volume_type": "private"}}
    assert (await cloud.ask("POST", "/volumes", body, user="stranger")).status == 404
    add = {"addProjectAccess": {"project": OTHER_PROJECT}}
    assert (await cloud.ask("POST", f"{path}/action", add, user="admin")).status == 202
    assert (await cloud.ask("POST", f"{path}/action", add, user="admin")).status == 409
    assert (await cloud.ask("GET", path, user="stranger")).status == 200
    listed = await cloud.ask("GET", access, user="admin")
    assert listed.body == {
        "volume_type_access": [{"volume_type_id": type_id, "project_id": OTHER_PROJECT}]
    }
    remove = {"removeProjectAccess": {"project": OTHER_PROJECT}}
    assert (await cloud.ask("POST", f"{path}/action", remove, user="admin")).status == 202
    assert (await cloud.ask("POST", f"{path}/action", remove, user="admin")).status == 404
    only = await cloud.ask("GET", "/types?is_public=false", user="admin")
    assert [row["name"] for row in only.body["volume_types"]] == ["private"]
    everything = await cloud.ask("GET", "/types?is_public=None", user="admin")
    assert len(everything.body["volume_types"]) == 2
    public = (await cloud.ask("GET", "/types")).body["volume_types"][0]["id"]
    path = f"/types/{public}/os-volume-type-access"
    assert (await cloud.ask("GET", path, user="admin")).status == 404
    assert (await cloud.ask("POST", f"/types/{public}/action", add, user="admin")).status == 400


@pytest.mark.parametrize(
    ("specs", "status"),
    [
        ({"volume_backend_name": "fast"}, "available"),
        ({"capabilities:storage_protocol": "simulated"}, "available"),
        ({"thin_provisioning_support": "<is> True"}, "available"),
        ({"RESKEY:availability_zones": "nova"}, "available"),
        ({"volume_backend_name": "other"}, "error"),
        ({"unheard_of": "1"}, "error"),
    ],
)
async def test_a_type_chooses_among_pools(
    cloud: VolumeCloud, specs: dict[str, str], status: str
) -> None:
    await make(cloud, "choosy", extra_specs=specs)
    assert await cloud.status(await cloud.make(volume_type="choosy")) == status


async def test_what_is_not_there_is_not_found(cloud: VolumeCloud) -> None:
    assert (await cloud.ask("GET", f"/types/{UNKNOWN}")).status == 404
