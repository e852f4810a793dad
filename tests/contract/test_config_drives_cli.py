"""Config drives by the stock `openstack` command: what a guest is told, shares included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.clients import COMPUTE, Http, Refused, Shell

pytestmark = pytest.mark.contract
SINCE = ("--os-compute-api-version", "2.97")
WORDS = "mooring-guest: drive "


def told(demo: Shell, server: str) -> list[dict[str, Any]]:
    """Return what the guest found on its drive, at each of its starts."""
    lines = demo.run("console", "log", "show", server).splitlines()
    found = [line.removeprefix(WORDS) for line in lines if line.startswith(f"{WORDS}{{")]
    return [json.loads(line) for line in found]


def test_a_guest_learns_its_keys_its_user_data_and_its_shares(
    demo: Shell, member: Http, guest: str, tmp_path: Path
) -> None:
    script, key = tmp_path / "setup.sh", tmp_path / "key"
    script.write_text("#!/bin/sh\necho up\n")
    demo.run("keypair", "create", "mine", "--private-key", str(key))
    public = demo.run("keypair", "show", "mine", "--public-key").strip()
    wanted = ("--config-drive", "true", "--user-data", str(script), "--key-name", "mine")
    small = ("--image", guest, "--flavor", "m1.nano", "--no-network", "--property", "role=db")
    made = demo.ask("server", "create", "driven", *small, *wanted, "--wait")
    server = made["id"]
    shown = demo.ask("server", "show", server)
    assert (shown["status"], shown["config_drive"]) == ("ACTIVE", "True")
    [first] = told(demo, server)
    assert (first["uuid"], first["name"], first["meta"]) == (server, "driven", {"role": "db"})
    assert first["public_keys"]["mine"].strip() == public
    assert first["devices"] == []
    said = demo.run("console", "log", "show", server)
    assert f"{WORDS}has {script.stat().st_size} bytes of user data" in said
    demo.run("server", "stop", server)
    member.until_server(server, "SHUTOFF")
    share = demo.ask("share", "create", "NFS", "1", "--name", "told", "--wait")["id"]
    demo.run(*SINCE, "server", "add", "share", server, "told", "--tag", "papers")
    member.until(
        f"{COMPUTE}/servers/{server}/shares",
        lambda answer: [one["status"] for one in answer.key("shares")] == ["inactive"],
        version="2.97",
    )
    demo.run("server", "start", server)
    member.until_server(server, "ACTIVE")
    [device] = told(demo, server)[-1]["devices"]
    assert (device["type"], device["share_id"], device["tag"]) == ("share", share, "papers")
    demo.run("server", "delete", "--wait", server)
    demo.run("share", "delete", "--wait", "told")
    demo.run("keypair", "delete", "mine")


def test_a_server_without_one_says_so(demo: Shell, guest: str) -> None:
    small = ("--image", guest, "--flavor", "m1.nano", "--no-network")
    server = demo.ask("server", "create", "plain", *small, "--no-config-drive", "--wait")["id"]
    assert demo.ask("server", "show", server)["config_drive"] in {"", None}
    assert told(demo, server) == []
    demo.run("server", "delete", "--wait", server)


def test_too_much_user_data_is_refused(demo: Shell, guest: str, tmp_path: Path) -> None:
    script = tmp_path / "large"
    script.write_bytes(bytes(50_000))
    small = ("--image", guest, "--flavor", "m1.nano", "--no-network")
    with pytest.raises(Refused, match="user_data"):
        demo.run("server", "create", "large", *small, "--user-data", str(script))
    assert "large" not in {row["Name"] for row in demo.ask("server", "list")}
