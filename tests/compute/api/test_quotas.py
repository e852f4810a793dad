from __future__ import annotations

from typing import Any

import pytest

from tests.callers import OTHER_PROJECT, PROJECT
from tests.compute.api.desk import Desk, fault_of

pytestmark = pytest.mark.anyio

PATH = f"/os-quota-sets/{PROJECT}"
NETWORK = {"fixed_ips", "floating_ips", "networks", "security_group_rules", "security_groups"}
INJECTED = {"injected_files", "injected_file_content_bytes", "injected_file_path_bytes"}


async def change(desk: Desk, path: str = PATH, version: str = "2.1", **limits: Any) -> Any:
    body = {"quota_set": limits}
    return await desk.ask("PUT", path, body, version=version, who="admin")


async def test_the_usual_limits_hold(desk: Desk) -> None:
    found = (await desk.get(PATH, version="2.57"))["quota_set"]
    assert found == {
        "id": PROJECT,
        "cores": 20,
        "instances": 10,
        "key_pairs": 100,
        "metadata_items": 128,
        "ram": 51200,
        "server_group_members": 10,
        "server_groups": 10,
    }


@pytest.mark.parametrize(
    ("version", "more"),
    [("2.1", NETWORK | INJECTED), ("2.36", INJECTED), ("2.57", set[str]())],
)
async def test_later_versions_show_less(desk: Desk, version: str, more: set[str]) -> None:
    plain = set((await desk.get(PATH, version="2.57"))["quota_set"])
    assert set((await desk.get(PATH, version=version))["quota_set"]) == plain | more
    refused = await change(desk, version="2.57", injected_files=1)
    assert fault_of(refused)[:2] == (400, "badRequest")


async def test_a_project_gets_limits_of_its_own(desk: Desk) -> None:
    answer = await change(desk, cores=5, ram="1024", instances=-1)
    assert answer.status_code == 200, answer.text
    assert "id" not in answer.json()["quota_set"]
    found = (await desk.get(PATH))["quota_set"]
    assert (found["cores"], found["ram"], found["instances"]) == (5, 1024, -1)
    theirs = (await desk.get(f"/os-quota-sets/{OTHER_PROJECT}", who="admin"))["quota_set"]
    assert theirs["cores"] == 20
    assert (await desk.get(f"{PATH}/defaults"))["quota_set"]["cores"] == 20
    assert (await desk.ask("DELETE", PATH, who="admin")).status_code == 202
    assert (await desk.get(PATH))["quota_set"]["cores"] == 20


@pytest.mark.parametrize("bad", [{"cores": "x"}, {"cores": -2}, {"cores": 2**31}, {"beer": 1}])
async def test_bad_limits_are_400(desk: Desk, bad: dict[str, Any]) -> None:
    assert fault_of(await change(desk, **bad))[:2] == (400, "badRequest")


async def test_a_limit_below_what_is_used_needs_force(desk: Desk) -> None:
    await desk.server()
    await desk.server()
    assert "already used" in fault_of(await change(desk, instances=1))[2]
    forced = await change(desk, instances=1, force=True)
    assert forced.json()["quota_set"]["instances"] == 1


async def test_usage_is_shown_with_the_limits(desk: Desk) -> None:
    await desk.server(vcpus=2, memory_mib=1024)
    found = (await desk.get(f"{PATH}/detail"))["quota_set"]
    assert found["cores"] == {"limit": 20, "in_use": 2, "reserved": 0}
    assert found["ram"] == {"limit": 51200, "in_use": 1024, "reserved": 0}


async def test_other_projects_are_for_administrators(desk: Desk) -> None:
    for path in (f"/os-quota-sets/{OTHER_PROJECT}", f"/limits?tenant_id={OTHER_PROJECT}"):
        assert fault_of(await desk.ask("GET", path))[:2] == (403, "forbidden")
        assert (await desk.ask("GET", path, who="admin")).status_code == 200
    for method in ("PUT", "DELETE"):
        body = {"quota_set": {"cores": 1}} if method == "PUT" else None
        assert fault_of(await desk.ask(method, PATH, body))[:2] == (403, "forbidden")


async def test_the_default_class_changes_every_project(desk: Desk) -> None:
    path, body = "/os-quota-class-sets/default", {"quota_class_set": {"cores": 7}}
    answer = await desk.ask("PUT", path, body, version="2.57", who="admin")
    assert answer.json()["quota_class_set"]["cores"] == 7
    assert (await desk.get(PATH))["quota_set"]["cores"] == 7
    shown = await desk.get(path, version="2.57", who="admin")
    assert (shown["quota_class_set"]["id"], shown["quota_class_set"]["cores"]) == ("default", 7)
    other = await desk.ask("PUT", "/os-quota-class-sets/gold", body, who="admin")
    assert fault_of(other)[0] == 400


@pytest.mark.parametrize(
    ("version", "gone"),
    [
        ("2.36", {"maxSecurityGroups", "totalFloatingIpsUsed"}),
        ("2.39", {"maxImageMeta"}),
        ("2.57", {"maxPersonality", "maxPersonalitySize"}),
    ],
)
async def test_limits_lose_what_they_lost(desk: Desk, version: str, gone: set[str]) -> None:
    before = (await desk.get("/limits"))["limits"]["absolute"]
    after = (await desk.get("/limits", version=version))["limits"]["absolute"]
    assert gone <= set(before)
    assert not gone & set(after)


async def test_limits_show_what_is_used(desk: Desk) -> None:
    await desk.server()
    found = (await desk.get("/limits?reserved=1", version="2.57"))["limits"]
    assert found["rate"] == []
    assert found["absolute"]["totalInstancesUsed"] == 1
    assert found["absolute"]["totalRAMUsed"] == 512
    assert found["absolute"]["maxTotalInstances"] == 10
    odd = await desk.ask("GET", "/limits?odd=1", version="2.75")
    assert fault_of(odd)[0] == 400
