"""Public keys of users: made, read in, and told apart by their fingerprints."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from msgspec import Struct
from sqlalchemy import delete as delete_from
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mooring.compute.tables import Keypair
from mooring.errors import Conflict, Invalid, NotFound

_UNREADABLE = (
    "Keypair data is invalid: failed to generate fingerprint. Give the whole public key, as in"
    " id_ed25519.pub (ssh) or as a PEM certificate (x509)."
)

KeyType = Literal["ssh", "x509"]


class NewKeypair(Struct, frozen=True, kw_only=True):
    """A key to be kept for `user_id`; `public_key` None makes a new one."""

    user_id: str
    name: str
    type: KeyType = "ssh"
    public_key: str | None = None


class KeyMaterial(Struct, frozen=True):
    """The two halves of a key and its fingerprint; `private_key` is "" when the user keeps it."""

    public_key: str
    fingerprint: str
    private_key: str = ""


def generate() -> KeyMaterial:
    """Make an ed25519 key pair for ssh."""
    private = ed25519.Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    secret = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    text = f"{public.decode()} Generated-by-Mooring"
    return KeyMaterial(text, ssh_fingerprint(text), secret.decode())


def ssh_fingerprint(public_key: str) -> str:
    """Return the md5 of an OpenSSH public key in colon form. Raises Invalid when it is none."""
    try:
        kind, encoded = public_key.split()[:2]
        blob = base64.b64decode(encoded, validate=True)
        _check_ssh_key(kind, encoded, blob)
    except ValueError as error:
        raise Invalid(_UNREADABLE, private=str(error)) from error
    digest = hashlib.md5(blob, usedforsecurity=False).hexdigest()
    return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))


def _check_ssh_key(kind: str, encoded: str, blob: bytes) -> None:
    """Raise ValueError unless it is an ssh key."""
    try:
        serialization.load_ssh_public_key(f"{kind} {encoded}".encode())
    except UnsupportedAlgorithm:
        # Key types that the library does not know (hardware keys) still begin with their name.
        if not blob.startswith(len(kind).to_bytes(4, "big") + kind.encode()):
            raise ValueError(f"not a key of type {kind}") from None


def x509_fingerprint(certificate: str) -> str:
    """Return the sha1 of a PEM certificate in colon form. Raises Invalid when it is none."""
    try:
        loaded = x509.load_pem_x509_certificate(certificate.encode())
    except (ValueError, x509.InvalidVersion) as error:
        raise Invalid(_UNREADABLE, private=str(error)) from error
    return loaded.fingerprint(hashes.SHA1()).hex(":")  # noqa: S303  (the API's own form)


def material(request: NewKeypair) -> KeyMaterial:
    """Return the key that a request names, or a new one. Slow: never inside a transaction."""
    if request.public_key is None:
        if request.type == "x509":
            raise Invalid("Generating x509 keypairs is not built: give a public_key.")
        return generate()
    read = x509_fingerprint if request.type == "x509" else ssh_fingerprint
    return KeyMaterial(request.public_key, read(request.public_key))


def create(tx: Session, request: NewKeypair, key: KeyMaterial, now: datetime) -> Keypair:
    """Keep a key. Raises Conflict when the user has one of that name."""
    row = Keypair(
        user_id=request.user_id,
        name=request.name,
        type=request.type,
        public_key=key.public_key,
        fingerprint=key.fingerprint,
        created_at=now,
    )
    try:
        with tx.begin_nested():
            tx.add(row)
    except IntegrityError as error:
        raise Conflict(f"Key pair '{request.name}' already exists.") from error
    return row


def visible(tx: Session, user_id: str, name: str) -> Keypair:
    """Return a user's key by its name. Raises NotFound."""
    query = select(Keypair).where(Keypair.user_id == user_id, Keypair.name == name)
    row = tx.execute(query).scalar_one_or_none()
    if row is None:
        raise NotFound(f"Keypair {name} not found for user {user_id}")
    return row


def page(tx: Session, user_id: str, *, marker: str, limit: int) -> Sequence[Keypair]:
    """Return a user's keys by name, those behind `marker`. Raises Invalid for an unknown marker."""
    wanted = select(Keypair).where(Keypair.user_id == user_id)
    if marker:
        if tx.execute(wanted.where(Keypair.name == marker)).first() is None:
            raise Invalid(f"marker [{marker}] not found")
        wanted = wanted.where(Keypair.name > marker)
    return tx.execute(wanted.order_by(Keypair.name).limit(limit)).scalars().all()


def count(tx: Session, user_id: str) -> int:
    """Return how many keys a user keeps."""
    return tx.execute(
        select(func.count()).select_from(Keypair).where(Keypair.user_id == user_id)
    ).scalar_one()


def delete(tx: Session, user_id: str, name: str) -> None:
    """Forget a key; servers keep the one they were made with. Raises NotFound."""
    row = visible(tx, user_id, name)
    tx.execute(delete_from(Keypair).where(Keypair.id == row.id))
