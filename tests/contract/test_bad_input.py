"""Whatever is wrong with a request: a clear refusal in its service's shape, and nothing changed."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

import pytest

from tests.contract.bad_requests import EVERY, Bad, Standing
from tests.contract.clients import COMPUTE, IMAGE, VOLUME, Answer, Http

pytestmark = pytest.mark.contract
World: TypeAlias = dict[tuple[str, str], Any]
EXPIRES = 6
"""Where a token's contents say when it ends."""
LISTS = (
    ("admin", f"{COMPUTE}/servers/detail?all_tenants=1", "2.79"),
    ("admin", f"{COMPUTE}/flavors/detail?is_public=none", ""),
    ("member", f"{COMPUTE}/limits", ""),
    ("admin", f"{VOLUME}/volumes/detail?all_tenants=1", "3.60"),
    ("admin", f"{VOLUME}/attachments/detail?all_tenants=1", "3.60"),
    ("member", f"{VOLUME}/limits", ""),
    ("admin", f"{IMAGE}/images", ""),
    ("member", f"{IMAGE}/images", ""),
)
NAMED = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    406: "computeFault",
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    501: "notImplemented",
}


@pytest.fixture(scope="module")
def standing(member: Http, admin: Http, guest: str) -> Generator[Standing]:
    """What a bad request could do harm to."""
    server, attached, free = member.server("s", guest), member.volume("a"), member.volume("f")
    member.attach(server, attached)
    disk = {"source_type": "image", "destination_type": "volume", "uuid": guest, "boot_index": 0}
    devices = [{**disk, "volume_size": 1, "delete_on_termination": True}]
    rooted = member.server("rooted", "", block_device_mapping_v2=devices)
    [attachment] = member.ask(
        "GET", f"{VOLUME}/attachments?volume_id={attached}", version="3.60"
    ).key("attachments")
    [disk] = member.ask("GET", f"{COMPUTE}/servers/{rooted}").key("server")[
        "os-extended-volumes:volumes_attached"
    ]
    their_image, their_volume = admin.image("theirs"), admin.volume("theirs")
    their_server = admin.server("theirs", their_image)
    found = Standing(
        image=guest,
        server=server,
        rooted=rooted,
        attached=attached,
        root=disk["id"],
        free=free,
        attachment=attachment["id"],
        their_image=their_image,
        their_server=their_server,
        their_volume=their_volume,
        their_project=admin.ask("GET", f"{COMPUTE}/servers/{their_server}").key("server")[
            "tenant_id"
        ],
    )
    yield found
    for http, servers, volumes in (
        (member, (server, rooted), (attached, free)),
        (admin, (their_server,), (their_volume,)),
    ):
        for server in servers:
            http.delete_server(server)
        for volume in volumes:
            http.delete_volume(volume)
    assert admin.ask("DELETE", f"{IMAGE}/images/{their_image}").status == 204


class Sight:
    """What users see of the cloud, which stays the same for as long as nobody does any good."""

    def __init__(self, member: Http, admin: Http, server: str) -> None:
        self._users = {"member": member, "admin": admin}
        self._lists = (*LISTS, ("member", f"{COMPUTE}/servers/{server}/os-instance-actions", ""))
        self._first = self._look()

    def _look(self) -> World:
        return {
            (user, path): self._users[user].ask("GET", path, version=version).body
            for user, path, version in self._lists
        }

    def is_unchanged(self) -> bool:
        """Compare with the first look; what differs is told by the assertion."""
        now = self._look()
        assert now == self._first
        return True


@pytest.fixture(scope="module")
def sight(admin: Http, member: Http, standing: Standing) -> Sight:
    return Sight(member, admin, standing.server)


def fault_of(answer: Answer, service: str) -> str:
    """Return the message of a refusal, which must have the shape of its service."""
    assert answer.headers["x-openstack-request-id"].startswith("req-")
    status, body = answer.status, answer.body
    if service in {"compute", "volume"}:
        [(name, fault)] = body.items()
        assert (name, fault["code"]) == (NAMED[status], status)
        return fault["message"]
    if service == "identity":
        assert (body["error"]["code"], bool(body["error"]["title"])) == (status, True)
        return body["error"]["message"]
    if service == "image":
        assert body["code"].startswith(f"{status} ")
        return body["message"]
    [error] = body["errors"]
    assert (error["status"], bool(error["title"])) == (status, True)
    assert error["request_id"] == answer.headers["x-openstack-request-id"]
    return error["detail"]


@pytest.mark.parametrize("bad", [pytest.param(bad, id=bad.name) for bad in EVERY])
def test_it_is_refused_and_nothing_changes(
    bad: Bad, standing: Standing, member: Http, admin: Http, sight: Sight
) -> None:
    path, body = bad.filled(standing)
    http = {"member": member, "admin": admin}[bad.user]
    answer = http.ask(bad.method, path, body, version=bad.version, headers=bad.headers)
    assert answer.status == bad.status, answer.body
    message = fault_of(answer, path.split("/")[1])
    wanted, _ = Bad("", bad.text, None, 0, "").filled(standing)
    assert wanted in message, message
    assert sight.is_unchanged()
