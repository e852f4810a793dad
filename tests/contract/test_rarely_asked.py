"""Calls that clients make seldom: each answers, and does what it says."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.contract.clients import COMPUTE, IMAGE, VOLUME, Http

pytestmark = pytest.mark.contract
IDENTITY = "/identity/v3"
OLD = "2.35"
"""The last microversion in which compute speaks for the network service."""


@pytest.fixture
def volume(member: Http) -> Generator[str]:
    made = member.volume("rare")
    yield made
    member.delete_volume(made)


@pytest.mark.parametrize(
    ("method", "path", "key", "empty"),
    [
        ("GET", f"{COMPUTE}/extensions", "extensions", False),
        ("GET", f"{COMPUTE}/os-aggregates", "aggregates", True),
        ("GET", f"{COMPUTE}/os-migrations", "migrations", True),
        ("GET", f"{COMPUTE}/os-server-groups", "server_groups", True),
        ("GET", f"{COMPUTE}/os-networks", "networks", True),
        ("GET", f"{COMPUTE}/os-floating-ips", "floating_ips", True),
        ("GET", f"{COMPUTE}/os-floating-ip-pools", "floating_ip_pools", True),
        ("GET", f"{COMPUTE}/os-security-groups", "security_groups", False),
        ("GET", f"{COMPUTE}/mooring/operations", "operations", True),
        ("GET", f"{VOLUME}/mooring/operations", "operations", True),
        ("GET", f"{VOLUME}/snapshots", "snapshots", True),
        ("GET", f"{VOLUME}/snapshots/detail", "snapshots", True),
        ("GET", f"{IDENTITY}/services", "services", False),
        ("GET", f"{IDENTITY}/endpoints", "endpoints", False),
    ],
)
def test_a_list_answers(method: str, path: str, key: str, empty: bool, admin: Http) -> None:
    version = OLD if path.startswith(COMPUTE) else ""
    assert (admin.ask(method, path, version=version).key(key) == []) is empty


def test_a_volumes_flags_and_image_metadata_are_set_shown_and_unset(
    member: Http, volume: str
) -> None:
    path = f"{VOLUME}/volumes/{volume}"
    action = f"{path}/action"
    assert member.ask("POST", action, {"os-set_bootable": {"bootable": True}}).status == 200
    assert member.ask("GET", path).key("volume")["bootable"] == "true"
    readonly = {"os-update_readonly_flag": {"readonly": True}}
    assert member.ask("POST", action, readonly).status == 202
    assert member.ask("GET", path).key("volume")["metadata"] == {"readonly": "True"}
    metadata = {"os-set_image_metadata": {"metadata": {"os_distro": "debian"}}}
    assert member.ask("POST", action, metadata).key("metadata") == {"os_distro": "debian"}
    shown = member.ask("POST", action, {"os-show_image_metadata": None})
    assert shown.key("metadata") == {"os_distro": "debian"}
    assert (
        member.ask("POST", action, {"os-unset_image_metadata": {"key": "os_distro"}}).status == 200
    )
    assert member.ask("POST", action, {"os-show_image_metadata": None}).key("metadata") == {}


def test_a_reserved_volume_is_let_go_again(member: Http, volume: str) -> None:
    path = f"{VOLUME}/volumes/{volume}"
    assert member.ask("POST", f"{path}/action", {"os-reserve": {}}).status == 202
    assert member.ask("GET", path).key("volume")["status"] == "attaching"
    assert member.ask("POST", f"{path}/action", {"os-unreserve": {}}).status == 202
    assert member.ask("GET", path).key("volume")["status"] == "available"


def test_an_images_properties_are_patched_and_it_is_turned_off_and_on(
    member: Http, admin: Http
) -> None:
    path = f"{IMAGE}/images/{member.image('patched')}"
    patch = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    changes = [{"op": "add", "path": "/os_distro", "value": "arch"}]
    changes.append({"op": "replace", "path": "/name", "value": "mended"})
    mended = member.ask("PATCH", path, changes, headers=patch)
    assert (mended.key("os_distro"), mended.key("name")) == ("arch", "mended")
    assert admin.ask("POST", f"{path}/actions/deactivate").status == 204
    assert member.ask("GET", f"{path}/file").status == 403
    assert admin.ask("POST", f"{path}/actions/reactivate").status == 204
    assert member.ask("GET", f"{path}/file").status == 200
    assert member.ask("DELETE", path).status == 204


def test_what_a_server_has_around_it_is_shown(member: Http, guest: str) -> None:
    server = member.server("rare", guest, metadata={"old": "1"})
    path = f"{COMPUTE}/servers/{server}"
    assert member.ask("GET", f"{path}/ips").key("addresses") == {}
    assert member.ask("GET", f"{path}/os-interface").key("interfaceAttachments") == []
    assert isinstance(member.ask("GET", f"{path}/os-security-groups").key("security_groups"), list)
    assert member.ask("GET", f"{path}/migrations", version="2.79").status == 403
    replaced = member.ask("PUT", f"{path}/metadata", {"metadata": {"new": "2"}})
    assert replaced.key("metadata") == {"new": "2"}
    member.delete_server(server)


def test_a_consoles_length_counts_what_stands_between_newlines(member: Http, guest: str) -> None:
    server = member.server("talks", guest)
    path = f"{COMPUTE}/servers/{server}/action"

    def read(length: int | str | None) -> str:
        return member.ask("POST", path, {"os-getConsoleOutput": {"length": length}}).key("output")

    assert member.ask("POST", path, {"reboot": {"type": "HARD"}}).status == 202
    member.until_server(server, "ACTIVE")
    whole = read(None)
    pieces = whole.split("\n")
    assert len(pieces) > 2
    assert pieces[-1] == ""
    assert read(2) == "\n".join(pieces[-2:])
    assert (read(0), read("1"), read(-1), read(len(pieces) + 1)) == ("", "", whole, whole)
    member.delete_server(server)


def test_a_project_is_granted_a_role_that_is_seen_and_taken(admin: Http) -> None:
    [user] = admin.ask("GET", f"{IDENTITY}/users?name=demo").key("users")
    [project] = admin.ask("GET", f"{IDENTITY}/projects?name=admin").key("projects")
    [role] = admin.ask("GET", f"{IDENTITY}/roles?name=reader").key("roles")
    for scope in (f"projects/{project['id']}", "domains/default", "system"):
        grants = f"{IDENTITY}/{scope}/users/{user['id']}/roles"
        grant = f"{grants}/{role['id']}"
        assert admin.ask("GET", grant).status == 404
        assert admin.ask("PUT", grant).status == 204
        assert admin.ask("GET", grant).status == 204
        assert [row["name"] for row in admin.ask("GET", grants).key("roles")] == ["reader"]
        assert admin.ask("DELETE", grant).status == 204
        assert admin.ask("GET", grants).key("roles") == []


def test_a_service_of_somebody_elses_joins_the_catalogue_and_leaves(admin: Http) -> None:
    body = {"service": {"type": "dns", "name": "designate"}}
    service = admin.ask("POST", f"{IDENTITY}/services", body).key("service")
    path = f"{IDENTITY}/services/{service['id']}"
    assert admin.ask("GET", path).key("service")["type"] == "dns"
    there = {"interface": "public", "service_id": service["id"], "url": "http://127.0.0.1:1"}
    made = admin.ask("POST", f"{IDENTITY}/endpoints", {"endpoint": there}).key("endpoint")
    types = {row["type"] for row in admin.ask("GET", f"{IDENTITY}/auth/catalog").key("catalog")}
    assert "dns" in types
    assert admin.ask("DELETE", f"{IDENTITY}/endpoints/{made['id']}").status == 204
    assert admin.ask("DELETE", path).status == 204
    types = {row["type"] for row in admin.ask("GET", f"{IDENTITY}/auth/catalog").key("catalog")}
    assert "dns" not in types
