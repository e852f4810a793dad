"""A real guest mounts its config drive by its label: it learns who it is and what share it has."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.contract.clients import COMPUTE, SHARE
from tests.hosts.real_cloud import Guest, RealCloud

pytestmark = pytest.mark.hosts
SCRIPT = b"#!/bin/sh\necho up\n"
_COMPUTE, _SHARE = "2.97", "2.82"


def told(guest: Guest) -> dict[str, Any]:
    """Return what the guest reads on its drive."""
    return json.loads(guest.hear(r'drive (\{"uuid".*\})')[1])


def test_a_real_guest_learns_who_it_is_and_which_share_it_has(cloud: RealCloud, image: str) -> None:
    made = cloud.demo.ask("POST", f"{COMPUTE}/os-keypairs", {"keypair": {"name": "k"}})
    public = made.key("keypair")["public_key"]
    wanted: dict[str, Any] = {"config_drive": True, "key_name": "k", "metadata": {"role": "db"}}
    script = base64.b64encode(SCRIPT).decode()
    guest = cloud.boot("driven", imageRef=image, user_data=script, **wanted)
    guest.hear(r"drive versions 2012-08-10 .*2025-04-04 latest")
    first = told(guest)
    assert (first["uuid"], first["name"], first["hostname"]) == (
        guest.server_id,
        "driven",
        "driven",
    )
    assert (first["meta"], first["public_keys"]) == ({"role": "db"}, {"k": public})
    assert (first["launch_index"], first["availability_zone"]) == (0, "nova")
    assert first["devices"] == []
    guest.hear(f"drive has {len(SCRIPT)} bytes of user data")
    [file] = cloud.files(guest.server_id, "config-drive.iso")
    assert file.stat().st_mode & 0o777 == 0o600
    guest.act("os-stop")
    guest.until("SHUTOFF")
    share = _attach_share(cloud, guest)
    guest.forget()
    guest.act("os-start")
    guest.until("ACTIVE")
    [device] = told(guest)["devices"]
    assert (device["type"], device["share_id"], device["tag"]) == ("share", share, "papers")
    # By the very tag that it was told.
    guest.hear("share papers mounted")
    cloud.delete(guest.path)
    assert cloud.files(guest.server_id) == []
    cloud.delete(f"{SHARE}/shares/{share}")
    assert cloud.demo.ask("DELETE", f"{COMPUTE}/os-keypairs/k").status < 300


def _attach_share(cloud: RealCloud, guest: Guest) -> str:
    body = {"share": {"share_proto": "NFS", "size": 1, "name": "papers"}}
    made = cloud.demo.ask("POST", f"{SHARE}/shares", body, version=_SHARE)
    share = made.key("share")["id"]
    cloud.demo.until(
        f"{SHARE}/shares/{share}",
        lambda got: got.key("share")["status"] == "available",
        version=_SHARE,
    )
    path, wanted = f"{guest.path}/shares", {"share_id": share, "tag": "papers"}
    added = cloud.demo.ask("POST", path, {"share": wanted}, version=_COMPUTE)
    assert added.status == 201, added
    cloud.demo.until(
        path,
        lambda got: [one["status"] for one in got.key("shares")] == ["inactive"],
        version=_COMPUTE,
    )
    return share
