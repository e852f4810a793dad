from __future__ import annotations

import ssl
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from mooring import certificates
from mooring.compute.keypairs import keypairs
from tests.compute.api.cloud import ComputeAlone, fault_of

pytestmark = pytest.mark.anyio

PUBLIC = keypairs.generate().public_key


def of_version_9() -> str:
    """A certificate (PEM) of a version that there is not."""
    root = ssl.PEM_cert_to_DER_cert(
        certificates.make_authority(datetime.now(UTC)).certificate.decode()
    )
    of_3, of_9 = b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x08"
    assert of_3 in root
    return ssl.DER_cert_to_PEM_cert(root.replace(of_3, of_9, 1))


async def create(
    cloud: ComputeAlone, version: str = "2.2", *, user: str = "member", **key: Any
) -> Any:
    return await cloud.ask("POST", "/os-keypairs", {"keypair": key}, version=version, user=user)


async def names(cloud: ComputeAlone, query: str = "", **how: str) -> list[str]:
    listed = await cloud.get(f"/os-keypairs{query}", **how)
    return [pair["keypair"]["name"] for pair in listed["keypairs"]]


async def test_a_new_key_is_returned_with_its_private_half_once(cloud: ComputeAlone) -> None:
    answer = await create(cloud, name="k")
    assert answer.status == 201
    made = answer.body["keypair"]
    assert set(made) == {"name", "public_key", "fingerprint", "user_id", "type", "private_key"}
    private = serialization.load_ssh_private_key(made["private_key"].encode(), None)
    public = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    assert made["public_key"].startswith(public.decode())
    shown = (await cloud.get("/os-keypairs/k", version="2.2"))["keypair"]
    assert "private_key" not in shown
    assert shown["fingerprint"] == made["fingerprint"]
    assert (shown["deleted"], shown["created_at"]) == (False, "2026-01-01T00:00:00.000000")


async def test_a_key_is_read_in(cloud: ComputeAlone) -> None:
    made = (await create(cloud, name="k", public_key=PUBLIC)).body["keypair"]
    assert "private_key" not in made
    assert made["fingerprint"] == keypairs.ssh_fingerprint(PUBLIC)
    assert len(made["fingerprint"].split(":")) == 16


@pytest.mark.parametrize(("version", "made", "gone"), [("2.1", 200, 202), ("2.2", 201, 204)])
async def test_codes_changed_with_22(
    cloud: ComputeAlone, version: str, made: int, gone: int
) -> None:
    answer = await create(cloud, version, name="k", public_key=PUBLIC)
    assert answer.status == made
    assert ("type" in answer.body["keypair"]) == (version == "2.2")
    deleted = await cloud.ask("DELETE", "/os-keypairs/k", version=version)
    assert deleted.status == gone
    assert fault_of(await cloud.ask("GET", "/os-keypairs/k"))[:2] == (404, "itemNotFound")


async def test_a_name_is_taken_once_by_each_user(cloud: ComputeAlone) -> None:
    assert (await create(cloud, name="k", public_key=PUBLIC)).status == 201
    again = await create(cloud, name="k", public_key=PUBLIC)
    assert fault_of(again)[:2] == (409, "conflictingRequest")
    theirs = await create(cloud, name="k", public_key=PUBLIC, user="stranger")
    assert theirs.status == 201
    assert (await cloud.get("/os-keypairs/k", user="stranger"))["keypair"]["user_id"] == "stranger"


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
        ("2.2", {"name": "k", "type": "x509", "public_key": of_version_9()}),
        ("2.1", {"name": "k", "type": "ssh"}),
        ("2.9", {"name": "k", "user_id": "admin"}),
        ("2.92", {"name": "k"}),
        ("2.92", {"name": "a/b", "public_key": PUBLIC}),
        ("2.2", {"name": "k", "more": 1}),
    ],
)
async def test_bad_input_is_400(cloud: ComputeAlone, version: str, key: dict[str, Any]) -> None:
    assert fault_of(await create(cloud, version, **key))[:2] == (400, "badRequest")


async def test_names_are_wider_from_292_on(cloud: ComputeAlone) -> None:
    answer = await create(cloud, "2.92", name="me@host.org", public_key=PUBLIC)
    assert answer.status == 201


async def test_keys_of_others_are_for_administrators_from_210_on(cloud: ComputeAlone) -> None:
    await create(cloud, name="mine", public_key=PUBLIC)
    assert await names(cloud, "?user_id=member", version="2.10", user="admin") == ["mine"]
    assert await names(cloud, "?user_id=member", version="2.9", user="admin") == []
    refused = await cloud.ask("GET", "/os-keypairs?user_id=admin", version="2.10")
    assert fault_of(refused)[:2] == (403, "forbidden")
    body = {"name": "given", "public_key": PUBLIC, "user_id": "member"}
    assert fault_of(await create(cloud, "2.10", user="stranger", **body))[0] == 403
    assert (await create(cloud, "2.10", user="admin", **body)).status == 201
    assert await names(cloud) == ["given", "mine"]


async def test_keys_are_paged_from_235_on(cloud: ComputeAlone) -> None:
    for name in "abc":
        await create(cloud, name=name, public_key=PUBLIC)
    assert await names(cloud, "?limit=1", version="2.34") == ["a", "b", "c"]
    path, found = "/os-keypairs?limit=2", list[str]()
    while path:
        listed = await cloud.get(path, version="2.35")
        found += [pair["keypair"]["name"] for pair in listed["keypairs"]]
        path = next((link["href"] for link in listed.get("keypairs_links", [])), "")
    assert found == ["a", "b", "c"]
    lost = await cloud.ask("GET", "/os-keypairs?marker=z", version="2.35")
    assert fault_of(lost)[:2] == (400, "badRequest")


async def test_too_many_keys_are_403(cloud: ComputeAlone) -> None:
    limit = {"quota_set": {"key_pairs": 1}}
    project = "0123456789abcdef0123456789abcdef"
    await cloud.ask("PUT", f"/os-quota-sets/{project}", limit, user="admin")
    assert (await create(cloud, name="a", public_key=PUBLIC)).status == 201
    assert fault_of(await create(cloud, name="b", public_key=PUBLIC))[:2] == (403, "forbidden")
