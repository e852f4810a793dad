from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from mooring.share.access import access
from tests.share.cloud import POOLS, UNKNOWN, ShareCloud

pytestmark = pytest.mark.anyio


async def test_a_rule_lets_its_client_in_and_is_gone_once_it_is_denied(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    value = {"access_type": "ip", "access_to": "10.0.0.5", "access_level": "ro"}
    asked = await cloud.act(share_id, "allow_access", value)
    rule = asked.key("access")
    assert (asked.status, rule["state"], rule["share_id"]) == (200, "queued_to_apply", share_id)
    assert (await cloud.show(share_id))["access_rules_status"] == "syncing"
    await cloud.settle()
    assert await cloud.let_in(share_id) == {"10.0.0.5/32": "ro"}
    shown = (await cloud.ask("GET", f"/share-access-rules/{rule['id']}")).key("access")
    assert (shown["state"], shown["access_to"], shown["access_key"]) == ("active", "10.0.0.5", None)
    denied = await cloud.act(share_id, "deny_access", {"access_id": rule["id"]})
    assert (denied.status, denied.content) == (202, b"")
    assert await cloud.rules(share_id) == {"10.0.0.5": "queued_to_deny"}
    await cloud.settle()
    assert await cloud.let_in(share_id) == {}
    assert await cloud.rules(share_id) == {}
    again = await cloud.act(share_id, "deny_access", {"access_id": rule["id"]})
    assert again.status == 404


async def test_a_second_rule_for_the_same_client_is_refused_in_any_state(
    cloud: ShareCloud,
) -> None:
    share_id = await cloud.make()
    rule_id = await cloud.allow(share_id, "10.0.0.5")
    same = {"access_type": "ip", "access_to": "10.0.0.5/32", "access_level": "ro"}
    assert (await cloud.act(share_id, "allow_access", same)).status == 400
    await cloud.act(share_id, "deny_access", {"access_id": rule_id})
    refused = await cloud.act(share_id, "allow_access", same)
    assert refused.status == 400
    assert "queued_to_deny" in refused.fault
    await cloud.settle()
    assert (await cloud.act(share_id, "allow_access", same)).status == 200
    await cloud.settle()
    await cloud.allow(share_id, "10.0.0.0/24")
    assert set(await cloud.let_in(share_id)) == {"10.0.0.5/32", "10.0.0.0/24"}


@pytest.mark.parametrize(
    ("wrong", "version"),
    [
        ({"access_type": "host"}, "2.80"),
        ({"access_to": "10.0.0.1/8"}, "2.80"),
        ({"access_to": "somewhere"}, "2.80"),
        ({"access_to": "fd00::1"}, "2.37"),
        ({"access_to": "fe80::1%eth0"}, "2.80"),
        ({"access_to": "fe80::1%x; } } x {"}, "2.80"),
        ({"access_type": "cephx", "access_to": "mooring-somebody"}, "2.80"),
        ({"access_level": "rwx"}, "2.80"),
        ({"access_type": "cephx", "access_to": "nova"}, "2.12"),
        ({"access_type": "cephx", "access_to": "a.b"}, "2.80"),
        ({"access_type": "cephx", "access_to": ""}, "2.80"),
        ({"access_type": "user", "access_to": "bob"}, "2.80"),
        ({"access_type": "cert", "access_to": " "}, "2.80"),
        ({"metadata": {"k": "v" * 1024}}, "2.80"),
    ],
)
async def test_bad_rules_leave_no_trace(
    cloud: ShareCloud, wrong: dict[str, Any], version: str
) -> None:
    share_id = await cloud.make()
    value = {"access_type": "ip", "access_to": "10.0.0.1", **wrong}
    answer = await cloud.act(share_id, "allow_access", value, version=version)
    assert answer.status == 400, answer.content
    assert await cloud.rules(share_id) == {}


@pytest.mark.parametrize("to", ["0.0.0.0/0", "::/0", "0.0.0.0/32", "::"])
async def test_a_rule_for_every_address_is_in_error_and_lets_nobody_in(
    cloud: ShareCloud, to: str
) -> None:
    share_id = await cloud.make()
    await cloud.allow(share_id, to)
    assert await cloud.rules(share_id) == {to: "error"}
    assert await cloud.let_in(share_id) == {}
    [told] = await cloud.messages(share_id)
    assert (told["action_id"], told["detail_id"]) == ("010", "021")


async def test_a_pool_that_is_set_to_any_address_lets_everybody_in(tmp_path: Path) -> None:
    cloud = ShareCloud(tmp_path)
    pools = (replace(POOLS[0], any_address=True),)
    cloud.hosts["host1"] = replace(cloud.hosts["host1"], share_pools=pools)
    async with cloud:
        share_id = await cloud.make()
        await cloud.allow(share_id, "0.0.0.0/0")
        assert await cloud.rules(share_id) == {"0.0.0.0/0": "active"}


async def test_a_type_that_the_protocol_does_not_take_ends_in_error(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    value = {"access_type": "user", "access_to": "alice"}
    rule_id = (await cloud.act(share_id, "allow_access", value)).key("access")["id"]
    await cloud.settle()
    assert await cloud.rules(share_id) == {"alice": "error"}
    shown = await cloud.show(share_id, version="2.28")
    assert shown["access_rules_status"] == "error"
    assert (await cloud.show(share_id, version="2.27"))["access_rules_status"] == "out_of_sync"
    more = {"access_type": "ip", "access_to": "10.0.0.1"}
    assert (await cloud.act(share_id, "allow_access", more, version="2.27")).status == 400
    await cloud.allow(share_id, "10.0.0.1")
    await cloud.act(share_id, "deny_access", {"access_id": rule_id})
    await cloud.settle()
    assert await cloud.rules(share_id) == {"10.0.0.1": "active"}
    assert (await cloud.show(share_id))["access_rules_status"] == "active"


async def test_the_key_of_a_cephx_client_is_shown_and_rests_sealed(cloud: ShareCloud) -> None:
    share_id = await cloud.make(proto="CEPHFS")
    rule_id = await cloud.allow(share_id, "alice")
    shown = (await cloud.ask("GET", f"/share-access-rules/{rule_id}")).key("access")
    assert shown["access_key"]
    content = b"".join(
        path.read_bytes() for path in cloud.settings.state_path.glob("share.sqlite*")
    )
    assert shown["access_key"].encode() not in content
    search = f"/share-access-rules?share_id={share_id}&access_key="
    for key, count in ((shown["access_key"], 1), ("another", 0), ("******", 0)):
        found = (await cloud.ask("GET", f"{search}{quote(key)}")).key("access_list")
        assert len(found) == count
    old = await cloud.act(share_id, "access_list", version="2.20")
    assert "access_key" not in old.key("access_list")[0]


async def test_clients_before_2_45_list_by_an_action(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    value = {"access_type": "ip", "access_to": "10.0.0.1"}
    await cloud.act(share_id, "os-allow_access", value, version="2.6")
    listed = await cloud.act(share_id, "os-access_list", version="2.6")
    assert [rule["state"] for rule in listed.key("access_list")] == ["new"]
    await cloud.settle()
    listed = await cloud.act(share_id, "access_list", version="2.44")
    assert [rule["state"] for rule in listed.key("access_list")] == ["active"]
    assert (await cloud.act(share_id, "access_list", version="2.45")).status == 404


async def test_rules_are_the_owner_s_business(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    rule_id = await cloud.allow(share_id)
    await cloud.ask("PUT", f"/shares/{share_id}", {"share": {"is_public": True}}, user="admin")
    path = f"/share-access-rules/{rule_id}"
    assert (await cloud.ask("GET", path, user="stranger")).status == 404
    listed = await cloud.ask("GET", f"/share-access-rules?share_id={share_id}", user="stranger")
    assert listed.status == 403
    value = {"access_type": "ip", "access_to": "10.0.0.2"}
    assert (await cloud.act(share_id, "allow_access", value, user="stranger")).status == 403
    denied = await cloud.act(share_id, "deny_access", {"access_id": rule_id}, user="stranger")
    assert denied.status == 403
    assert (await cloud.ask("GET", "/share-access-rules")).status == 400
    assert (await cloud.ask("GET", f"/share-access-rules?share_id={UNKNOWN}")).status == 400


async def test_rules_have_metadata(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    rule_id = await cloud.allow(share_id, metadata={"a": "1"})
    path = f"/share-access-rules/{rule_id}/metadata"
    merged = await cloud.ask("PUT", path, {"metadata": {"b": "2"}})
    assert merged.key("metadata") == {"a": "1", "b": "2"}
    assert (await cloud.ask("DELETE", f"{path}/a")).status == 200
    assert (await cloud.ask("DELETE", f"{path}/a")).status == 404


async def test_no_rule_is_changed_while_its_share_changes(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    rule_id = await cloud.allow(share_id)
    await cloud.act(share_id, "extend", {"new_size": 2})
    value = {"access_type": "ip", "access_to": "10.0.0.2"}
    assert (await cloud.act(share_id, "allow_access", value)).status == 400
    assert (await cloud.act(share_id, "deny_access", {"access_id": rule_id})).status == 400
    await cloud.settle()
    lost = await cloud.make(size=500)
    assert (await cloud.act(lost, "allow_access", value)).status == 400


async def test_a_rule_that_is_denied_before_it_was_applied_is_gone(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    value = {"access_type": "ip", "access_to": "10.0.0.1"}
    rule = (await cloud.act(share_id, "allow_access", value)).key("access")
    await cloud.act(share_id, "deny_access", {"access_id": rule["id"]})
    await cloud.settle()
    assert await cloud.rules(share_id) == {}
    assert await cloud.let_in(share_id) == {}


async def test_a_share_has_no_rules_without_end(
    cloud: ShareCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "SHARE_RULES", 1)
    share_id = await cloud.make()
    rule_id = await cloud.allow(share_id, "10.0.0.1")
    value = {"access_type": "ip", "access_to": "10.0.0.2"}
    answer = await cloud.act(share_id, "allow_access", value)
    assert (answer.status, "no share has more" in answer.text) == (400, True)
    await cloud.act(share_id, "deny_access", {"access_id": rule_id})
    await cloud.settle()
    await cloud.allow(share_id, "10.0.0.2")
    assert await cloud.rules(share_id) == {"10.0.0.2": "active"}
