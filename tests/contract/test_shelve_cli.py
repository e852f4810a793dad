"""Servers with their root disk on their host, put away and brought back by the stock command."""

from __future__ import annotations

import pytest

from tests.contract.clients import Http, Refused, Shell

pytestmark = pytest.mark.contract
HOST = "OS-EXT-SRV-ATTR:host"


def test_a_server_is_shelved_and_unshelved(
    demo: Shell, operator: Shell, member: Http, guest: str
) -> None:
    options = ("--image", guest, "--flavor", "m1.tiny", "--wait")
    made = demo.ask("server", "create", "resting", *options)
    server = made["id"]
    demo.run("server", "shelve", server)
    member.until_server(server, "SHELVED_OFFLOADED")
    image, shown = demo.ask_each(("image", "show", "resting-shelved"), ("server", "show", server))
    assert (image["status"], image["visibility"]) == ("active", "private")
    assert guest in str(shown["image"])
    with pytest.raises(Refused, match="shelved_offloaded"):
        demo.run("server", "start", server)
    demo.run("server", "unshelve", "--wait", server)
    assert demo.ask("server", "show", server)["status"] == "ACTIVE"
    member.until("/image/v2/images", lambda got: not _named(got.key("images")))
    assert operator.ask("server", "show", server)[HOST]
    events = demo.ask("server", "event", "list", server)
    assert [row["Action"] for row in events] == ["unshelve", "shelve", "create"]
    demo.run("server", "delete", "--wait", server)


def _named(images: list[dict[str, object]]) -> bool:
    return any(image["name"] == "resting-shelved" for image in images)
