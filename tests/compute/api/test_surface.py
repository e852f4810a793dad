"""What the whole surface has in common: documents, rules, and resources that list empty."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.compute import app
from mooring.compute.policy import RULES
from tests.compute.api.cloud import ComputeAlone, fault_of

pytestmark = pytest.mark.anyio

NOBODY = "22222222-2222-4222-8222-222222222222"
ROUTES = [route for api in app.SERVICE.apis for route in api.routes]


async def test_the_version_document_needs_no_token(cloud: ComputeAlone) -> None:
    answer = await cloud.ask("GET", "/compute/v2.1/", user="")
    version = answer.body["version"]
    assert (answer.status, version["min_version"], version["version"]) == (
        200,
        "2.1",
        "2.106",
    )


async def test_a_call_without_a_token_is_401(cloud: ComputeAlone) -> None:
    assert (await cloud.ask("GET", "/servers", user="nobody")).status == 401


def test_every_route_asks_a_rule_that_exists() -> None:
    assert {route.policy for route in ROUTES if route.policy} <= set(RULES)


async def test_what_the_cloud_has_none_of_lists_empty(cloud: ComputeAlone) -> None:
    assert await cloud.get("/os-migrations", user="admin") == {"migrations": []}


async def test_extensions_are_listed_and_shown(cloud: ComputeAlone) -> None:
    listed = (await cloud.get("/extensions", user="admin"))["extensions"]
    assert {"os-services", "os-shelve"} <= {one["alias"] for one in listed}
    assert (await cloud.get("/extensions/os-shelve"))["extension"] in listed
    answer = await cloud.ask("GET", f"/extensions/{NOBODY}", user="admin")
    assert fault_of(answer)[:2] == (404, "itemNotFound")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/ips", {"addresses": {}}),
        ("/os-interface", {"interfaceAttachments": []}),
        ("/os-security-groups", {"security_groups": []}),
        ("/migrations", {"migrations": []}),
        ("/os-volume_attachments", {"volumeAttachments": []}),
    ],
)
async def test_what_a_server_has_none_of_lists_empty(
    cloud: ComputeAlone, path: str, body: dict[str, object]
) -> None:
    server_id = await cloud.server()
    assert await cloud.get(f"/servers/{server_id}{path}", version="2.23", user="admin") == body
    answer = await cloud.ask("GET", f"/servers/{NOBODY}{path}", version="2.23", user="admin")
    assert fault_of(answer)[:2] == (404, "itemNotFound")


async def test_what_is_not_built_is_501(cloud: ComputeAlone) -> None:
    path = f"/servers/{await cloud.server()}/diagnostics"
    answer = await cloud.ask("GET", path, version="2.6", user="admin")
    assert fault_of(answer)[:2] == (501, "notImplemented")


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/nothing", 404),
        ("PATCH", "/servers", 405),
        ("DELETE", "/servers", 405),
        ("GET", "/os-volumes", 501),
        ("GET", "/servers/{server_id}/os-interface/x", 404),
        ("DELETE", "/servers/{server_id}/os-interface/x", 404),
        ("POST", "/servers/{server_id}/os-interface", 400),
    ],
)
async def test_what_does_not_exist_is_refused(
    cloud: ComputeAlone, method: str, path: str, code: int
) -> None:
    path = path.format(server_id=await cloud.server())
    body: Any = {} if method in {"POST", "PATCH"} else None
    assert (await cloud.ask(method, path, body)).status == code


async def test_another_content_type_is_415(cloud: ComputeAlone) -> None:
    headers = {"content-type": "text/plain"}
    answer = await cloud.ask("POST", "/servers", cloud.new(), headers=headers)
    assert answer.status == 415


@pytest.mark.parametrize("path", ["os-networks", "os-floating-ips", "os-security-groups"])
async def test_networks_were_told_of_up_to_235(cloud: ComputeAlone, path: str) -> None:
    key = path.removeprefix("os-").replace("-", "_")
    found = (await cloud.get(f"/{path}", version="2.35"))[key]
    assert [one["name"] for one in found] == (["default"] if "group" in path else [])
    for one in found:
        assert (await cloud.get(f"/{path}/{one['id']}"))[key.removesuffix("s")] == one
    assert fault_of(await cloud.ask("GET", f"/{path}/nope"))[:2] == (404, "itemNotFound")
    made = await cloud.ask("POST", f"/{path}", {"x": {}}, user="admin")
    assert fault_of(made)[:2] == (501, "notImplemented")
    assert (await cloud.ask("GET", f"/{path}", version="2.36")).status == 404
