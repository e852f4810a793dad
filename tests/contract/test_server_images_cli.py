"""Images and backups of servers by the stock `openstack` command, and servers made of them."""

from __future__ import annotations

import pytest

from tests.contract.clients import IMAGE, Http, Refused, Shell

pytestmark = pytest.mark.contract


def test_a_server_that_boots_from_a_volume_has_an_image_and_another_server_of_it(
    demo: Shell, member: Http, guest: str
) -> None:
    size = ("--boot-from-volume", "1", "--flavor", "m1.tiny", "--wait")
    server = demo.ask("server", "create", "booted", "--image", guest, *size)["id"]
    demo.run("server", "image", "create", "--name", "booted-picture", "--wait", server)
    image = demo.ask("image", "show", "booted-picture")
    assert (image["status"], image["size"]) == ("active", 0)
    (snapshot,) = demo.ask("volume", "snapshot", "list")
    assert (snapshot["Name"], snapshot["Status"]) == ("snapshot for booted-picture", "available")
    made = ("--image", "booted-picture", "--flavor", "m1.tiny", "--wait")
    copy = demo.ask("server", "create", "copied", *made)
    assert copy["status"] == "ACTIVE"
    named = ("--snapshot", snapshot["ID"], "--flavor", "m1.tiny", "--wait")
    assert demo.ask("server", "create", "named", *named)["status"] == "ACTIVE"
    with pytest.raises(Refused, match="not supported for volume-backed"):
        demo.run("server", "backup", "create", "--name", "never", server)
    demo.run("server", "delete", "--wait", "booted", "copied", "named")
    demo.run("image", "delete", "booted-picture")


def test_a_backup_takes_the_place_of_the_oldest(demo: Shell, member: Http, guest: str) -> None:
    server = member.server("backed-up", guest)
    options = ("--type", "daily", "--rotate", "1", "--wait")
    for name in ("monday", "tuesday"):
        demo.run("server", "backup", "create", "--name", name, *options, server)
        member.until_server(server, "ACTIVE")
    left = member.ask("GET", f"{IMAGE}/images?backup_type=daily").key("images")
    assert [(one["name"], one["status"]) for one in left] == [("tuesday", "active")]
    member.delete_server(server)
    demo.run("image", "delete", "tuesday")
