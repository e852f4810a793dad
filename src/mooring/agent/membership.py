"""What a host keeps of its joining: one file with its key, its certificate and where it serves.

The key is on disk before anybody is asked to certify it, and the certificate with all the rest in
one rename: a host that is killed in between asks again with the same key and is the same host.
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import msgspec
from msgspec import Struct

from mooring import certificates, typed
from mooring.agent.settings import Role
from mooring.agent_api.joining import JoinToken, fetch_authority, join
from mooring.certificates import Held
from mooring.errors import Conflict, Invalid
from mooring.probe import Probe
from mooring.secret_file import ensure_secret, write_secret

FILE = "membership.json"
KEY, RENEWAL_KEY = "joining.key", "renewal.key"
"""Keys on their way to be the host's own: of the first certificate, and of the next one."""


class Membership(Struct, frozen=True, kw_only=True):
    """A host of a cloud. `address` is where it serves, as ADDRESS:PORT; the last three are PEM."""

    name: str
    roles: list[Role]
    address: str
    token: str
    """Which token let it in, as a digest."""
    authority: str
    certificate: str
    key: str

    @property
    def held(self) -> Held:
        """What it shows to those who call."""
        return Held(self.certificate.encode(), self.key.encode(), self.authority.encode())


def read(state_dir: Path) -> Membership | None:
    """Return what a directory says, None when its host never joined. Raises Invalid."""
    path = state_dir / FILE
    try:
        return typed.decode(path.read_bytes(), Membership)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise Invalid(
            f"{path} cannot be read: {error}. Restore it, or remove the host from its cloud and "
            "let it join again."
        ) from error


async def enter(state_dir: Path, token: JoinToken, address: str, probe: Probe) -> Membership:
    """Join the cloud of a token, or find that this host has by it; return what it is there.

    Raises Conflict when the directory is another host's, and as `agent_api.joining.join` does.
    """
    token_digest = hashlib.sha256(token.secret.encode()).hexdigest()
    member = await asyncio.to_thread(read, state_dir)
    if member is not None:
        check_same(state_dir, member, token)
        if member.token == token_digest:
            return member
    key = await asyncio.to_thread(ensure_key, state_dir / KEY)
    authority = await fetch_authority(token)
    joined = await join(token, authority, key, address)
    probe.at("agent/join/certified")
    member = Membership(
        name=joined.name,
        roles=joined.roles,
        address=address,
        token=token_digest,
        authority=authority.decode("ascii"),
        certificate=joined.certificate,
        key=key.decode("ascii"),
    )
    await asyncio.to_thread(_settle, state_dir, member)
    return member


def write(state_dir: Path, member: Membership) -> None:
    """Keep what a host is, in place of what it was."""
    write_secret(state_dir / FILE, msgspec.json.format(msgspec.json.encode(member)))


def forget_used_keys(state_dir: Path) -> None:
    """Remove the keys on their way that are the host's own by now. Blocking. Raises Invalid.

    A host that is killed behind its certificate keeps them, and would have them certified again.
    """
    member = read(state_dir)
    for path in (state_dir / KEY, state_dir / RENEWAL_KEY):
        if member is not None and path.exists() and path.read_text("ascii") == member.key:
            path.unlink()


def _settle(state_dir: Path, member: Membership) -> None:
    write(state_dir, member)
    (state_dir / KEY).unlink(missing_ok=True)


def check_same(state_dir: Path, member: Membership, token: JoinToken) -> None:
    """Raise Conflict when a token is for another host than the one of a directory."""
    known = certificates.fingerprint(member.authority.encode("ascii"))
    if (member.name, known) != (token.host, token.authority):
        raise Conflict(
            f"{state_dir} is that of host {member.name}, which joined "
            f"{'this' if known == token.authority else 'another'} cloud; the token is for host "
            f"{token.host}. Start the agent without --join, or with another --state-dir."
        )


def ensure_key(path: Path) -> bytes:
    """Return the key in a file, made whole when it is missing; two who make it find one."""
    path.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    return ensure_secret(path, certificates.new_key)
