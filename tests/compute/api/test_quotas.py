from __future__ import annotations

from typing import Any

import pytest

from tests.callers import OTHER_PROJECT, PROJECT
from tests.compute.api.cloud import ComputeAlone, fault_of

pytestmark = pytest.mark.anyio

PATH = f"/os-quota-sets/{PROJECT}"
NETWORK = {"fixed_ips", "floating_ips", "security_group_rules", "security_groups"}
INJECTED = {"injected_files", "injected_file_content_bytes", "injected_file_path_bytes"}


async def change(cloud: ComputeAlone, path: str = PATH, version: str = "2.1", **limits: Any) -> Any:
    body = {"quota_set": limits}
    return await cloud.ask("PUT", path, body, version=version, user="admin")


async def test_the_usual_limits_hold(cloud: ComputeAlone) -> None:
    found = (await cloud.get(PATH, version="2.57"))["quota_set"]
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
async def test_later_versions_show_less(cloud: ComputeAlone, version: str, more: set[str]) -> None:
    plain = set((await cloud.get(PATH, version="2.57"))["quota_set"])
    assert set((await cloud.get(PATH, version=version))["quota_set"]) == plain | more
    networks = await change(cloud, version="2.35", networks=3)
    assert (networks.status, "networks" in networks.body["quota_set"]) == (200, False)
    assert (await change(cloud, version="2.36", networks=3)).status == 400
    refused = await change(cloud, version="2.57", injected_files=1)
    assert fault_of(refused)[:2] == (400, "badRequest")


async def test_a_project_gets_limits_of_its_own(cloud: ComputeAlone) -> None:
    answer = await change(cloud, cores=5, ram="1024", instances=-1)
    assert answer.status == 200, answer.text
    assert "id" not in answer.body["quota_set"]
    found = (await cloud.get(PATH))["quota_set"]
    assert (found["cores"], found["ram"], found["instances"]) == (5, 1024, -1)
    theirs = (await cloud.get(f"/os-quota-sets/{OTHER_PROJECT}", user="admin"))["quota_set"]
    assert theirs["cores"] == 20
    assert (await cloud.get(f"{PATH}/defaults"))["quota_set"]["cores"] == 20
    assert (await cloud.ask("DELETE", PATH, user="admin")).status == 202
    assert (await cloud.get(PATH))["quota_set"]["cores"] == 20


async def test_limits_of_networks_are_kept_though_nothing_counts_against_them(
    cloud: ComputeAlone,
) -> None:
    answer = await change(cloud, version="2.35", fixed_ips=3, security_groups=4, networks=5)
    assert answer.status == 200, answer.text
    found = (await cloud.get(PATH, version="2.35"))["quota_set"]
    assert (found["fixed_ips"], found["security_groups"], found["floating_ips"]) == (3, 4, -1)
    assert "networks" not in found
    assert "fixed_ips" not in (await cloud.get(PATH, version="2.36"))["quota_set"]


@pytest.mark.parametrize("bad", [{"cores": "x"}, {"cores": -2}, {"cores": 2**31}, {"beer": 1}])
async def test_bad_limits_are_400(cloud: ComputeAlone, bad: dict[str, Any]) -> None:
    assert fault_of(await change(cloud, **bad))[:2] == (400, "badRequest")


async def test_a_limit_below_what_is_used_needs_force(cloud: ComputeAlone) -> None:
    await cloud.server()
    await cloud.server()
    assert "already used" in fault_of(await change(cloud, instances=1))[2]
    forced = await change(cloud, instances=1, force=True)
    assert forced.body["quota_set"]["instances"] == 1


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_who_writes_the_quota_of_one_user_leaves_the_projects_alone(
    cloud: ComputeAlone, method: str
) -> None:
    assert (await change(cloud, instances=3)).status == 200
    body = {"quota_set": {"instances": 1}} if method == "PUT" else None
    answer = await cloud.ask(method, f"{PATH}?user_id=somebody", body, user="admin")
    assert fault_of(answer)[:2] == (400, "badRequest")
    assert (await cloud.get(PATH))["quota_set"]["instances"] == 3


async def test_usage_is_shown_with_the_limits(cloud: ComputeAlone) -> None:
    await cloud.server(vcpus=2, memory_mib=1024)
    found = (await cloud.get(f"{PATH}/detail"))["quota_set"]
    assert found["cores"] == {"limit": 20, "in_use": 2, "reserved": 0}
    assert found["ram"] == {"limit": 51200, "in_use": 1024, "reserved": 0}


async def test_other_projects_are_for_administrators(cloud: ComputeAlone) -> None:
    for path in (f"/os-quota-sets/{OTHER_PROJECT}", f"/limits?tenant_id={OTHER_PROJECT}"):
        assert fault_of(await cloud.ask("GET", path))[:2] == (403, "forbidden")
        assert (await cloud.ask("GET", path, user="admin")).status == 200
    for method in ("PUT", "DELETE"):
        body = {"quota_set": {"cores": 1}} if method == "PUT" else None
        assert fault_of(await cloud.ask(method, PATH, body))[:2] == (403, "forbidden")


async def test_the_default_class_changes_every_project(cloud: ComputeAlone) -> None:
    path, body = "/os-quota-class-sets/default", {"quota_class_set": {"cores": 7}}
    answer = await cloud.ask("PUT", path, body, version="2.57", user="admin")
    assert answer.body["quota_class_set"]["cores"] == 7
    assert (await cloud.get(PATH))["quota_set"]["cores"] == 7
    shown = await cloud.get(path, version="2.57", user="admin")
    assert (shown["quota_class_set"]["id"], shown["quota_class_set"]["cores"]) == ("default", 7)
    other = await cloud.ask("PUT", "/os-quota-class-sets/gold", body, user="admin")
    assert fault_of(other)[0] == 400


@pytest.mark.parametrize(
    ("version", "gone"),
    [
        ("2.36", {"maxSecurityGroups", "totalFloatingIpsUsed"}),
        ("2.39", {"maxImageMeta"}),
        ("2.57", {"maxPersonality", "maxPersonalitySize"}),
    ],
)
async def test_limits_lose_what_they_lost(
    cloud: ComputeAlone, version: str, gone: set[str]
) -> None:
    before = (await cloud.get("/limits"))["limits"]["absolute"]
    after = (await cloud.get("/limits", version=version))["limits"]["absolute"]
    assert gone <= set(before)
    assert not gone & set(after)


async def test_limits_show_what_is_used(cloud: ComputeAlone) -> None:
    await cloud.server()
    found = (await cloud.get("/limits?reserved=1", version="2.57"))["limits"]
    assert found["rate"] == []
    assert found["absolute"]["totalInstancesUsed"] == 1
    assert found["absolute"]["totalRAMUsed"] == 512
    assert found["absolute"]["maxTotalInstances"] == 10
    odd = await cloud.ask("GET", "/limits?odd=1", version="2.75")
    assert fault_of(odd)[0] == 400
