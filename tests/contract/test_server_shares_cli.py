"""Shares of servers by the stock `openstack` command, against our share service."""

from __future__ import annotations

import pytest

from tests.contract.clients import COMPUTE, Http, Refused, Shell

pytestmark = pytest.mark.contract
SINCE = ("--os-compute-api-version", "2.97")


def until_shared(member: Http, server: str, statuses: list[str]) -> None:
    """Wait until a server's shares have these statuses."""
    path = f"{COMPUTE}/servers/{server}/shares"
    member.until(
        path,
        lambda answer: [one["status"] for one in answer.key("shares")] == statuses,
        version="2.97",
    )


def test_a_share_is_added_to_a_server_shown_and_removed(
    demo: Shell, member: Http, guest: str
) -> None:
    share = demo.ask("share", "create", "NFS", "1", "--name", "folder", "--wait")["id"]
    small = ("--image", guest, "--flavor", "m1.nano", "--no-network", "--wait")
    server = demo.ask("server", "create", "sharing", *small)["id"]
    with pytest.raises(Refused, match="vm_state active"):
        demo.run(*SINCE, "server", "add", "share", server, share)
    demo.run("server", "stop", server)
    member.until_server(server, "SHUTOFF")
    added = demo.ask(*SINCE, "server", "add", "share", server, "folder", "--tag", "papers")
    assert (added["Share ID"], added["Status"], added["Tag"]) == (share, "attaching", "papers")
    until_shared(member, server, ["inactive"])
    with pytest.raises(Refused, match="attached"):
        demo.run(*SINCE, "server", "add", "share", server, share)
    with pytest.raises(Refused, match="403"):
        demo.run("share", "delete", share)
    [listed] = demo.ask(*SINCE, "server", "share", "list", server)
    assert (listed["Share ID"], listed["Status"], listed["Tag"]) == (share, "inactive", "papers")
    demo.run("server", "start", server)
    member.until_server(server, "ACTIVE")
    shown = demo.ask(*SINCE, "server", "share", "show", server, share)
    assert (shown["Status"], shown["Tag"]) == ("active", "papers")
    with pytest.raises(Refused, match=r"2\.106"):
        demo.run("server", "resize", "--flavor", "m1.micro", server)
    demo.run("server", "stop", server)
    member.until_server(server, "SHUTOFF")
    demo.run(*SINCE, "server", "remove", "share", server, "folder")
    until_shared(member, server, [])
    assert demo.ask(*SINCE, "server", "share", "list", server) == []
    demo.run("share", "delete", share, "--wait")
    demo.run("server", "delete", server, "--wait")
