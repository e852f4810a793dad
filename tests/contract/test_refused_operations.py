"""What is refused by the state of things, or fails on the way: told why, and nothing is kept."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import httpx2
import msgspec
import pytest

from mooring.identity.keys import TokenKeys
from tests.contract.clients import COMPUTE, IMAGE, VOLUME, Answer, Cloud, Http

pytestmark = pytest.mark.contract
EXPIRES = 6
"""Which of a token's contents says when it ends."""
LISTS = (
    f"{COMPUTE}/servers",
    f"{VOLUME}/volumes",
    f"{IMAGE}/images",
    "/identity/v3/users",
    "/placement/resource_providers",
)


def used(http: Http) -> dict[str, int]:
    """What the project uses of its quotas."""
    volume = http.ask("GET", f"{VOLUME}/limits").key("limits")["absolute"]
    compute = http.ask("GET", f"{COMPUTE}/limits").key("limits")["absolute"]
    both = {**volume, **compute}
    return {
        name: value for name, value in both.items() if name.startswith("total") and "Used" in name
    }


def fault(answer: Answer, status: int) -> str:
    assert answer.status == status, answer.body
    [body] = answer.body.values()
    return body["message"]


@pytest.mark.parametrize("path", LISTS)
def test_a_token_that_is_missing_wrong_or_expired_is_401(
    path: str, running_cloud: Cloud, member: Http
) -> None:
    keys = TokenKeys(running_cloud.state_dir / "token-keys")
    packed = msgspec.msgpack.decode(keys.decrypt(member.token))
    packed[EXPIRES] = 1_000_000_000
    expired = keys.encrypt(msgspec.msgpack.encode(packed))
    for token in ({}, {"X-Auth-Token": "wrong"}, {"X-Auth-Token": expired}):
        response = httpx2.get(running_cloud.url + path, headers=token)
        assert response.status_code == 401, token
        assert "Keystone uri=" in response.headers["WWW-Authenticate"]


def test_a_token_that_was_revoked_is_401(running_cloud: Cloud) -> None:
    http = running_cloud.http("demo")
    assert http.ask("GET", LISTS[0]).status == 200
    mine = {"X-Subject-Token": http.token}
    assert http.ask("DELETE", "/identity/v3/auth/tokens", headers=mine).status == 204
    assert {http.ask("GET", path).status for path in LISTS} == {401}


def test_a_volume_that_is_being_detached_is_not_detached_again(member: Http, guest: str) -> None:
    server, volume = member.server("twice", guest), member.volume("twice")
    member.attach(server, volume)
    path = f"{COMPUTE}/servers/{server}/os-volume_attachments/{volume}"
    action = f"{VOLUME}/volumes/{volume}/action"
    assert member.ask("POST", action, {"os-begin_detaching": {}}).status == 202
    assert volume in fault(member.ask("DELETE", path), 400)
    assert member.ask("POST", action, {"os-roll_detaching": {}}).status == 202
    assert member.ask("DELETE", path).status == 202
    member.until_volume(volume, "available")
    assert volume in fault(member.ask("DELETE", path), 404)
    member.delete_server(server)
    member.delete_volume(volume)


class Quotas:
    """Sets the quotas of one project, for as long as a test runs."""

    def __init__(self, admin: Http, project_id: str) -> None:
        self._admin, self._project_id = admin, project_id

    def set(self, service: str, **limits: int) -> None:
        path = f"{service}/os-quota-sets/{self._project_id}"
        assert self._admin.ask("PUT", path, {"quota_set": limits}).status == 200

    def reset(self) -> None:
        for service in (COMPUTE, VOLUME):
            path = f"{service}/os-quota-sets/{self._project_id}"
            assert self._admin.ask("DELETE", path).status in {200, 202}


@pytest.fixture
def quotas(admin: Http, member: Http) -> Generator[Quotas]:
    [project] = member.ask("GET", "/identity/v3/auth/projects").key("projects")
    made = Quotas(admin, project["id"])
    yield made
    made.reset()


@pytest.fixture
def giant(admin: Http) -> Generator[str]:
    """A flavor that no host can hold."""
    flavor = {"name": "giant", "vcpus": 1024, "ram": 64, "disk": 1}
    made = admin.ask("POST", f"{COMPUTE}/flavors", {"flavor": flavor}).key("flavor")["id"]
    yield made
    assert admin.ask("DELETE", f"{COMPUTE}/flavors/{made}").status == 202


def disks_of(image_id: str, volume_id: str) -> list[dict[str, Any]]:
    root = {"source_type": "image", "destination_type": "volume", "uuid": image_id}
    data = {"source_type": "volume", "destination_type": "volume", "uuid": volume_id}
    return [{**root, "volume_size": 1, "boot_index": 0}, {**data, "boot_index": -1}]


def test_a_server_without_room_ends_in_error_and_keeps_no_volume(
    member: Http, quotas: Quotas, guest: str, giant: str
) -> None:
    volume = member.volume("spare")
    quotas.set(COMPUTE, cores=-1)
    before = used(member)
    wanted = {"flavorRef": giant, "block_device_mapping_v2": disks_of(guest, volume)}
    server = member.begin_server("giant", "", **wanted)
    member.until_server(server, "ERROR")
    shown = member.ask("GET", f"{COMPUTE}/servers/{server}").key("server")
    assert "No valid host was found" in shown["fault"]["message"]
    assert [row["id"] for row in volumes_of(member)] == [volume]
    assert volumes_of(member)[0]["status"] == "available"
    member.delete_server(server)
    assert used(member) == before
    member.delete_volume(volume)


def volumes_of(http: Http) -> list[dict[str, Any]]:
    return http.ask("GET", f"{VOLUME}/volumes/detail").key("volumes")


def test_what_goes_over_quota_is_refused_and_counts_nothing(
    member: Http, quotas: Quotas, guest: str
) -> None:
    before = used(member)
    quotas.set(VOLUME, gigabytes=before["totalGigabytesUsed"])
    answer = member.ask("POST", f"{VOLUME}/volumes", {"volume": {"size": 1}}, version="3.60")
    assert "exceeds allowed gigabytes quota" in fault(answer, 413)
    quotas.set(COMPUTE, cores=before["totalCoresUsed"])
    body = {"server": {"name": "x", "imageRef": guest, "flavorRef": "42", "networks": "none"}}
    answer = member.ask("POST", f"{COMPUTE}/servers", body, version="2.79")
    assert "Quota exceeded for cores" in fault(answer, 403)
    assert used(member) == before


def test_a_server_whose_volume_goes_over_quota_ends_in_error_and_keeps_no_volume(
    member: Http, quotas: Quotas, guest: str
) -> None:
    volume = member.volume("last")
    before = used(member)
    quotas.set(VOLUME, volumes=before["totalVolumesUsed"])
    server = member.begin_server("poor", "", block_device_mapping_v2=disks_of(guest, volume))
    member.until_server(server, "ERROR")
    shown = member.ask("GET", f"{COMPUTE}/servers/{server}").key("server")
    assert "quota" in shown["fault"]["message"].lower()
    assert [(row["id"], row["status"]) for row in volumes_of(member)] == [(volume, "available")]
    member.delete_server(server)
    assert used(member) == before
    member.delete_volume(volume)


@pytest.mark.parametrize(
    ("declared", "content"), [("qcow2", bytes(4096)), ("raw", b"QFI\xfb" + bytes(4092))]
)
def test_an_image_that_is_not_what_it_says_is_refused_and_can_be_sent_again(
    declared: str, content: bytes, member: Http
) -> None:
    body = {"name": "liar", "disk_format": declared, "container_format": "bare"}
    path = f"{IMAGE}/images/{member.ask('POST', f'{IMAGE}/images', body).key('id')}"
    stream = {"Content-Type": "application/octet-stream"}
    answer = member.ask("PUT", f"{path}/file", content, headers=stream)
    assert answer.status == 415, answer.body
    assert "The image was refused" in answer.body["message"]
    shown = member.ask("GET", path).body
    assert (shown["status"], shown["size"], shown["checksum"]) == ("queued", None, None)
    assert member.ask("GET", f"{path}/file").status in (204, 404)
    assert member.ask("DELETE", path).status == 204


def test_a_browser_gets_the_refusals_of_images_as_a_page(member: Http) -> None:
    answer = member.ask("GET", f"{IMAGE}/images/nothing", headers={"Accept": "text/html"})
    assert answer.status == 404
    assert answer.headers["content-type"] == "text/html; charset=UTF-8"
