"""Serial consoles by the stock `openstack` command, and by a client of websockets."""

from __future__ import annotations

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from tests.contract.clients import COMPUTE, Cloud, Http, Refused, Shell

pytestmark = pytest.mark.contract
_SMALL = ("--flavor", "m1.nano", "--no-network")
_BINARY = [Subprotocol("binary")]


def test_a_console_is_opened_by_its_url_and_ends_with_its_server(
    running_cloud: Cloud, demo: Shell, operator: Shell, member: Http, guest: str
) -> None:
    made = demo.ask("server", "create", "talks", "--image", guest, *_SMALL, "--wait")
    shown = demo.ask("console", "url", "show", "--serial", "talks")
    assert (shown["protocol"], shown["type"]) == ("serial", "serial")
    url = shown["url"]
    assert url.startswith("ws://")
    with connect(url, subprotocols=_BINARY, proxy=None) as console:
        console.send(b"typed by hand\r")
        heard = b""
        while b"typed by hand\r\n" not in heard:
            piece = console.recv(timeout=30)
            assert isinstance(piece, bytes)
            heard += piece
        assert "typed by hand" in demo.run("console", "log", "show", "talks")
        # Who has the console keeps nobody from what is done to the server.
        demo.run("server", "delete", "talks", "--wait")
        with pytest.raises(Exception, match="gone"):
            console.recv(timeout=30)
    with pytest.raises(InvalidStatus, match="403"):
        connect(url, proxy=None)
    path = f"{COMPUTE}/os-console-auth-tokens/{url.rpartition('=')[2]}"
    assert member.ask("GET", path, version="2.31").status == 403
    with pytest.raises(Refused, match="No Server"):
        operator.ask("console", "url", "show", "--serial", made["id"])
    assert running_cloud.http("admin").ask("GET", path, version="2.31").status == 404
