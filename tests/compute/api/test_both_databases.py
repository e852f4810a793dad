"""The queries behind the lists mean the same on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest
from sqlalchemy import delete

from mooring.compute.servers.server_list import SORT_COLUMNS
from mooring.compute.tables import Host
from tests.callers import PROJECT
from tests.compute.api.cloud import IMAGE, ComputeAlone

pytestmark = pytest.mark.anyio


async def names(cloud: ComputeAlone, query: str) -> list[str]:
    listed = await cloud.get(f"/servers{query}", version="2.104", user="admin")
    return [server["name"] for server in listed["servers"]]


async def test_every_order_is_paged_to_its_end(any_cloud: ComputeAlone) -> None:
    for at in range(4):
        odd = at % 2 == 1
        await any_cloud.server(
            name=f"s{at}",
            key_name="key" if odd else None,
            task_state="rebooting" if odd else None,
            config_drive=odd,
            launched_at=None if odd else any_cloud.clock.now(),
        )
    for key in sorted(SORT_COLUMNS):
        for direction in ("asc", "desc"):
            order = f"sort_key={key}&sort_dir={direction}"
            path, found = f"/servers?limit=1&{order}", list[str]()
            while path:
                listed = await any_cloud.get(path, version="2.73", user="admin")
                found += [server["name"] for server in listed["servers"]]
                path = next((link["href"] for link in listed.get("servers_links", [])), "")
            assert found == await names(any_cloud, f"?{order}"), order
            assert sorted(found) == ["s0", "s1", "s2", "s3"], order


async def test_every_filter_is_understood(any_cloud: ComputeAlone) -> None:
    server_id = await any_cloud.server(name="web.1", host="host1", hostname="web")
    await any_cloud.ask("PUT", f"/servers/{server_id}/tags/red", version="2.26")
    for query in (
        f"image={IMAGE}",
        f"uuid={server_id}",
        "name=%5Eweb%5C..%24",
        "status=ACTIVE",
        "host=host1",
        "hostname=web",
        "power_state=1",
        "config_drive=false",
        "locked=false",
        "deleted=false",
        "tags=red",
        "not-tags-any=blue",
        "changes-since=2026-01-01T00:00:00Z",
        "created_at=2026-01-01T00:00:00Z",
        "availability_zone=nova",
        "all_tenants=1",
    ):
        assert await names(any_cloud, f"?{query}") == ["web.1"], query
    for query in ("status=ERROR", "name=x", "locked=true", "tags=blue", "deleted=true"):
        assert await names(any_cloud, f"?{query}") == [], query


async def test_the_other_lists_are_understood(any_cloud: ComputeAlone) -> None:
    cloud = any_cloud
    await cloud.host("host1")
    server_id = await cloud.server(host="host1")
    await cloud.create(metadata={"a": "b"})
    await cloud.ask("POST", "/os-keypairs", {"keypair": {"name": "k"}}, version="2.2")
    await cloud.ask("PUT", f"/os-quota-sets/{PROJECT}", {"quota_set": {"cores": 9}}, user="admin")
    for path in (
        f"/servers/{server_id}",
        "/servers/detail?limit=1",
        "/flavors/detail?minRam=1&sort_key=name&sort_dir=desc",
        "/os-keypairs?limit=1",
        f"/servers/{server_id}/os-instance-actions",
        "/os-services",
        "/os-hypervisors/detail?with_servers=1",
        "/os-availability-zone/detail",
        f"/os-quota-sets/{PROJECT}/detail",
        "/limits",
    ):
        assert await cloud.get(path, version="2.104", user="admin")
    taken = await cloud.ask("POST", "/os-keypairs", {"keypair": {"name": "k"}}, version="2.2")
    assert taken.status == 409


async def test_the_number_of_what_was_deleted_is_never_that_of_another(
    any_cloud: ComputeAlone,
) -> None:
    numbers = list[int]()
    for _ in range(3):
        body = {"aggregate": {"name": "a"}}
        made = await any_cloud.ask("POST", "/os-aggregates", body, user="admin")
        numbers.append(made.body["aggregate"]["id"])
        gone = await any_cloud.ask("DELETE", f"/os-aggregates/{numbers[-1]}", user="admin")
        assert gone.status == 200
    assert len(set(numbers)) == 3
    keys = list[int]()
    for _ in range(3):
        key = {"keypair": {"name": "k"}}
        assert (await any_cloud.ask("POST", "/os-keypairs", key)).status == 200
        keys.append((await any_cloud.get("/os-keypairs/k"))["keypair"]["id"])
        assert (await any_cloud.ask("DELETE", "/os-keypairs/k")).status == 202
    assert len(set(keys)) == 3
    hosts = list[int]()
    for _ in range(3):
        await any_cloud.host("h")
        path = "/os-services?binary=nova-compute"
        [service] = (await any_cloud.get(path, user="admin"))["services"]
        hosts.append(service["id"])
        await any_cloud.compute.store.write(lambda tx: tx.execute(delete(Host)))
    assert len(set(hosts)) == 3
