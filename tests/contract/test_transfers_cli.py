"""A volume that changes its project by the stock `openstack` command."""

from __future__ import annotations

import pytest

from tests.contract.clients import Http, Refused, Shell

pytestmark = pytest.mark.contract
_REQUEST = ("volume", "transfer", "request")


def test_a_volume_is_offered_and_taken(demo: Shell, operator: Shell, member: Http) -> None:
    volume_id = member.volume("offered")
    made = demo.ask(*_REQUEST, "create", "offered", "--name", "gift")
    assert (made["volume_id"], made["name"]) == (volume_id, "gift")
    [listed] = demo.ask(*_REQUEST, "list")
    assert (listed["ID"], listed["Name"], listed["Volume"]) == (made["id"], "gift", volume_id)
    assert demo.ask("volume", "show", volume_id)["status"] == "awaiting-transfer"
    with pytest.raises(Refused, match="auth key"):
        operator.run(*_REQUEST, "accept", made["id"], "--auth-key", "guessed")
    operator.run(*_REQUEST, "accept", made["id"], "--auth-key", made["auth_key"])
    assert operator.ask("volume", "show", volume_id)["status"] == "available"
    assert demo.ask(*_REQUEST, "list") == []
    with pytest.raises(Refused, match="offered"):
        demo.run("volume", "show", "offered")
    operator.run("volume", "delete", volume_id)


def test_an_offer_is_shown_and_taken_back(demo: Shell, member: Http) -> None:
    volume_id = member.volume("kept")
    made = demo.ask(*_REQUEST, "create", "kept", "--no-snapshots")
    assert demo.ask(*_REQUEST, "show", made["id"])["volume_id"] == volume_id
    demo.run(*_REQUEST, "delete", made["id"])
    assert demo.ask("volume", "show", "kept")["status"] == "available"
    demo.run("volume", "delete", "kept")
