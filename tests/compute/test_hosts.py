"""Hosts: looked at, told to placement, chosen, down and up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.compute.hosts import hosts
from mooring.compute.hosts.loops import heal_servers
from mooring.errors import Bug, NoCapacity
from mooring.fence import debts
from mooring.fence.operation import Operation
from tests.compute.yard import Yard

pytestmark = pytest.mark.anyio


@pytest.fixture
async def wide(tmp_path: Path) -> AsyncIterator[Yard]:
    opened = Yard(tmp_path, hosts=2)
    await opened.open()
    yield opened
    await opened.close()


async def test_host_is_told_to_placement_once(yard: Yard) -> None:
    providers = await yard.compute.placement.providers()
    assert [provider.name for provider in providers] == ["host1"]
    inventory = await yard.compute.placement.inventory(providers[0].uuid)
    assert {"VCPU", "MEMORY_MB", "DISK_GB"} == set(inventory)
    before = yard.stores["placement"].commits
    await yard.look()
    assert yard.stores["placement"].commits == before


async def test_host_that_does_not_answer_is_down_after_a_minute(yard: Yard) -> None:
    server_id = await yard.make_server()
    yard.clock.advance(61)
    answer = await yard.ask("POST", f"/servers/{server_id}/action", {"os-stop": None})
    assert answer.status_code == 409
    assert "unavailable" in answer.text
    await yard.look()
    assert await yard.act(server_id, "os-stop") == 202
    await yard.settle()


async def test_a_silent_host_is_shown_as_down_within_15_seconds(yard: Yard) -> None:
    async def shown() -> list[str]:
        services = (await yard.ask("GET", "/os-services", who="admin")).json()["services"]
        hypervisors = (await yard.ask("GET", "/os-hypervisors", who="admin")).json()["hypervisors"]
        return [each["state"] for each in (*services, *hypervisors)]

    assert await shown() == ["up", "up"]
    yard.clock.advance(15.5)
    assert await shown() == ["down", "down"]
    await yard.look()
    assert await shown() == ["up", "up"]


async def test_lowest_version_counts_hosts_that_are_down(wide: Yard) -> None:
    await wide.close()
    wide.versions["host2"] = 23
    await wide.open()
    wide.clock.advance(3600)
    assert await wide.stores["compute"].read(hosts.lowest_version) == 23


async def test_server_goes_where_it_is_wished(wide: Yard) -> None:
    for name in ("host2", "host1"):
        wanted = {
            "name": "s",
            "flavorRef": "1",
            "imageRef": wide.image,
            "networks": "none",
            "host": name,
        }
        answer = await wide.ask("POST", "/servers", {"server": wanted}, who="admin")
        assert answer.status_code == 202, answer.text
        await wide.settle()
        server = await wide.server(answer.json()["server"]["id"])
        assert server["OS-EXT-SRV-ATTR:host"] == name


async def test_full_host_leaves_room_on_the_other(wide: Yard) -> None:
    provider = (await wide.compute.placement.providers(name="host1"))[0]
    inventory = await wide.compute.placement.inventory(provider.uuid)
    room = {"MEMORY_MB": inventory["MEMORY_MB"].total}
    consumer = "33333333-3333-3333-3333-333333333333"
    await wide.claim(consumer, {provider.uuid: room})
    server_id = await wide.make_server()
    assert (await wide.server(server_id))["OS-EXT-SRV-ATTR:host"] == "host2"
    with pytest.raises(NoCapacity):
        await wide.claim(server_id, {provider.uuid: {"MEMORY_MB": 1}})


async def test_guest_without_a_server_is_told_and_left_alone(
    yard: Yard, capsys: pytest.CaptureFixture[str]
) -> None:
    server_id = await yard.make_server()
    await yard.ask("DELETE", f"/servers/{server_id}")
    await yard.settle()
    other = await yard.make_server()
    await yard.act(other, "os-stop")
    await yard.settle()
    await yard.stores["compute"].write(lambda tx: yard.forget(tx, other))
    await heal_servers.heal_once(yard.compute)
    assert "guest without a server" in capsys.readouterr().out
    assert len(await yard.agents["host1"].list_servers()) == 1


async def test_a_debt_that_the_host_fails_to_pay_is_kept(yard: Yard) -> None:
    server_id, store = await yard.make_server(), yard.stores["compute"]
    named = Operation("owed", "undo", 1, 1 << 40)
    owed = [f"/servers/{server_id}", "/servers/nowhere/disks/v/merges/s", "/no/verb"]
    for resource in owed:
        await store.write(
            lambda tx, resource=resource: debts.owe(tx, "host1", "DELETE", resource, named)
        )
    yard.hypervisor().knobs.fail("remove", Bug("It broke."))
    await yard.look()
    left = await store.read(lambda tx: debts.owed(tx, "host1"))
    assert [debt.resource for debt in left] == owed
    await yard.look()
    assert await store.read(lambda tx: debts.owed(tx, "host1")) == []
    assert await yard.hypervisor().guest(server_id) is None
