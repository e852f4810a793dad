"""A volume that becomes an image by the stock `openstack` command, and a volume again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.clients import IMAGE, Answer, Http, Refused, Shell

pytestmark = pytest.mark.contract
_GIB = 1 << 30


def until_active(member: Http, image_id: str) -> None:
    def holds(answer: Answer) -> bool:
        return answer.key("status") == "active"

    member.until(f"{IMAGE}/images/{image_id}", holds)


def test_a_volume_becomes_an_image_and_a_volume_again(demo: Shell, member: Http) -> None:
    volume_id = member.volume("printed")
    made = demo.ask("image", "create", "--volume", "printed", "--disk-format", "qcow2", "print")
    assert (made["id"], made["status"], made["size"]) == (volume_id, "uploading", 1)
    assert (made["image_name"], made["disk_format"]) == ("print", "qcow2")
    until_active(member, made["image_id"])
    member.until_volume(volume_id, "available")
    shown, copy = demo.ask_each(
        ("image", "show", "print"),
        ("volume", "create", "reprint", "--image", "print", "--size", "1"),
    )
    assert (shown["id"], shown["min_disk"], shown["visibility"]) == (
        *(made["image_id"], 1, "private"),
    )
    member.until_volume(copy["id"], "available")
    demo.run("image", "delete", "print")
    demo.run("volume", "delete", "printed", "reprint")


def test_by_itself_the_command_asks_for_raw(demo: Shell, member: Http, tmp_path: Path) -> None:
    volume_id, saved = member.volume("plain"), tmp_path / "saved"
    made = demo.ask("image", "create", "--volume", "plain", "plain-image")
    until_active(member, made["image_id"])
    assert demo.ask("image", "show", "plain-image")["disk_format"] == "raw"
    demo.run("image", "save", "plain-image", f"--file={saved}")
    assert saved.stat().st_size == _GIB
    demo.run("image", "delete", "plain-image")
    member.until_volume(volume_id, "available")
    demo.run("volume", "delete", "plain")


def test_what_cannot_be_uploaded_is_refused(demo: Shell, member: Http, guest: str) -> None:
    server_id, volume_id = member.server("printer", guest), member.volume("used-print")
    member.attach(server_id, volume_id)
    for words in ((), ("--force",)):
        with pytest.raises(Refused, match="must be available"):
            demo.run("image", "create", "--volume", "used-print", *words, "never")
    member.delete_server(server_id)
    member.until_volume(volume_id, "available")
    with pytest.raises(Refused, match="disk_format"):
        demo.run("image", "create", "--volume", "used-print", "--disk-format", "vmdk", "never")
    demo.run("volume", "delete", "used-print")
