"""What is above and below a project where there are no trees, and the tags of domains."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.identity.cloud import IdentityCloud

pytestmark = pytest.mark.anyio


@pytest.fixture
async def any_cloud(database: str, tmp_path: Path) -> AsyncIterator[IdentityCloud]:
    async with IdentityCloud(tmp_path, database=database) as opened:
        yield opened


@pytest.mark.parametrize(
    ("query", "more"),
    [
        ("parents_as_list", {"parents": []}),
        ("parents_as_ids", {"parents": {"default": None}}),
        ("subtree_as_list", {"subtree": []}),
        ("subtree_as_ids=True", {"subtree": None}),
        ("parents_as_ids&subtree_as_list=1", {"parents": {"default": None}, "subtree": []}),
        ("parents_as_ids=0&parents_as_list", {"parents": []}),
    ],
)
async def test_a_project_has_its_domain_above_it_and_nothing_below(
    any_cloud: IdentityCloud, query: str, more: dict[str, Any]
) -> None:
    path = f"/projects/{await any_cloud.id_of('projects', 'demo')}"
    plain = (await any_cloud.get(path))["project"]
    assert (await any_cloud.get(f"{path}?{query}"))["project"] == plain | more


@pytest.mark.parametrize("what", ["parents", "subtree"])
async def test_a_list_and_ids_at_once_are_400(any_cloud: IdentityCloud, what: str) -> None:
    path = f"/projects/{await any_cloud.id_of('projects', 'demo')}"
    answer = await any_cloud.ask("GET", f"{path}?{what}_as_list&{what}_as_ids", user="admin")
    assert answer.status == 400, answer.text


async def test_a_domain_keeps_its_tags(any_cloud: IdentityCloud) -> None:
    body = {"domain": {"name": "blue", "tags": ["b", "a", "b"]}}
    made = await any_cloud.make("/domains", body)
    assert made["tags"] == ["a", "b"]
    path = f"/domains/{made['id']}"
    renamed = await any_cloud.ask("PATCH", path, {"domain": {"name": "sea"}}, user="admin")
    assert renamed.body["domain"]["tags"] == ["a", "b"]
    marked = await any_cloud.ask("PATCH", path, {"domain": {"tags": ["c"]}}, user="admin")
    assert marked.body["domain"]["tags"] == ["c"]
    assert (await any_cloud.get(path))["domain"]["tags"] == ["c"]
    assert (await any_cloud.get("/domains/default"))["domain"]["tags"] == []


async def test_tags_of_a_domain_that_make_no_sense_are_400(any_cloud: IdentityCloud) -> None:
    for tags in ("a", ["a,b"], [""], None, ["x"] * 81):
        body = {"domain": {"name": "blue", "tags": tags}}
        answer = await any_cloud.ask("POST", "/domains", body, user="admin")
        assert answer.status == 400, answer.text


async def test_a_project_is_marked_with_each_tag_once(any_cloud: IdentityCloud) -> None:
    path = f"/projects/{await any_cloud.id_of('projects', 'demo')}"
    body = {"project": {"tags": ["b", "a", "b"]}}
    answer = await any_cloud.ask("PATCH", path, body, user="admin")
    assert answer.body["project"]["tags"] == ["a", "b"]
