from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from mooring.compute.keypairs import keypairs
from tests.compute.api.desk import Desk, fault_of

pytestmark = pytest.mark.anyio

PUBLIC = keypairs.generate().public_key


async def create(desk: Desk, version: str = "2.2", *, who: str = "member", **key: Any) -> Any:
    return await desk.ask("POST", "/os-keypairs", {"keypair": key}, version=version, who=who)


async def names(desk: Desk, query: str = "", **how: str) -> list[str]:
    listed = await desk.get(f"/os-keypairs{query}", **how)
    return [pair["keypair"]["name"] for pair in listed["keypairs"]]


async def test_a_new_key_is_returned_with_its_private_half_once(desk: Desk) -> None:
    answer = await create(desk, name="k")
    assert answer.status_code == 201
    made = answer.json()["keypair"]
    assert set(made) == {"name", "public_key", "fingerprint", "user_id", "type", "private_key"}
    private = serialization.load_ssh_private_key(made["private_key"].encode(), None)
    public = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    assert made["public_key"].startswith(public.decode())
    shown = (await desk.get("/os-keypairs/k", version="2.2"))["keypair"]
    assert "private_key" not in shown
    assert shown["fingerprint"] == made["fingerprint"]
    assert (shown["deleted"], shown["created_at"]) == (False, "2026-01-01T00:00:00.000000")


async def test_a_key_is_read_in(desk: Desk) -> None:
    made = (await create(desk, name="k", public_key=PUBLIC)).json()["keypair"]
    assert "private_key" not in made
    assert made["fingerprint"] == keypairs.ssh_fingerprint(PUBLIC)
    assert len(made["fingerprint"].split(":")) == 16


@pytest.mark.parametrize(("version", "made", "gone"), [("2.1", 200, 202), ("2.2", 201, 204)])
async def test_codes_changed_with_22(desk: Desk, version: str, made: int, gone: int) -> None:
    answer = await create(desk, version, name="k", public_key=PUBLIC)
    assert answer.status_code == made
    assert ("type" in answer.json()["keypair"]) == (version == "2.2")
    deleted = await desk.ask("DELETE", "/os-keypairs/k", version=version)
    assert deleted.status_code == gone
    assert fault_of(await desk.ask("GET", "/os-keypairs/k"))[:2] == (404, "itemNotFound")


async def test_a_name_is_taken_once_by_each_user(desk: Desk) -> None:
    assert (await create(desk, name="k", public_key=PUBLIC)).status_code == 201
    again = await create(desk, name="k", public_key=PUBLIC)
    assert fault_of(again)[:2] == (409, "conflictingRequest")
    theirs = await create(desk, name="k", public_key=PUBLIC, who="stranger")
    assert theirs.status_code == 201
    assert (await desk.get("/os-keypairs/k", who="stranger"))["keypair"]["user_id"] == "stranger"


@pytest.mark.parametrize(
    ("version", "key"),
    [
        ("2.2", {}),
        ("2.2", {"name": ""}),
        ("2.2", {"name": "a.b"}),
        ("2.2", {"name": "k", "public_key": "nonsense"}),
        ("2.2", {"name": "k", "public_key": "ssh-rsa AAAA"}),
        ("2.2", {"name": "k", "public_key": "ssh-ed25519 %%%"}),
        ("2.2", {"name": "k", "type": "gpg"}),
        ("2.2", {"name": "k", "type": "x509"}),
        ("2.2", {"name": "k", "type": "x509", "public_key": PUBLIC}),
        ("2.1", {"name": "k", "type": "ssh"}),
        ("2.9", {"name": "k", "user_id": "admin"}),
        ("2.92", {"name": "k"}),
        ("2.92", {"name": "a/b", "public_key": PUBLIC}),
        ("2.2", {"name": "k", "more": 1}),
    ],
)
async def test_bad_input_is_400(desk: Desk, version: str, key: dict[str, Any]) -> None:
    assert fault_of(await create(desk, version, **key))[:2] == (400, "badRequest")


async def test_names_are_wider_from_292_on(desk: Desk) -> None:
    answer = await create(desk, "2.92", name="me@host.org", public_key=PUBLIC)
    assert answer.status_code == 201


async def test_keys_of_others_are_for_administrators_from_210_on(desk: Desk) -> None:
    await create(desk, name="mine", public_key=PUBLIC)
    assert await names(desk, "?user_id=member", version="2.10", who="admin") == ["mine"]
    assert await names(desk, "?user_id=member", version="2.9", who="admin") == []
    refused = await desk.ask("GET", "/os-keypairs?user_id=admin", version="2.10")
    assert fault_of(refused)[:2] == (403, "forbidden")
    body = {"name": "given", "public_key": PUBLIC, "user_id": "member"}
    assert fault_of(await create(desk, "2.10", who="stranger", **body))[0] == 403
    assert (await create(desk, "2.10", who="admin", **body)).status_code == 201
    assert await names(desk) == ["given", "mine"]


async def test_keys_are_paged_from_235_on(desk: Desk) -> None:
    for name in "abc":
        await create(desk, name=name, public_key=PUBLIC)
    assert await names(desk, "?limit=1", version="2.34") == ["a", "b", "c"]
    path, found = "/os-keypairs?limit=2", list[str]()
    while path:
        listed = await desk.get(path, version="2.35")
        found += [pair["keypair"]["name"] for pair in listed["keypairs"]]
        path = next((link["href"] for link in listed.get("keypairs_links", [])), "")
    assert found == ["a", "b", "c"]
    lost = await desk.ask("GET", "/os-keypairs?marker=z", version="2.35")
    assert fault_of(lost)[:2] == (400, "badRequest")


async def test_too_many_keys_are_403(desk: Desk) -> None:
    limit = {"quota_set": {"key_pairs": 1}}
    project = "0123456789abcdef0123456789abcdef"
    await desk.ask("PUT", f"/os-quota-sets/{project}", limit, who="admin")
    assert (await create(desk, name="a", public_key=PUBLIC)).status_code == 201
    assert fault_of(await create(desk, name="b", public_key=PUBLIC))[:2] == (403, "forbidden")
