from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from mooring import limits
from tests.image.gallery import OTHER_PROJECT, PATCH_20, PROJECT, Gallery

pytestmark = pytest.mark.anyio


async def test_a_new_image_is_queued_and_shared_with_nobody(gallery: Gallery) -> None:
    body = {"name": "cirros", "hw_disk_bus": "virtio", "tags": ["b", "a", "b"], "min_disk": 1}
    answer = await gallery.ask("POST", "/images", body)
    shown = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"http://cloud/image/v2/images/{shown['id']}"
    assert shown == {
        "id": shown["id"],
        "name": "cirros",
        "hw_disk_bus": "virtio",
        "status": "queued",
        "visibility": "shared",
        "owner": PROJECT,
        "disk_format": None,
        "container_format": None,
        "size": None,
        "virtual_size": None,
        "checksum": None,
        "os_hash_algo": None,
        "os_hash_value": None,
        "min_disk": 1,
        "min_ram": 0,
        "protected": False,
        "os_hidden": False,
        "tags": ["a", "b"],
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
        "self": f"/v2/images/{shown['id']}",
        "file": f"/v2/images/{shown['id']}/file",
        "schema": "/v2/schemas/image",
    }


async def test_an_id_may_be_chosen_once(gallery: Gallery) -> None:
    image_id = str(uuid4())
    assert (await gallery.ask("POST", "/images", {"id": image_id})).status_code == 201
    assert (await gallery.ask("POST", "/images", {"id": image_id})).status_code == 409
    assert (await gallery.ask("POST", "/images", {"id": "seven"})).status_code == 400
    assert (await gallery.ask("POST", "/images", {"id": "../../etc/passwd"})).status_code == 400


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"status": "active"}, 403),
        ({"size": 7}, 403),
        ({"os_glance_stage_host": "x"}, 403),
        ({"locations": []}, 403),
        ({"visibility": "public"}, 403),
        ({"owner": OTHER_PROJECT}, 403),
        ({"visibility": "secret"}, 400),
        ({"disk_format": "zip"}, 400),
        ({"hw_cores": 4}, 400),
        ({"hw_cores": None}, 400),
        ({"min_disk": -1}, 400),
        ({"name": "x" * 256}, 400),
        ({"tags": ["x" * 256]}, 400),
        ({"tags": [str(n) for n in range(limits.IMAGE_TAGS + 1)]}, 413),
        ({f"key{n}": "x" for n in range(limits.IMAGE_PROPERTIES + 1)}, 413),
    ],
)
async def test_what_may_not_be_said_of_a_new_image(
    gallery: Gallery, body: dict[str, Any], status: int
) -> None:
    assert (await gallery.ask("POST", "/images", body)).status_code == status


async def test_an_administrator_may_publish_and_make_for_others(gallery: Gallery) -> None:
    body = {"visibility": "public", "owner": OTHER_PROJECT}
    answer = await gallery.ask("POST", "/images", body, who="admin")
    assert answer.status_code == 201
    assert answer.json()["owner"] == OTHER_PROJECT


async def test_a_reader_may_look_and_not_write(gallery: Gallery) -> None:
    image_id = await gallery.make()
    assert (await gallery.ask("GET", f"/images/{image_id}", who="reader")).status_code == 200
    assert (await gallery.ask("POST", "/images", {}, who="reader")).status_code == 403
    assert (await gallery.upload(image_id, b"x", who="reader")).status_code == 403
    assert (await gallery.ask("DELETE", f"/images/{image_id}", who="reader")).status_code == 403


async def test_what_others_own_is_not_there_unless_it_is_open(gallery: Gallery) -> None:
    for visibility, status in {"private": 404, "shared": 404, "community": 200}.items():
        image_id = await gallery.make(visibility=visibility)
        answer = await gallery.ask("GET", f"/images/{image_id}", who="stranger")
        assert answer.status_code == status, visibility
        deleted = await gallery.ask("DELETE", f"/images/{image_id}", who="stranger")
        assert deleted.status_code == (403 if status == 200 else 404)
    assert (await gallery.ask("GET", "/images/cirros")).status_code == 404


async def test_faults_are_json_for_those_who_show_it_and_html_for_others(
    gallery: Gallery,
) -> None:
    path = f"/images/{uuid4()}"
    json = await gallery.ask("GET", path)
    assert json.json()["code"] == "404 Not Found"
    assert json.json()["title"] == "Not Found"
    html = await gallery.ask("GET", path, headers={"Accept": "*/*"})
    assert html.headers["content-type"].startswith("text/html")
    assert "<h1>404 Not Found</h1>" in html.text


async def test_version_2_1_adds_replaces_and_removes(gallery: Gallery) -> None:
    image_id = await gallery.make(os_distro="cirros")
    answer = await gallery.patch(
        image_id,
        {"op": "add", "path": "/hw_disk_bus", "value": "scsi"},
        {"op": "add", "path": "/os_distro", "value": "debian"},
        {"op": "replace", "path": "/name", "value": "debian"},
        {"op": "replace", "path": "/tags", "value": ["x"]},
        {"op": "add", "path": "/a~1b~0c", "value": "odd"},
        {"op": "add", "path": "/min_disk", "value": 3},
    )
    shown = answer.json()
    assert answer.status_code == 200, answer.text
    assert (shown["os_distro"], shown["hw_disk_bus"], shown["a/b~c"]) == ("debian", "scsi", "odd")
    assert (shown["name"], shown["tags"], shown["min_disk"]) == ("debian", ["x"], 3)
    answer = await gallery.patch(image_id, {"op": "remove", "path": "/hw_disk_bus"})
    assert "hw_disk_bus" not in answer.json()


async def test_version_2_0_does_the_same(gallery: Gallery) -> None:
    image_id = await gallery.make(os_distro="cirros")
    changes = (
        {"replace": "/name", "value": "debian"},
        {"add": "/hw_disk_bus", "value": "scsi"},
        {"remove": "/os_distro"},
    )
    shown = (await gallery.patch(image_id, *changes, media=PATCH_20)).json()
    assert (shown["name"], shown["hw_disk_bus"]) == ("debian", "scsi")
    assert "os_distro" not in shown


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"op": "replace", "path": "/nothing", "value": "x"}, 409),
        ({"op": "remove", "path": "/nothing"}, 409),
        ({"op": "remove", "path": "/name"}, 403),
        ({"op": "replace", "path": "/status", "value": "active"}, 403),
        ({"op": "replace", "path": "/id", "value": "x"}, 403),
        ({"op": "add", "path": "/os_glance_x", "value": "x"}, 403),
        ({"op": "replace", "path": "/visibility", "value": "public"}, 403),
        ({"op": "replace", "path": "/owner", "value": OTHER_PROJECT}, 403),
        ({"op": "replace", "path": "/disk_format", "value": "qcow2"}, 403),
        ({"op": "add", "path": "/locations", "value": []}, 403),
        ({"op": "add", "path": "/number", "value": 7}, 400),
        ({"op": "add", "path": "/number"}, 400),
        ({"op": "move", "path": "/name"}, 400),
        ({"op": "add", "path": "name", "value": "x"}, 400),
        ({"op": "add", "path": "/a~2", "value": "x"}, 400),
        ({"path": "/name", "value": "x"}, 400),
    ],
)
async def test_a_change_that_may_not_be_changes_nothing(
    gallery: Gallery, change: dict[str, Any], status: int
) -> None:
    image_id = await gallery.filled()
    before = await gallery.show(image_id)
    first = {"op": "replace", "path": "/name", "value": "other"}
    assert (await gallery.patch(image_id, first, change)).status_code == status
    assert await gallery.show(image_id) == before


async def test_another_content_type_is_415(gallery: Gallery) -> None:
    image_id = await gallery.make()
    answer = await gallery.patch(image_id, media="application/json")
    assert answer.status_code == 415
    assert "v2.1-json-patch" in answer.text
    assert "v2.0-json-patch" in answer.text


async def test_a_protected_image_stays(gallery: Gallery) -> None:
    image_id = await gallery.filled(protected=True)
    assert (await gallery.ask("DELETE", f"/images/{image_id}")).status_code == 403
    assert len(gallery.files()) == 1
    await gallery.patch(image_id, {"op": "replace", "path": "/protected", "value": False})
    assert (await gallery.ask("DELETE", f"/images/{image_id}")).status_code == 204
    assert gallery.files() == []
    assert (await gallery.ask("GET", f"/images/{image_id}")).status_code == 404
    assert (await gallery.ask("DELETE", f"/images/{image_id}")).status_code == 404


async def test_tags_come_and_go(gallery: Gallery) -> None:
    image_id = await gallery.make()
    for tag in ("red", "red", "blue"):
        assert (await gallery.ask("PUT", f"/images/{image_id}/tags/{tag}")).status_code == 204
    assert (await gallery.show(image_id))["tags"] == ["blue", "red"]
    assert (await gallery.ask("DELETE", f"/images/{image_id}/tags/red")).status_code == 204
    assert (await gallery.ask("DELETE", f"/images/{image_id}/tags/red")).status_code == 404
    assert (await gallery.show(image_id))["tags"] == ["blue"]


async def test_a_deactivated_image_is_not_read(gallery: Gallery) -> None:
    queued, image_id = await gallery.make(), await gallery.filled()
    assert (await gallery.ask("POST", f"/images/{queued}/actions/deactivate")).status_code == 403
    for _ in range(2):
        path = f"/images/{image_id}/actions/deactivate"
        assert (await gallery.ask("POST", path)).status_code == 204
    assert (await gallery.show(image_id))["status"] == "deactivated"
    assert (await gallery.ask("GET", f"/images/{image_id}/file")).status_code == 403
    assert (await gallery.ask("GET", f"/images/{image_id}/file", who="admin")).status_code == 200
    path = f"/images/{image_id}/actions/reactivate"
    assert (await gallery.ask("POST", path)).status_code == 204
    assert (await gallery.ask("GET", f"/images/{image_id}/file")).status_code == 200


async def test_an_image_is_shared_accepted_and_taken_back(gallery: Gallery) -> None:
    image_id = await gallery.make()
    path = f"/images/{image_id}/members"
    added = await gallery.ask("POST", path, {"member": OTHER_PROJECT})
    assert (added.status_code, added.json()["status"]) == (200, "pending")
    assert (await gallery.ask("POST", path, {"member": OTHER_PROJECT})).status_code == 409
    assert (await gallery.ask("GET", f"/images/{image_id}", who="stranger")).status_code == 200
    listed = (await gallery.ask("GET", "/images", who="stranger")).json()
    assert listed["images"] == []
    mine = f"{path}/{OTHER_PROJECT}"
    accept = {"status": "accepted"}
    assert (await gallery.ask("PUT", mine, accept)).status_code == 403
    assert (await gallery.ask("PUT", mine, {"status": "maybe"}, who="stranger")).status_code == 400
    assert (await gallery.ask("PUT", mine, accept, who="stranger")).json()["status"] == "accepted"
    listed = (await gallery.ask("GET", "/images", who="stranger")).json()
    assert [each["id"] for each in listed["images"]] == [image_id]
    members = (await gallery.ask("GET", path, who="stranger")).json()["members"]
    assert [each["member_id"] for each in members] == [OTHER_PROJECT]
    assert (await gallery.ask("GET", f"{path}/nobody", who="stranger")).status_code == 404
    assert (await gallery.ask("DELETE", mine, who="stranger")).status_code == 403
    assert (await gallery.ask("DELETE", mine)).status_code == 204
    assert (await gallery.ask("DELETE", mine)).status_code == 404
    assert (await gallery.ask("GET", f"/images/{image_id}", who="stranger")).status_code == 404


async def test_one_member_does_not_see_the_others(gallery: Gallery) -> None:
    image_id = await gallery.make(visibility="shared")
    path, third = f"/images/{image_id}/members", "0" * 32
    for project_id in (OTHER_PROJECT, third):
        assert (await gallery.ask("POST", path, {"member": project_id})).status_code == 200
    to_owner = (await gallery.ask("GET", path)).json()["members"]
    assert {each["member_id"] for each in to_owner} == {OTHER_PROJECT, third}
    to_member = (await gallery.ask("GET", path, who="stranger")).json()["members"]
    assert [each["member_id"] for each in to_member] == [OTHER_PROJECT]


async def test_only_a_shared_image_has_members(gallery: Gallery) -> None:
    image_id = await gallery.make(visibility="private")
    answer = await gallery.ask("POST", f"/images/{image_id}/members", {"member": OTHER_PROJECT})
    assert answer.status_code == 403


async def test_schemas_tell_what_nova_and_glanceclient_need(gallery: Gallery) -> None:
    schema = (await gallery.ask("GET", "/schemas/image")).json()
    assert schema["properties"]["disk_format"]["enum"][-1] == "ploop"
    assert "qcow2" in schema["properties"]["disk_format"]["enum"]
    assert schema["properties"]["status"]["readOnly"] is True
    assert schema["additionalProperties"] == {"type": "string"}
    image_id = await gallery.make()
    assert set(await gallery.show(image_id)) <= set(schema["properties"])
    for name in ("images", "member", "members"):
        assert (await gallery.ask("GET", f"/schemas/{name}")).json()["name"] == name
    assert (await gallery.ask("GET", "/schemas/other")).status_code == 404


async def test_what_is_not_offered_is_said(gallery: Gallery) -> None:
    answer = await gallery.ask("GET", "/info/import")
    assert answer.json()["import-methods"]["value"] == []
    assert (await gallery.ask("GET", "/info/stores")).status_code == 404
