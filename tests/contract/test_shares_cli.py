"""Shares by the stock `openstack share` commands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.clients import SHARE, Http, Refused, Shell

pytestmark = pytest.mark.contract
NEWEST = "2.82"


def make(demo: Shell, name: str, *options: str, size: int = 1) -> dict[str, Any]:
    return demo.ask("share", "create", "NFS", str(size), "--name", name, *options, "--wait")


def test_a_share_is_made_mounted_from_resized_and_deleted(demo: Shell) -> None:
    made = make(demo, "papers", "--property", "team=red", size=2)
    assert (made["status"], made["share_proto"], made["size"]) == ("available", "NFS", 2)
    assert (made["share_type_name"], made["progress"]) == ("__DEFAULT__", "100%")
    listed, shown, locations = demo.ask_each(
        ("share", "list", "--property", "team=red"),
        ("share", "show", "papers"),
        ("share", "export", "location", "list", "papers"),
    )
    assert [row["Name"] for row in listed] == ["papers"]
    assert shown["id"] == made["id"]
    assert [row["Path"].endswith(made["id"]) for row in locations] == [True]
    location = demo.ask("share", "export", "location", "show", "papers", locations[0]["ID"])
    assert location["path"] == locations[0]["Path"]
    demo.run("share", "resize", "papers", "4", "--wait")
    demo.run("share", "resize", "papers", "1", "--wait")
    demo.run("share", "set", "papers", "--name", "letters", "--property", "team=blue")
    demo.run("share", "unset", "letters", "--property", "team", "--description")
    shown = demo.ask("share", "show", "letters")
    assert (shown["size"], shown["properties"]) == (1, {})
    with pytest.raises(Refused, match="403"):
        demo.run("share", "resize", "letters", "100000")
    demo.run("share", "delete", "letters", "--wait")
    with pytest.raises(Refused, match="No share"):
        demo.run("share", "show", "letters")


def test_clients_are_let_in_and_kept_out(demo: Shell) -> None:
    make(demo, "open")
    rule = demo.ask("share", "access", "create", "open", "ip", "10.0.0.0/24", "--wait")
    assert (rule["state"], rule["access_level"]) == ("active", "rw")
    with pytest.raises(Refused, match="exists"):
        demo.run("share", "access", "create", "open", "ip", "10.0.0.0/24")
    demo.run("share", "access", "set", rule["id"], "--property", "site=a")
    shown = demo.ask("share", "access", "show", rule["id"])
    assert (shown["access_to"], shown["properties"]) == ("10.0.0.0/24", "site : a")
    [listed] = demo.ask("share", "access", "list", "open")
    assert (listed["Access To"], listed["State"]) == ("10.0.0.0/24", "active")
    demo.run("share", "access", "delete", "open", rule["id"], "--wait")
    assert demo.ask("share", "access", "list", "open") == []
    every = demo.ask("share", "access", "create", "open", "ip", "0.0.0.0/0")
    demo.run("share", "access", "delete", "open", every["id"], "--wait")
    demo.run("share", "delete", "open", "--wait")


def test_a_share_is_made_from_a_snapshot(demo: Shell) -> None:
    make(demo, "origin")
    taken = demo.ask("share", "snapshot", "create", "origin", "--name", "before", "--wait")
    assert (taken["status"], taken["share_size"]) == ("available", 1)
    with pytest.raises(Refused, match="snapshots"):
        demo.run("share", "delete", "origin")
    copied = make(demo, "copy", "--snapshot-id", "before", size=2)
    assert copied["snapshot_id"] == taken["id"]
    demo.run("share", "snapshot", "set", "before", "--name", "earlier")
    assert [row["Name"] for row in demo.ask("share", "snapshot", "list")] == ["earlier"]
    demo.run("share", "snapshot", "delete", "earlier", "--wait")
    for name in ("copy", "origin"):
        demo.run("share", "delete", name, "--wait")


def test_a_locked_share_and_a_locked_rule_stay(demo: Shell, operator: Shell) -> None:
    made = make(demo, "safe")
    lock = demo.ask("share", "lock", "create", "safe", "share", "--reason", "keep it")
    assert (lock["lock_context"], lock["resource_action"]) == ("user", "delete")
    with pytest.raises(Refused, match=lock["id"]):
        demo.run("share", "delete", "safe")
    demo.run("share", "lock", "set", lock["id"], "--lock-reason", "still")
    assert [row["ID"] for row in demo.ask("share", "lock", "list")] == [lock["id"]]
    demo.run("share", "lock", "delete", lock["id"])
    options = ("--lock-visibility", "--lock-deletion", "--lock-reason", "mine", "--wait")
    rule = operator.ask("share", "access", "create", made["id"], "ip", "10.0.0.9", *options)
    [hidden] = demo.ask("share", "access", "list", "safe")
    assert hidden["Access To"] == "******"
    assert demo.ask("share", "lock", "list") == []
    with pytest.raises(Refused, match="403"):
        demo.run("share", "delete", "safe")
    share, denied = made["id"], rule["id"]
    with pytest.raises(Refused, match="403"):
        operator.run("share", "access", "delete", share, denied)
    operator.run("share", "access", "delete", share, denied, "--unrestrict", "--wait")
    demo.run("share", "delete", "safe", "--wait")


def test_operators_see_pools_and_make_types(demo: Shell, operator: Shell) -> None:
    pools, services, zones = operator.ask_each(
        ("share", "pool", "list"),
        ("share", "service", "list"),
        ("share", "availability", "zone", "list"),
    )
    assert {row["Pool"] for row in pools} == {"shared"}
    assert {(row["Status"], row["State"]) for row in services} == {("enabled", "up")}
    assert [row["Name"] for row in zones] == ["nova"]
    made = operator.ask("share", "type", "create", "gold", "false", "--snapshot-support", "false")
    assert made["required_extra_specs"] == {"driver_handles_share_servers": "False"}
    shown = make(demo, "golden", "--share-type", "gold")
    assert shown["snapshot_support"] is False
    with pytest.raises(Refused, match="snapshot_support"):
        demo.run("share", "snapshot", "create", "golden")
    operator.run("share", "set", shown["id"], "--status", "error")
    assert demo.ask("share", "show", "golden")["status"] == "error"
    operator.run("share", "delete", shown["id"], "--force", "--wait")
    operator.run("share", "type", "delete", "gold")
    with pytest.raises(Refused, match="driver_handles_share_servers"):
        operator.run("share", "type", "create", "served", "true")


def test_a_failure_is_told_and_quotas_are_shown(demo: Shell, operator: Shell) -> None:
    quota = operator.ask("share", "quota", "show", "demo")
    assert quota["gigabytes"] == 1000
    operator.run("share", "quota", "set", "demo", "--gigabytes", "200000")
    lost = demo.ask("share", "create", "CEPHFS", "1", "--name", "lost")
    with pytest.raises(Refused):
        demo.run("share", "create", "CIFS", "1")
    for _ in range(100):
        if demo.ask("share", "show", "lost")["status"] == "error":
            break
    [message] = demo.ask("share", "message", "list", "--resource-id", lost["id"])
    assert "with another protocol" in message["User Message"]
    demo.run("share", "message", "delete", message["ID"])
    demo.run("share", "delete", "lost", "--wait")
    operator.run("share", "quota", "set", "demo", "--gigabytes", "1000")
    limits = demo.ask("share", "limits", "show", "--absolute")
    assert {row["Name"]: row["Value"] for row in limits}["maxTotalShareGigabytes"] == 1000


def test_what_is_not_here_is_listed_as_none(demo: Shell) -> None:
    for kind in ("network", "replica", "group", "security service"):
        assert demo.ask("share", *kind.split(), "list") == []


def test_the_newest_version_and_no_newer_is_served(member: Http) -> None:
    at = {"X-OpenStack-Manila-API-Version": NEWEST}
    assert member.ask("GET", f"{SHARE}/resource-locks", headers=at).status == 200
    newer = {"X-OpenStack-Manila-API-Version": "2.83"}
    assert member.ask("GET", f"{SHARE}/shares", headers=newer).status == 406
