"""Where servers go, by the stock `openstack` command: groups, aggregates, zones."""

from __future__ import annotations

import pytest

from tests.contract.clients import Http, Refused, Shell

_SERVICES = ("compute", "service", "list", "--service", "nova-compute")
pytestmark = pytest.mark.contract
SMALL = ("--flavor", "m1.nano", "--no-network")


def test_a_server_group_keeps_its_members_apart(demo: Shell, member: Http, guest: str) -> None:
    rule = ("--policy", "anti-affinity", "--rule", "max_server_per_host=1")
    made = demo.ask("server", "group", "create", "apart", *rule)
    assert (made["policy"], made["rules"]) == ("anti-affinity", {"max_server_per_host": 1})
    hint = ("--hint", f"group={made['id']}", "--image", "guest", *SMALL)
    first = demo.ask("server", "create", "first", *hint, "--wait")
    listed, shown = demo.ask_each(("server", "group", "list"), ("server", "group", "show", "apart"))
    assert [row["Name"] for row in listed] == ["apart"]
    assert shown["members"] == [first["id"]]
    with pytest.raises(Refused):
        demo.run("server", "create", "second", *hint, "--wait")
    second = demo.ask("server", "show", "second")
    assert "1 with a member of the anti-affinity group apart" in second["fault"]["message"]
    demo.run("server", "delete", "--wait", "first", "second")
    demo.run("server", "group", "delete", "apart")
    assert demo.ask("server", "group", "list") == []


def test_an_aggregate_holds_hosts_and_metadata(operator: Shell) -> None:
    [host] = operator.ask("hypervisor", "list")
    name = host["Hypervisor Hostname"]
    made = operator.ask("aggregate", "create", "fast", "--property", "ssd=true")
    assert (made["name"], made["availability_zone"]) == ("fast", None)
    added = operator.ask("aggregate", "add", "host", "fast", name)
    assert added["hosts"] == [name]
    operator.run("aggregate", "set", "--property", "cpu=new", "--name", "faster", "fast")
    operator.run("aggregate", "unset", "--property", "ssd", "faster")
    listed, shown = operator.ask_each(
        ("aggregate", "list", "--long"), ("aggregate", "show", "faster")
    )
    assert [row["Name"] for row in listed] == ["faster"]
    assert (shown["properties"], shown["hosts"]) == ({"cpu": "new"}, [name])
    with pytest.raises(Refused, match="not empty"):
        operator.run("aggregate", "delete", "faster")
    assert operator.ask("aggregate", "remove", "host", "faster", name)["hosts"] == []
    operator.run("aggregate", "delete", "faster")
    assert operator.ask("aggregate", "list") == []


def test_a_zone_is_made_by_an_aggregate(operator: Shell, admin: Http) -> None:
    [host] = operator.ask("hypervisor", "list")
    name = host["Hypervisor Hostname"]
    operator.run("aggregate", "create", "--zone", "cellar", "zone")
    operator.run("aggregate", "add", "host", "zone", name)
    zones = operator.ask("availability", "zone", "list", "--compute", "--long")
    assert {row["Zone Name"] for row in zones if row["Host Name"] == name} == {"cellar", "internal"}
    operator.run("aggregate", "set", "--zone", "attic", "zone")
    [service] = [row for row in operator.ask(*_SERVICES) if row["Host"] == name]
    assert service["Zone"] == "attic"
    operator.run("aggregate", "remove", "host", "zone", name)
    operator.run("aggregate", "delete", "zone")


def test_images_are_not_cached_ahead_and_the_command_says_so(operator: Shell, admin: Http) -> None:
    image = admin.image("ahead")
    operator.run("aggregate", "create", "cold")
    with pytest.raises(Refused, match="not built"):
        operator.run("aggregate", "cache", "image", "cold", image)
    operator.run("aggregate", "delete", "cold")
