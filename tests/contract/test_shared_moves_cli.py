"""Cold moves of servers with shares by the stock `openstack` command, between simulated hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.clients import COMPUTE, Refused
from tests.contract.test_moves_cli import HOST, two_hosts

pytestmark = pytest.mark.contract
NEW = ("--os-compute-api-version", "2.106")


def test_a_server_with_a_share_is_migrated_resized_confirmed_and_reverted(tmp_path: Path) -> None:
    with two_hosts(tmp_path) as (cloud, server):
        # Who has an application credential attaches shares, and moves what has them, as others do.
        operator, demo = cloud.shell("mooring"), cloud.shell_of_credential("demo")
        made = demo.ask("share", "create", "NFS", "1", "--name", "papers", "--wait")
        demo.run("server", "stop", server)
        cloud.http("demo").until_server(server, "SHUTOFF")
        demo.run("--os-compute-api-version", "2.97", "server", "add", "share", server, made["id"])
        cloud.http("demo").until(
            f"{COMPUTE}/servers/{server}/shares",
            lambda got: [one["status"] for one in got.key("shares")] == ["inactive"],
            version="2.97",
        )
        demo.run("server", "start", server)
        cloud.http("demo").until_server(server, "ACTIVE")
        first = operator.ask("server", "show", server)[HOST]
        for words in (("server", "migrate"), ("server", "resize", "--flavor", "m1.micro")):
            with pytest.raises(Refused, match=r"--os-compute-api-version 2\.106"):
                operator.run(*words, server)
        operator.run(*NEW, "server", "migrate", "--wait", server)
        assert operator.ask("server", "show", server)[HOST] != first
        demo.run("server", "resize", "revert", server)
        cloud.http("demo").until_server(server, "ACTIVE")
        assert operator.ask("server", "show", server)[HOST] == first
        operator.run(*NEW, "server", "migrate", "--wait", server)
        demo.run("server", "migration", "confirm", server)
        cloud.http("demo").until_server(server, "ACTIVE")
        assert operator.ask("server", "show", server)[HOST] != first
        demo.run(*NEW, "server", "resize", "--flavor", "m1.micro", "--wait", server)
        demo.run("server", "resize", "confirm", server)
        cloud.http("demo").until_server(server, "ACTIVE")
        listed = demo.ask("--os-compute-api-version", "2.97", "server", "share", "list", server)
        assert [row["Status"] for row in listed] == ["active"]
