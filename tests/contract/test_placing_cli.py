"""Where servers go, by the stock `openstack` command: server groups."""

from __future__ import annotations

import pytest

from tests.contract.clients import Http, Refused, Shell

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
