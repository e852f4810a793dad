from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mooring import limits
from mooring.clients.image import NewImage
from mooring.fence.operation import Operation
from tests.cloud import URL
from tests.image.cloud import OTHER_PROJECT, PATCH_20, PROJECT, ImageCloud

pytestmark = pytest.mark.anyio


async def test_a_new_image_is_queued_and_shared_with_nobody(cloud: ImageCloud) -> None:
    body = {"name": "cirros", "hw_disk_bus": "virtio", "tags": ["b", "a", "b"], "min_disk": 1}
    answer = await cloud.ask("POST", "/images", body)
    shown = answer.body
    assert answer.status == 201
    assert answer.headers["location"] == f"{URL}/image/v2/images/{shown['id']}"
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


async def test_an_id_may_be_chosen_once(cloud: ImageCloud) -> None:
    image_id = str(uuid4())
    assert (await cloud.ask("POST", "/images", {"id": image_id})).status == 201
    assert (await cloud.ask("POST", "/images", {"id": image_id})).status == 409
    assert (await cloud.ask("POST", "/images", {"id": "seven"})).status == 400
    assert (await cloud.ask("POST", "/images", {"id": "../../etc/passwd"})).status == 400


async def test_two_operations_make_images_whichever_took_its_lock_first(cloud: ImageCloud) -> None:
    for generation in (9, 8):
        new = NewImage(id=str(uuid4()), name="picture", disk_format="raw")
        operation = Operation(str(uuid4()), "create_record", 1, generation)
        made = await cloud.client.create(None, new, operation=operation)
        assert (made.id, made.status) == (new.id, "queued")


@pytest.mark.parametrize("user", ["member", "stranger", "admin"])
async def test_the_id_of_a_deleted_image_is_nobody_s_any_more(cloud: ImageCloud, user: str) -> None:
    image_id = str(uuid4())
    await cloud.filled(id=image_id)
    assert (await cloud.ask("DELETE", f"/images/{image_id}")).status == 204
    answer = await cloud.ask("POST", "/images", {"id": image_id, "name": "mine"}, user=user)
    assert answer.status == 409
    assert "was that of an image before" in answer.text
    assert (await cloud.ask("GET", f"/images/{image_id}", user=user)).status == 404


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
    cloud: ImageCloud, body: dict[str, Any], status: int
) -> None:
    assert (await cloud.ask("POST", "/images", body)).status == status


async def test_an_administrator_may_publish_and_make_for_others(cloud: ImageCloud) -> None:
    body = {"visibility": "public", "owner": OTHER_PROJECT}
    answer = await cloud.ask("POST", "/images", body, user="admin")
    assert answer.status == 201
    assert answer.body["owner"] == OTHER_PROJECT


async def test_a_reader_may_look_and_not_write(cloud: ImageCloud) -> None:
    image_id = await cloud.make()
    assert (await cloud.ask("GET", f"/images/{image_id}", user="reader")).status == 200
    assert (await cloud.ask("POST", "/images", {}, user="reader")).status == 403
    assert (await cloud.upload(image_id, b"x", user="reader")).status == 403
    assert (await cloud.ask("DELETE", f"/images/{image_id}", user="reader")).status == 403


async def test_what_others_own_is_not_there_unless_it_is_open(cloud: ImageCloud) -> None:
    for visibility, status in {"private": 404, "shared": 404, "community": 200}.items():
        image_id = await cloud.make(visibility=visibility)
        answer = await cloud.ask("GET", f"/images/{image_id}", user="stranger")
        assert answer.status == status, visibility
        deleted = await cloud.ask("DELETE", f"/images/{image_id}", user="stranger")
        assert deleted.status == (403 if status == 200 else 404)
    assert (await cloud.ask("GET", "/images/cirros")).status == 404


async def test_faults_are_json_for_those_who_show_it_and_html_for_others(
    cloud: ImageCloud,
) -> None:
    path = f"/images/{uuid4()}"
    json = await cloud.ask("GET", path, headers={"Accept": "application/json"})
    assert json.body["code"] == "404 Not Found"
    assert json.body["title"] == "Not Found"
    html = await cloud.ask("GET", path, headers={"Accept": "*/*"})
    assert html.headers["content-type"].startswith("text/html")
    assert "<h1>404 Not Found</h1>" in html.text


async def test_what_clients_print_of_a_fault_has_apostrophes_and_no_marks(
    cloud: ImageCloud,
) -> None:
    body = {"name": "<b>", "disk_format": "raw", "container_format": "bare", "visibility": "public"}
    refused = await cloud.ask("POST", "/images", body, headers={"Accept": "*/*"})
    assert (refused.status, "Policy doesn't allow" in refused.text) == (403, True)
    body |= {"visibility": "shared", "disk_format": "<b>raw</b>"}
    refused = await cloud.ask("POST", "/images", body, headers={"Accept": "*/*"})
    assert (refused.status, "<b>" in refused.text) == (400, False)


async def test_version_2_1_adds_replaces_and_removes(cloud: ImageCloud) -> None:
    image_id = await cloud.make(os_distro="cirros")
    answer = await cloud.patch(
        image_id,
        {"op": "add", "path": "/hw_disk_bus", "value": "scsi"},
        {"op": "add", "path": "/os_distro", "value": "debian"},
        {"op": "replace", "path": "/name", "value": "debian"},
        {"op": "replace", "path": "/tags", "value": ["x"]},
        {"op": "add", "path": "/a~1b~0c", "value": "odd"},
        {"op": "add", "path": "/min_disk", "value": 3},
    )
    shown = answer.body
    assert answer.status == 200, answer.text
    assert (shown["os_distro"], shown["hw_disk_bus"], shown["a/b~c"]) == ("debian", "scsi", "odd")
    assert (shown["name"], shown["tags"], shown["min_disk"]) == ("debian", ["x"], 3)
    answer = await cloud.patch(image_id, {"op": "remove", "path": "/hw_disk_bus"})
    assert "hw_disk_bus" not in answer.body


async def test_version_2_0_does_the_same(cloud: ImageCloud) -> None:
    image_id = await cloud.make(os_distro="cirros")
    changes = (
        {"replace": "/name", "value": "debian"},
        {"add": "/hw_disk_bus", "value": "scsi"},
        {"remove": "/os_distro"},
    )
    shown = (await cloud.patch(image_id, *changes, media=PATCH_20)).body
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
    cloud: ImageCloud, change: dict[str, Any], status: int
) -> None:
    image_id = await cloud.filled()
    before = await cloud.show(image_id)
    first = {"op": "replace", "path": "/name", "value": "other"}
    assert (await cloud.patch(image_id, first, change)).status == status
    assert await cloud.show(image_id) == before


async def test_another_content_type_is_415(cloud: ImageCloud) -> None:
    image_id = await cloud.make()
    answer = await cloud.patch(image_id, media="application/json")
    assert answer.status == 415
    for said in (answer.text, answer.headers["accept-patch"]):
        assert "v2.1-json-patch" in said
        assert "v2.0-json-patch" in said


async def test_a_protected_image_stays(cloud: ImageCloud) -> None:
    image_id = await cloud.filled(protected=True)
    assert (await cloud.ask("DELETE", f"/images/{image_id}")).status == 403
    assert len(cloud.files()) == 1
    await cloud.patch(image_id, {"op": "replace", "path": "/protected", "value": False})
    assert (await cloud.ask("DELETE", f"/images/{image_id}")).status == 204
    assert cloud.files() == []
    assert (await cloud.ask("GET", f"/images/{image_id}")).status == 404
    assert (await cloud.ask("DELETE", f"/images/{image_id}")).status == 404


async def test_tags_come_and_go(cloud: ImageCloud) -> None:
    image_id = await cloud.make()
    for tag in ("red", "red", "blue"):
        assert (await cloud.ask("PUT", f"/images/{image_id}/tags/{tag}")).status == 204
    assert (await cloud.show(image_id))["tags"] == ["blue", "red"]
    assert (await cloud.ask("DELETE", f"/images/{image_id}/tags/red")).status == 204
    assert (await cloud.ask("DELETE", f"/images/{image_id}/tags/red")).status == 404
    assert (await cloud.show(image_id))["tags"] == ["blue"]


async def test_a_deactivated_image_is_not_read(cloud: ImageCloud) -> None:
    queued, image_id = await cloud.make(), await cloud.filled()
    assert (await cloud.ask("POST", f"/images/{queued}/actions/deactivate")).status == 403
    for _ in range(2):
        path = f"/images/{image_id}/actions/deactivate"
        assert (await cloud.ask("POST", path)).status == 204
    assert (await cloud.show(image_id))["status"] == "deactivated"
    assert (await cloud.ask("GET", f"/images/{image_id}/file")).status == 403
    assert (await cloud.ask("GET", f"/images/{image_id}/file", user="admin")).status == 200
    path = f"/images/{image_id}/actions/reactivate"
    assert (await cloud.ask("POST", path)).status == 204
    assert (await cloud.ask("GET", f"/images/{image_id}/file")).status == 200


async def test_an_image_is_shared_accepted_and_taken_back(cloud: ImageCloud) -> None:
    image_id = await cloud.make()
    path = f"/images/{image_id}/members"
    added = await cloud.ask("POST", path, {"member": OTHER_PROJECT})
    assert (added.status, added.body["status"]) == (200, "pending")
    assert (await cloud.ask("POST", path, {"member": OTHER_PROJECT})).status == 409
    assert (await cloud.ask("GET", f"/images/{image_id}", user="stranger")).status == 200
    listed = (await cloud.ask("GET", "/images", user="stranger")).body
    assert listed["images"] == []
    mine = f"{path}/{OTHER_PROJECT}"
    accept = {"status": "accepted"}
    assert (await cloud.ask("PUT", mine, accept)).status == 403
    assert (await cloud.ask("PUT", mine, {"status": "maybe"}, user="stranger")).status == 400
    assert (await cloud.ask("PUT", mine, accept, user="stranger")).body["status"] == "accepted"
    listed = (await cloud.ask("GET", "/images", user="stranger")).body
    assert [each["id"] for each in listed["images"]] == [image_id]
    members = (await cloud.ask("GET", path, user="stranger")).body["members"]
    assert [each["member_id"] for each in members] == [OTHER_PROJECT]
    assert (await cloud.ask("GET", f"{path}/nobody", user="stranger")).status == 404
    assert (await cloud.ask("DELETE", mine, user="stranger")).status == 403
    assert (await cloud.ask("DELETE", mine)).status == 204
    assert (await cloud.ask("DELETE", mine)).status == 404
    assert (await cloud.ask("GET", f"/images/{image_id}", user="stranger")).status == 404


async def test_one_member_does_not_see_the_others(cloud: ImageCloud) -> None:
    image_id = await cloud.make(visibility="shared")
    path, third = f"/images/{image_id}/members", "0" * 32
    for project_id in (OTHER_PROJECT, third):
        assert (await cloud.ask("POST", path, {"member": project_id})).status == 200
    to_owner = (await cloud.ask("GET", path)).body["members"]
    assert {each["member_id"] for each in to_owner} == {OTHER_PROJECT, third}
    to_member = (await cloud.ask("GET", path, user="stranger")).body["members"]
    assert [each["member_id"] for each in to_member] == [OTHER_PROJECT]


async def test_one_member_does_not_accept_for_another(cloud: ImageCloud) -> None:
    image_id = await cloud.make(visibility="shared")
    path, third = f"/images/{image_id}/members", "0" * 32
    for project_id in (OTHER_PROJECT, third):
        assert (await cloud.ask("POST", path, {"member": project_id})).status == 200
    accept = {"status": "accepted"}
    assert (await cloud.ask("PUT", f"{path}/{third}", accept, user="stranger")).status == 403
    assert (await cloud.ask("GET", f"{path}/{third}")).body["status"] == "pending"


async def test_only_a_shared_image_has_members(cloud: ImageCloud) -> None:
    image_id = await cloud.make(visibility="private")
    answer = await cloud.ask("POST", f"/images/{image_id}/members", {"member": OTHER_PROJECT})
    assert answer.status == 403


async def test_schemas_tell_what_nova_and_glanceclient_need(cloud: ImageCloud) -> None:
    schema = (await cloud.ask("GET", "/schemas/image")).body
    assert schema["properties"]["disk_format"]["enum"][-1] == "ploop"
    assert "qcow2" in schema["properties"]["disk_format"]["enum"]
    assert schema["properties"]["status"]["readOnly"] is True
    assert schema["additionalProperties"] == {"type": "string"}
    image_id = await cloud.make()
    assert set(await cloud.show(image_id)) <= set(schema["properties"])
    for name in ("images", "member", "members"):
        assert (await cloud.ask("GET", f"/schemas/{name}")).body["name"] == name
    assert (await cloud.ask("GET", "/schemas/other")).status == 404


async def test_what_is_not_offered_is_said(cloud: ImageCloud) -> None:
    answer = await cloud.ask("GET", "/info/import")
    assert answer.body["import-methods"]["value"] == []
    assert (await cloud.ask("GET", "/info/stores")).status == 404


async def test_of_deletions_at_once_one_goes_well_and_the_others_find_nothing(
    tmp_path: Path, database: str
) -> None:
    async with ImageCloud(tmp_path, database=database) as cloud:
        for _ in range(4):
            path = f"/images/{await cloud.make()}"
            answers = await asyncio.gather(*(cloud.ask("DELETE", path) for _ in range(6)))
            assert sorted(answer.status for answer in answers) == [204, 404, 404, 404, 404, 404]


async def test_no_task_is_at_work_on_an_image(cloud: ImageCloud) -> None:
    """Clients that wait for an image's tasks to end have nothing to wait for."""
    image_id = (await cloud.ask("POST", "/images", {})).body["id"]
    answer = await cloud.ask("GET", f"/images/{image_id}/tasks")
    assert (answer.status, answer.body) == (200, {"tasks": []})
    assert (await cloud.ask("GET", f"/images/{image_id}/tasks", user="stranger")).status == 404
