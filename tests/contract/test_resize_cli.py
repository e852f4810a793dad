"""Cold migration and resize by the stock `openstack` command, between simulated hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.clients import Refused
from tests.contract.test_moves_cli import HOST, MIGRATION, two_hosts

pytestmark = pytest.mark.contract


def test_a_server_is_migrated_resized_confirmed_and_reverted(tmp_path: Path) -> None:
    with two_hosts(tmp_path) as (cloud, server):
        operator, demo = cloud.shell("mooring"), cloud.shell("demo")
        source = demo.ask("server", "show", server)["flavor"]
        first = operator.ask("server", "show", server)[HOST]
        operator.run("server", "migrate", "--wait", server)
        assert demo.ask("server", "show", server)["status"] == "VERIFY_RESIZE"
        second = operator.ask("server", "show", server)[HOST]
        assert second != first
        demo.run("server", "resize", "revert", server)
        cloud.http("demo").until_server(server, "ACTIVE")
        assert operator.ask("server", "show", server)[HOST] == first
        operator.run("server", "migrate", "--host", second, "--wait", server)
        demo.run(*MIGRATION, "confirm", server)
        cloud.http("demo").until_server(server, "ACTIVE")
        assert operator.ask("server", "show", server)[HOST] == second
        demo.run("server", "resize", "--flavor", "m1.micro", "--wait", server)
        assert demo.ask("server", "show", server)["flavor"] != source
        demo.run("server", "resize", "confirm", server)
        cloud.http("demo").until_server(server, "ACTIVE")
        assert demo.ask("server", "show", server)["status"] == "ACTIVE"
        listed = operator.ask(*MIGRATION, "list", "--server", server)
        assert [(row["Type"], row["Status"]) for row in listed] == [
            ("resize", "confirmed"),
            ("migration", "confirmed"),
            ("migration", "reverted"),
        ]
        with pytest.raises(Refused, match="vm_state active"):
            demo.run("server", "resize", "confirm", server)
        with pytest.raises(Refused, match="Policy"):
            demo.run("server", "migrate", server)
