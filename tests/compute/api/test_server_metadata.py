from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.callers import PROJECT
from tests.compute.api.cloud import URL, ComputeAlone, fault_of

pytestmark = pytest.mark.anyio


async def test_metadata_is_added_replaced_and_removed(cloud: ComputeAlone) -> None:
    path = f"/servers/{await cloud.server()}/metadata"
    for method, items, now in (
        ("POST", {"a": "1", "b": "2"}, {"a": "1", "b": "2"}),
        ("POST", {"b": "3", "c": "4"}, {"a": "1", "b": "3", "c": "4"}),
        ("PUT", {"d": "5"}, {"d": "5"}),
        ("PUT", {}, {}),
    ):
        answer = await cloud.ask(method, path, {"metadata": items})
        assert (answer.status, answer.body) == (200, {"metadata": now})
        assert await cloud.get(path) == {"metadata": now}
    answer = await cloud.ask("PUT", f"{path}/k", {"meta": {"k": "v"}})
    assert answer.body == {"meta": {"k": "v"}}
    assert await cloud.get(f"{path}/k") == {"meta": {"k": "v"}}
    assert (await cloud.ask("DELETE", f"{path}/k")).status == 204
    for method in ("GET", "DELETE"):
        assert fault_of(await cloud.ask(method, f"{path}/k"))[:2] == (404, "itemNotFound")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "", {}),
        ("POST", "", {"metadata": {"a": None}}),
        ("POST", "", {"metadata": {"": "x"}}),
        ("POST", "", {"metadata": {"a": "x" * 256}}),
        ("PUT", "", {"metadata": {"a/b": "x"}}),
        ("PUT", "/k", {"meta": {"other": "v"}}),
        ("PUT", "/k", {"meta": {"k": "v", "l": "w"}}),
        ("PUT", "/k", {"metadata": {"k": "v"}}),
    ],
)
async def test_bad_metadata_is_400(cloud: ComputeAlone, method: str, path: str, body: Any) -> None:
    server_id = await cloud.server()
    answer = await cloud.ask(method, f"/servers/{server_id}/metadata{path}", body)
    assert fault_of(answer)[:2] == (400, "badRequest")


async def test_metadata_over_quota_is_403(cloud: ComputeAlone) -> None:
    limit = {"quota_set": {"metadata_items": 1}}
    await cloud.ask("PUT", f"/os-quota-sets/{PROJECT}", limit, user="admin")
    path = f"/servers/{await cloud.server()}/metadata"
    assert (await cloud.ask("POST", path, {"metadata": {"a": "1"}})).status == 200
    assert fault_of(await cloud.ask("POST", path, {"metadata": {"b": "2"}}))[0] == 403
    assert await cloud.get(path) == {"metadata": {"a": "1"}}


@pytest.mark.parametrize("change", [{"vm_state": "building"}, {"task_state": "deleting"}])
async def test_metadata_of_a_busy_server_is_409(
    cloud: ComputeAlone, change: dict[str, str]
) -> None:
    path = f"/servers/{await cloud.server(**change)}/metadata"
    answer = await cloud.ask("POST", path, {"metadata": {"a": "1"}})
    assert fault_of(answer)[:2] == (409, "conflictingRequest")


async def test_metadata_of_a_locked_server_is_409_and_its_tags_are_free(
    cloud: ComputeAlone,
) -> None:
    server_id = await cloud.server(locked_by="owner")
    answer = await cloud.ask("POST", f"/servers/{server_id}/metadata", {"metadata": {"a": "1"}})
    assert fault_of(answer)[0] == 409
    tagged = await cloud.ask("PUT", f"/servers/{server_id}/tags/red", version="2.26")
    assert tagged.status == 201


async def test_tags_are_added_replaced_and_removed(cloud: ComputeAlone) -> None:
    server_id = await cloud.server()
    path = f"/servers/{server_id}/tags"
    added = await cloud.ask("PUT", f"{path}/red", version="2.26")
    assert (added.status, added.content) == (201, b"")
    assert added.headers["location"] == f"{URL}/v2.1/servers/{server_id}/tags/red"
    assert (await cloud.ask("PUT", f"{path}/red", version="2.26")).status == 204
    assert (await cloud.ask("GET", f"{path}/red", version="2.26")).status == 204
    assert (await cloud.ask("GET", f"{path}/blue", version="2.26")).status == 404
    replaced = await cloud.ask("PUT", path, {"tags": ["b", "a", "b"]}, version="2.26")
    assert replaced.body == {"tags": ["a", "b"]}
    assert (await cloud.ask("DELETE", f"{path}/a", version="2.26")).status == 204
    assert (await cloud.ask("DELETE", f"{path}/a", version="2.26")).status == 404
    assert await cloud.get(path, version="2.26") == {"tags": ["b"]}
    assert (await cloud.ask("DELETE", path, version="2.26")).status == 204
    assert await cloud.get(path, version="2.26") == {"tags": []}


@pytest.mark.parametrize("tag", ["\u20ac", "100%", "a b", "\r\nx: 1"])
async def test_a_tag_of_any_letters_is_added_and_named_in_the_answer(
    cloud: ComputeAlone, tag: str
) -> None:
    path = f"/servers/{await cloud.server()}/tags"
    added = await cloud.ask("PUT", f"{path}/{quote(tag, safe='')}", version="2.26")
    assert added.status == 201
    named = added.headers["location"].removeprefix(f"{URL}/v2.1")
    assert (await cloud.ask("GET", named, version="2.26")).status == 204
    assert await cloud.get(path, version="2.26") == {"tags": [tag]}


async def test_tags_came_with_226(cloud: ComputeAlone) -> None:
    path = f"/servers/{await cloud.server()}/tags"
    assert fault_of(await cloud.ask("GET", path, version="2.25"))[:2] == (404, "itemNotFound")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"tags": "red"},
        {"tags": [""]},
        {"tags": ["a,b"]},
        {"tags": ["x" * 61]},
        {"tags": [1]},
        {"tags": [str(number) for number in range(51)]},
    ],
)
async def test_bad_tags_are_400(cloud: ComputeAlone, body: Any) -> None:
    path = f"/servers/{await cloud.server()}/tags"
    assert fault_of(await cloud.ask("PUT", path, body, version="2.26"))[:2] == (400, "badRequest")


async def test_a_fifty_first_tag_is_400(cloud: ComputeAlone) -> None:
    path = f"/servers/{await cloud.server()}/tags"
    tags = {"tags": [str(number) for number in range(50)]}
    assert (await cloud.ask("PUT", path, tags, version="2.26")).status == 200
    for bad in ("one-more", "x" * 61, "a%2Cb"):
        answer = await cloud.ask("PUT", f"{path}/{bad}", version="2.26")
        assert fault_of(answer)[0] == 400
