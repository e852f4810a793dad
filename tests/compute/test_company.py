"""Servers that are to be with others, or not: the scheduler hints same_host and different_host."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.settings import Role
from tests.compute.cloud import IMAGE, ComputeCloud

pytestmark = pytest.mark.anyio
_HOSTS = ("host1", "host2", "host3")
_ROLES: dict[str, tuple[Role, ...]] = {
    "host1": ("compute", "volume"),
    "host2": ("compute",),
    "host3": ("compute",),
}
_HOST = "OS-EXT-SRV-ATTR:host"
_NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncGenerator[ComputeCloud]:
    """Three hosts for servers."""
    async with ComputeCloud(tmp_path, hosts=_HOSTS, roles=_ROLES) as opened:
        yield opened


async def _make(cloud: ComputeCloud, user: str = "member", **hints: Any) -> dict[str, Any]:
    server = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}
    body = {"server": server, "os:scheduler_hints": hints}
    answer = await cloud.ask("POST", "/servers", body, user=user)
    assert answer.status == 202, answer.text
    await cloud.settle()
    return await cloud.server(answer.body["server"]["id"])


async def test_servers_are_where_another_one_is(cloud: ComputeCloud) -> None:
    first = await _make(cloud)
    for named in (first["id"], [first["id"]], [_NOBODY, first["id"]]):
        assert (await _make(cloud, same_host=named))[_HOST] == first[_HOST]


async def test_servers_are_where_others_are_not(cloud: ComputeCloud) -> None:
    first = await _make(cloud)
    second = await _make(cloud, different_host=first["id"])
    third = await _make(cloud, different_host=[first["id"], second["id"]])
    assert {one[_HOST] for one in (first, second, third)} == set(_HOSTS)
    named = [one["id"] for one in (first, second, third)]
    fault = (await _make(cloud, different_host=named))["fault"]["message"]
    assert fault == ("No valid host was found. 3 hosts: 3 with a server that it is not to be with.")


async def test_servers_that_are_nowhere_are_in_nobodys_company(cloud: ComputeCloud) -> None:
    fault = (await _make(cloud, same_host=_NOBODY))["fault"]["message"]
    assert fault == "No valid host was found. 3 hosts: 3 without a server that it is to be with."
    assert (await _make(cloud, different_host=_NOBODY))["status"] == "ACTIVE"


async def test_an_empty_list_asks_for_nothing(cloud: ComputeCloud) -> None:
    assert (await _make(cloud, same_host=[], different_host=[]))["status"] == "ACTIVE"


async def test_nobody_learns_where_the_servers_of_others_are(cloud: ComputeCloud) -> None:
    first = await _make(cloud)
    assert (await _make(cloud, user="stranger", same_host=first["id"]))["status"] == "ERROR"


async def test_a_move_keeps_to_them(cloud: ComputeCloud) -> None:
    first = await _make(cloud)
    second = await _make(cloud, different_host=first["id"])
    assert await cloud.act(second["id"], "migrate", user="admin") == 202
    await cloud.settle()
    moved = await cloud.server(second["id"])
    assert moved["status"] == "VERIFY_RESIZE"
    assert moved[_HOST] not in {first[_HOST], second[_HOST]}


@pytest.mark.parametrize("hint", ["same_host", "different_host"])
@pytest.mark.parametrize("named", ["web1", 7, ["web1"], {"id": _NOBODY}, [[_NOBODY]]])
async def test_what_names_no_server_is_400(cloud: ComputeCloud, hint: str, named: Any) -> None:
    server = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}
    body = {"server": server, "os:scheduler_hints": {hint: named}}
    answer = await cloud.ask("POST", "/servers", body)
    assert answer.status == 400
    assert hint in answer.text
    assert (await cloud.ask("GET", "/servers")).body["servers"] == []
