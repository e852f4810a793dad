"""Hosts: looked at, told to placement, chosen, down and up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring.agent.hypervisor import Facts
from mooring.compute.hosts import hosts
from mooring.compute.hosts.loops import heal_servers, watch_hosts
from mooring.errors import Bug, NoCapacity
from mooring.fence import debts
from mooring.fence.operation import Operation
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio


@pytest.fixture
async def wide(tmp_path: Path) -> AsyncIterator[ComputeCloud]:
    async with ComputeCloud(tmp_path, hosts=("host1", "host2")) as opened:
        yield opened


async def test_host_is_told_to_placement_once(cloud: ComputeCloud) -> None:
    providers = await cloud.compute.placement.providers()
    assert [provider.name for provider in providers] == ["host1"]
    inventory = await cloud.compute.placement.inventory(providers[0].uuid)
    assert {"VCPU", "MEMORY_MB", "DISK_GB"} == set(inventory)
    before = cloud.stores["placement"].commits
    await cloud.look_at_hosts()
    assert cloud.stores["placement"].commits == before


async def test_host_whose_hypervisor_does_not_answer_keeps_its_room(
    wide: ComputeCloud, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server_id = await wide.make_server()
    name = (await wide.server(server_id))["OS-EXT-SRV-ATTR:host"]
    provider = (await wide.compute.placement.providers(name=name))[0]
    before = await wide.compute.placement.inventory(provider.uuid)
    whole = await wide.hypervisor(name).facts()
    lost = replace(whole, vcpus=0, memory_mib=0, problem="libvirt does not answer.")

    async def facts() -> Facts:
        return lost

    with monkeypatch.context() as patch:
        patch.setattr(wide.hypervisor(name), "facts", facts)
        await wide.look_at_hosts()
        await wide.look_at_hosts()
        assert await wide.compute.placement.inventory(provider.uuid) == before
        said = capsys.readouterr().out
        assert said.count("libvirt does not answer.") == 1
        assert "could not be looked at" not in said
        assert watch_hosts.DISABLED in await wide.compute.placement.traits(provider.uuid)
    await wide.look_at_hosts()
    assert watch_hosts.DISABLED not in await wide.compute.placement.traits(provider.uuid)


async def test_host_that_does_not_answer_is_down_after_a_minute(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    cloud.clock.advance(61)
    answer = await cloud.ask("POST", f"/servers/{server_id}/action", {"os-stop": None})
    assert answer.status == 409
    assert "unavailable" in answer.text
    await cloud.look_at_hosts()
    assert await cloud.act(server_id, "os-stop") == 202
    await cloud.settle()


async def test_operators_see_where_a_host_is_as_its_agent_says(any_cloud: ComputeCloud) -> None:
    cloud = any_cloud
    at = {name: (await cloud.known_agents[name].host()).ip for name in cloud.agents}
    assert all(at.values())
    for version in ("2.1", "2.53", "2.88"):
        found = await cloud.ask("GET", "/os-hypervisors/detail", user="admin", version=version)
        shown = found.body["hypervisors"]
        assert {each["hypervisor_hostname"]: each["host_ip"] for each in shown} == at


async def test_a_silent_host_is_shown_as_down_within_15_seconds(cloud: ComputeCloud) -> None:
    async def shown() -> list[str]:
        listed = await cloud.ask("GET", "/os-services?binary=nova-compute", user="admin")
        hypervisors = (await cloud.ask("GET", "/os-hypervisors", user="admin")).body["hypervisors"]
        return [each["state"] for each in (*listed.body["services"], *hypervisors)]

    assert await shown() == ["up", "up"]
    cloud.clock.advance(15.5)
    assert await shown() == ["down", "down"]
    await cloud.look_at_hosts()
    assert await shown() == ["up", "up"]


async def test_lowest_version_counts_hosts_that_are_down(wide: ComputeCloud) -> None:
    await wide.change_host("host2", version=23)
    wide.clock.advance(3600)
    assert await wide.stores["compute"].read(hosts.lowest_version) == 23


async def test_server_goes_where_it_is_wished(wide: ComputeCloud) -> None:
    for name in ("host2", "host1"):
        wanted = {
            "name": "s",
            "flavorRef": "1",
            "imageRef": wide.image_id,
            "networks": "none",
            "host": name,
        }
        answer = await wide.ask("POST", "/servers", {"server": wanted}, user="admin")
        assert answer.status == 202, answer.text
        await wide.settle()
        server = await wide.server(answer.body["server"]["id"])
        assert server["OS-EXT-SRV-ATTR:host"] == name


async def test_a_silent_host_gets_a_server_only_when_no_other_can_have_it(
    wide: ComputeCloud,
) -> None:
    wide.clock.advance(15.5)
    await watch_hosts.look_at(wide.compute, "host2")
    made = [await wide.server(await wide.make_server()) for _ in range(3)]
    assert [server["OS-EXT-SRV-ATTR:host"] for server in made] == ["host2"] * 3
    wide.clock.advance(15.5)
    assert (await wide.server(await wide.make_server()))["status"] == "ACTIVE"


async def test_full_host_leaves_room_on_the_other(wide: ComputeCloud) -> None:
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
    cloud: ComputeCloud, capsys: pytest.CaptureFixture[str]
) -> None:
    server_id = await cloud.make_server()
    await cloud.ask("DELETE", f"/servers/{server_id}")
    await cloud.settle()
    other = await cloud.make_server()
    await cloud.act(other, "os-stop")
    await cloud.settle()
    await cloud.stores["compute"].write(lambda tx: cloud.forget(tx, other))
    await heal_servers.heal_once(cloud.compute)
    assert "guest without a server" in capsys.readouterr().out
    assert len(await cloud.known_agents["host1"].list_servers()) == 1


async def test_hosts_whose_guests_are_as_their_servers_cost_no_commit(
    cloud: ComputeCloud,
) -> None:
    await cloud.make_server()
    stopped = await cloud.make_server()
    await cloud.act(stopped, "os-stop")
    await cloud.settle()
    store = cloud.stores["compute"]
    before = store.commits
    await heal_servers.heal_once(cloud.compute)
    assert store.commits == before


def _owe(tx: Session, resource: str) -> None:
    debts.owe(tx, "host1", "DELETE", resource, Operation("owed", "undo", 1, 1 << 40))


async def test_a_debt_that_the_host_fails_to_pay_is_kept_and_keeps_no_other(
    cloud: ComputeCloud,
) -> None:
    server_id, store = await cloud.make_server(), cloud.stores["compute"]
    owed = [f"/servers/{server_id}", "/servers/nowhere/disks/v/merges/s", "/no/verb"]
    for resource in owed:
        await store.write(lambda tx, resource=resource: _owe(tx, resource))
    cloud.hypervisor().knobs.fail("remove", Bug("It broke."))
    await cloud.look_at_hosts()
    left = await store.read(lambda tx: debts.owed(tx, "host1"))
    assert [(debt.resource, debt.error) for debt in left] == [(owed[0], "It broke.")]
    await cloud.look_at_hosts()
    assert await store.read(lambda tx: debts.owed(tx, "host1")) == []
    assert await cloud.hypervisor().guest(server_id) is None


async def test_a_debt_that_cannot_be_paid_is_logged_when_it_is_news(
    cloud: ComputeCloud, capsys: pytest.CaptureFixture[str]
) -> None:
    server_id, store = await cloud.make_server(), cloud.stores["compute"]
    await store.write(lambda tx: _owe(tx, f"/servers/{server_id}"))

    async def look(error: str) -> tuple[int, int]:
        """Look at the host, which fails so; return how many warnings name the debt and the host."""
        capsys.readouterr()
        cloud.hypervisor().knobs.fail("remove", Bug(error))
        await cloud.look_at_hosts()
        said = capsys.readouterr().out
        assert "could not be looked at" not in said
        return said.count("could not pay a debt"), said.count("stays down for what it owes")

    assert await look("It broke.") == (1, 1)
    assert await look("It broke.") == (0, 0)
    assert await look("It broke otherwise.") == (1, 1)
    await cloud.look_at_hosts()
    assert await store.read(lambda tx: debts.owed(tx, "host1")) == []


async def test_a_host_tells_its_uptime_while_it_is_up(cloud: ComputeCloud) -> None:
    older = (await cloud.ask("GET", "/os-hypervisors", user="admin", version="2.87")).body
    path = f"/os-hypervisors/{older['hypervisors'][0]['id']}/uptime"
    told = (await cloud.ask("GET", path, user="admin", version="2.87")).body["hypervisor"]
    assert " up " in told["uptime"]
    assert "load average" in told["uptime"]
    newer = (await cloud.ask("GET", "/os-hypervisors", user="admin", version="2.88")).body
    path_2_88 = f"/os-hypervisors/{newer['hypervisors'][0]['id']}"
    whole = (await cloud.ask("GET", path_2_88, user="admin", version="2.88")).body["hypervisor"]
    assert " up " in whole["uptime"]
    cloud.clock.advance(3600)
    assert (await cloud.ask("GET", path, user="admin", version="2.87")).status == 400
    whole = (await cloud.ask("GET", path_2_88, user="admin", version="2.88")).body["hypervisor"]
    assert whole["uptime"] is None
