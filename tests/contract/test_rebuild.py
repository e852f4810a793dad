"""Rebuilding servers by the stock commands, and by a request that they cannot send."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.clients import COMMAND_S, COMPUTE, VOLUME, Cloud, Http, Refused, Shell

pytestmark = pytest.mark.contract
NOVA = Path(sys.executable).with_name("nova")


def make_booted(member: Http, image_id: str, name: str) -> tuple[str, str]:
    """Make a server that boots from a new volume; return both ids."""
    root = {
        "source_type": "image",
        "destination_type": "volume",
        "uuid": image_id,
        "boot_index": 0,
        "volume_size": 1,
        "delete_on_termination": True,
    }
    server_id = member.server(name, "", block_device_mapping_v2=[root])
    path = f"{COMPUTE}/servers/{server_id}/os-volume_attachments"
    [held] = member.ask("GET", path).key("volumeAttachments")
    return server_id, held["volumeId"]


def image_of(member: Http, volume_id: str) -> str:
    """Return the image whose content a volume has."""
    shown = member.ask("GET", f"{VOLUME}/volumes/{volume_id}").key("volume")
    return shown["volume_image_metadata"]["image_id"]


def test_the_command_reimages_the_root_volume_only_when_told_to(
    demo: Shell, member: Http, guest: str
) -> None:
    image = member.image("fresh", b"fresh" * 1024)
    server_id, volume_id = make_booted(member, guest, "booted")
    ask = ("--os-compute-api-version", "2.93", "server", "rebuild", "--image", "fresh")
    for words in ((), ("--no-reimage-boot-volume",)):
        with pytest.raises(Refused, match="reimage-boot-volume"):
            demo.run(*ask, *words, "booted")
        assert image_of(member, volume_id) == guest
    old = ("--os-compute-api-version", "2.92", *ask[2:])
    with pytest.raises(Refused, match=r"2\.93"):
        demo.run(*old, "--reimage-boot-volume", "booted")
    demo.run(*ask, "--reimage-boot-volume", "--wait", "booted")
    assert image_of(member, volume_id) == image
    member.until_volume(volume_id, "in-use")
    shown = demo.ask("server", "show", "booted")
    assert (shown["status"], shown["image"]) == ("ACTIVE", "N/A (booted from volume)")
    member.delete_server(server_id)


def test_the_command_rebuilds_a_server_with_a_disk_of_its_own(
    demo: Shell, member: Http, guest: str
) -> None:
    image = member.image("other", b"other" * 1024)
    server_id = member.server("plain", guest)
    words = ("--image", image, "--name", "renamed", "--property", "a=b", "--wait")
    demo.run("server", "rebuild", *words, "plain")
    shown = demo.ask("server", "show", server_id)
    assert (shown["status"], shown["name"]) == ("ACTIVE", "renamed")
    assert shown["properties"] == {"a": "b"}
    assert image in shown["image"]
    member.delete_server(server_id)


def test_a_raw_request_keeps_the_root_volume_by_reimage_boot_volume(
    member: Http, guest: str
) -> None:
    server_id, volume_id = make_booted(member, guest, "kept")
    path = f"{COMPUTE}/servers/{server_id}/action"
    value = {"imageRef": guest, "reimage_boot_volume": False}
    answer = member.ask("POST", path, {"rebuild": value}, version="2.93")
    assert answer.status == 202, answer.body
    member.until_server(server_id, "ACTIVE")
    events = member.ask("GET", f"{COMPUTE}/servers/{server_id}/os-instance-actions")
    assert [one["message"] for one in events.key("instanceActions")] == [None, None]
    value["imageRef"] = member.image("unwanted", b"no" * 1024)
    refused = member.ask("POST", path, {"rebuild": value}, version="2.93")
    assert refused.status == 400
    assert image_of(member, volume_id) == guest
    member.delete_server(server_id)


def run_nova(cloud: Cloud, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the old `nova` command as `demo`, and return how it ended."""
    passwords = json.loads((cloud.state_dir / "passwords.json").read_text("utf-8"))
    login = {
        "OS_AUTH_URL": f"{cloud.url}/identity/v3",
        "OS_USERNAME": "demo",
        "OS_PASSWORD": passwords["demo"],
        "OS_PROJECT_NAME": "demo",
        "OS_USER_DOMAIN_ID": "default",
        "OS_PROJECT_DOMAIN_ID": "default",
    }
    return subprocess.run(
        [str(NOVA), *words],
        env={"PATH": os.environ["PATH"], "HOME": str(cloud.state_dir), **login},
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )


def test_the_old_command_reimages_the_root_volume_without_being_told_to(
    running_cloud: Cloud, member: Http, guest: str
) -> None:
    image = member.image("newer", b"newer" * 1024)
    server_id, volume_id = make_booted(member, guest, "old-fashioned")
    old = run_nova(
        running_cloud, "--os-compute-api-version", "2.92", "rebuild", "old-fashioned", image
    )
    assert old.returncode == 1
    assert "2.93" in old.stderr, old.stderr
    assert image_of(member, volume_id) == guest
    new = run_nova(running_cloud, "rebuild", "--poll", "old-fashioned", image)
    assert new.returncode == 0, new.stderr
    member.until_server(server_id, "ACTIVE")
    assert image_of(member, volume_id) == image
    member.delete_server(server_id)
