from __future__ import annotations

import pytest

from tests.volume.dock import OTHER, UNKNOWN, Dock

pytestmark = pytest.mark.anyio


async def make(dock: Dock, name: str, **fields: object) -> str:
    body = {"volume_type": {"name": name, **fields}}
    answer = await dock.ask("POST", "/types", body, who="admin")
    assert answer.status == 200, answer.content
    assert "qos_specs_id" not in answer.json["volume_type"]
    return answer.json["volume_type"]["id"]


async def test_there_is_a_default_type(dock: Dock) -> None:
    answer = await dock.ask("GET", "/types", who="reader")
    (shown,) = answer.json["volume_types"]
    assert shown["name"] == "__DEFAULT__"
    assert shown["is_public"] is shown["os-volume-type-access:is_public"] is True
    assert "qos_specs_id" not in shown
    assert (await dock.ask("GET", "/types/default")).json["volume_type"] == shown
    assert (await dock.show(await dock.make()))["volume_type"] == "__DEFAULT__"
    answer = await dock.ask("DELETE", f"/types/{shown['id']}", who="admin")
    assert answer.status == 400


async def test_an_administrator_makes_changes_and_deletes_types(dock: Dock) -> None:
    type_id = await make(dock, "gold", description="fast", extra_specs={"a": "b"})
    body = {"volume_type": {"name": "gold"}}
    assert (await dock.ask("POST", "/types", body, who="admin")).status == 409
    assert (await dock.ask("POST", "/types", body, who="member")).status == 403
    answer = await dock.ask(
        "PUT", f"/types/{type_id}", {"volume_type": {"name": "silver"}}, who="admin"
    )
    assert answer.json["volume_type"]["name"] == "silver"
    assert answer.json["volume_type"]["description"] == "fast"
    kept = {"qos_specs_id", "os-volume-type-access:is_public"}
    assert not kept & set(answer.json["volume_type"])
    shown = await dock.ask("GET", f"/types/{type_id}", who="admin")
    assert kept <= set(shown.json["volume_type"])
    volume_id = await dock.make(volume_type="__DEFAULT__")
    await dock.set(volume_id, volume_type_id=type_id)
    assert (await dock.ask("DELETE", f"/types/{type_id}", who="admin")).status == 400
    await dock.ask("DELETE", f"/volumes/{volume_id}")
    await dock.engine.settle()
    assert (await dock.ask("DELETE", f"/types/{type_id}", who="admin")).status == 202
    assert (await dock.ask("GET", f"/types/{type_id}", who="admin")).status == 404
    assert (await dock.ask("GET", "/types/gold", who="admin")).status == 404


async def test_extra_specs_are_an_administrators(dock: Dock) -> None:
    specs = {"volume_backend_name": "simulated", "multiattach": "<is> True"}
    type_id = await make(dock, "shared", extra_specs=specs)
    path = f"/types/{type_id}/extra_specs"
    assert (await dock.ask("GET", path, who="admin")).json == {"extra_specs": specs}
    assert (await dock.ask("GET", path)).json == {"extra_specs": {"multiattach": "<is> True"}}
    added = await dock.ask("POST", path, {"extra_specs": {"x": "1"}}, who="admin")
    assert added.json == {"extra_specs": {"x": "1"}}
    assert (await dock.ask("PUT", f"{path}/x", {"x": "2"}, who="admin")).json == {"x": "2"}
    assert (await dock.ask("PUT", f"{path}/x", {"y": "2"}, who="admin")).status == 400
    assert (await dock.ask("GET", f"{path}/x", who="admin")).json == {"x": "2"}
    assert (await dock.ask("DELETE", f"{path}/x", who="admin")).status == 202
    assert (await dock.ask("DELETE", f"{path}/x", who="admin")).status == 404
    assert (await dock.ask("POST", path, {"extra_specs": {"x": "1"}})).status == 403


async def test_a_private_type_is_for_projects_with_access(dock: Dock) -> None:
    type_id = await make(dock, "private", **{"os-volume-type-access:is_public": False})
    path, access = f"/types/{type_id}", f"/types/{type_id}/os-volume-type-access"
    assert (await dock.ask("GET", path, who="stranger")).status == 404
    body = {"volume": {"size": 1, "volume_type": "private"}}
    assert (await dock.ask("POST", "/volumes", body, who="stranger")).status == 404
    add = {"addProjectAccess": {"project": OTHER}}
    assert (await dock.ask("POST", f"{path}/action", add, who="admin")).status == 202
    assert (await dock.ask("POST", f"{path}/action", add, who="admin")).status == 409
    assert (await dock.ask("GET", path, who="stranger")).status == 200
    listed = await dock.ask("GET", access, who="admin")
    assert listed.json == {"volume_type_access": [{"volume_type_id": type_id, "project_id": OTHER}]}
    remove = {"removeProjectAccess": {"project": OTHER}}
    assert (await dock.ask("POST", f"{path}/action", remove, who="admin")).status == 202
    assert (await dock.ask("POST", f"{path}/action", remove, who="admin")).status == 404
    only = await dock.ask("GET", "/types?is_public=false", who="admin")
    assert [row["name"] for row in only.json["volume_types"]] == ["private"]
    everything = await dock.ask("GET", "/types?is_public=None", who="admin")
    assert len(everything.json["volume_types"]) == 2
    public = (await dock.ask("GET", "/types")).json["volume_types"][0]["id"]
    path = f"/types/{public}/os-volume-type-access"
    assert (await dock.ask("GET", path, who="admin")).status == 404
    assert (await dock.ask("POST", f"/types/{public}/action", add, who="admin")).status == 400


@pytest.mark.parametrize(
    ("specs", "status"),
    [
        ({"volume_backend_name": "simulated"}, "available"),
        ({"capabilities:storage_protocol": "simulated"}, "available"),
        ({"thin_provisioning_support": "<is> True"}, "available"),
        ({"RESKEY:availability_zones": "nova"}, "available"),
        ({"volume_backend_name": "other"}, "error"),
        ({"unheard_of": "1"}, "error"),
    ],
)
async def test_a_type_chooses_among_pools(dock: Dock, specs: dict[str, str], status: str) -> None:
    await make(dock, "choosy", extra_specs=specs)
    assert await dock.status(await dock.make(volume_type="choosy")) == status


async def test_what_is_not_there_is_not_found(dock: Dock) -> None:
    assert (await dock.ask("GET", f"/types/{UNKNOWN}")).status == 404
