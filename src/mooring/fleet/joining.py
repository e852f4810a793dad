"""Who may join: invitations, and what becomes of them. What is refused changes nothing."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mooring import certificates, sockets
from mooring.agent_api.certificates import MoveCertificates
from mooring.agent_api.joining import Joined, JoinRequest, Role, check_name
from mooring.errors import Conflict, Forbidden, Invalid, OverQuota
from mooring.fleet.tables import HostRow
from mooring.limits import (
    CERTIFICATE_LIFETIME_S,
    CERTIFICATE_RENEW_S,
    FLEET_HOSTS,
    JOIN_TOKEN_S,
)

if TYPE_CHECKING:
    from mooring.certificates import Held

MOVES_LIFETIME_S = 86400.0
"""How long a host may ask other hosts' daemons for anything: a removed one loses that by itself."""
MOVES_RENEW_S = MOVES_LIFETIME_S / 2
"""How long before its end what allows that is renewed."""
ROLES: tuple[Role, ...] = ("compute", "volume", "share")
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9][A-Za-z0-9.-]{0,252}):([0-9]{1,5})")


def digest(secret: str) -> str:
    """Return what is kept of a token's secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def find(tx: Session, name: str) -> HostRow | None:
    """Return a host by its name."""
    return tx.execute(select(HostRow).where(HostRow.name == name)).scalar()


def find_all(tx: Session) -> list[HostRow]:
    """Return every host, by name."""
    return list(tx.execute(select(HostRow).order_by(HostRow.name)).scalars())


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of ADDRESS:PORT, without brackets. Raises Invalid."""
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found[2]) <= sockets.LAST_PORT:
        raise Invalid(
            f"'{address[:80]}' is no ADDRESS:PORT under which a host can be reached. "
            f"{sockets.PORTS}."
        )
    return found[1].strip("[]"), int(found[2])


def check_wish(name: str, roles: Sequence[str]) -> None:
    """Raise Invalid for a name or for roles that no host can have."""
    check_name(name)
    if not roles or len(set(roles)) < len(roles) or set(roles) - set(ROLES):
        raise Invalid(f"A host has one or more of the roles {', '.join(ROLES)}, each once.")


def invite(tx: Session, name: str, roles: Sequence[str], secret: str, now: datetime) -> datetime:
    """Let the bearer of `secret` join as a host; return until when. An earlier token is void.

    Raises Conflict when the host has joined already, OverQuota when there are too many.
    """
    row = find(tx, name)
    if row is None:
        if tx.execute(select(func.count()).select_from(HostRow)).scalar_one() >= FLEET_HOSTS:
            raise OverQuota(f"There are {FLEET_HOSTS} hosts. Remove one: mooring host remove NAME.")
        row = HostRow(name=name, status="invited", created_at=now)
        tx.add(row)
    elif row.status != "invited":
        raise Conflict(
            f"Host {name} has joined already. Choose another name, or first take this one out: "
            f"mooring host remove {name}."
        )
    row.roles, row.enrolment = list(roles), secrets.token_hex(16)
    row.token_digest, row.token_until = digest(secret), now + timedelta(seconds=JOIN_TOKEN_S)
    tx.flush()
    return row.token_until


def join(tx: Session, authority: Held, asked: JoinRequest, now: datetime) -> Joined:
    """Let a host in and return its certificate; the same one when the same key asks again.

    Raises Invalid, Forbidden for a token that is none or too old, Conflict for a used one.
    """
    wish = certificates.read_request(asked.wish.encode())
    address, _ = split_address(asked.address)
    query = select(HostRow).where(HostRow.token_digest == digest(asked.secret))
    row = tx.execute(query).scalar()
    if row is None:
        raise Forbidden(
            "This token is not known: a newer one was made for its host, the host was removed, or "
            "it is from another cloud. Ask for a new one: mooring host add NAME."
        )
    if row.status == "leaving":
        raise Conflict(
            f"Host {row.name} is being removed. Once it is out, ask for a new token: mooring host "
            f"add {row.name}."
        )
    if wish.name != row.name:
        raise Forbidden(f"This token is for host {row.name}, not for {wish.name[:80]}.")
    if row.status != "invited" and row.key_digest != wish.key_digest:
        raise Conflict(
            f"This token has been used: host {row.name} joined with another key. If that was not "
            f"you, mooring host remove {row.name}; then ask for a new token."
        )
    if row.status == "invited":
        _let_in(row, authority, wish, now=now, address=address)
    row.address = asked.address
    tx.flush()
    roles: list[Role] = [role for role in ROLES if role in row.roles]
    return Joined(name=row.name, roles=roles, certificate=row.certificate or "")


def _let_in(
    row: HostRow, authority: Held, wish: certificates.Wish, *, now: datetime, address: str
) -> None:
    if now > row.token_until:
        raise Forbidden(
            f"This token was good until {row.token_until:%FT%TZ}. Ask for a new one: mooring host "
            f"add {row.name}."
        )
    made = certificates.sign_host(
        authority, wish, row.enrolment, address, now=now, lifetime_s=CERTIFICATE_LIFETIME_S
    )
    row.status, row.joined_at = "joined", now
    row.key_digest, row.certificate = wish.key_digest, made.decode("ascii")


def is_due(row: HostRow, now: datetime) -> bool:
    """Whether a host's certificate ends soon."""
    if row.status != "joined" or row.certificate is None:
        return False
    left = certificates.expiry(row.certificate.encode()) - now
    return left < timedelta(seconds=CERTIFICATE_RENEW_S)


def sign_again(authority: Held, row: HostRow, wish: certificates.Wish, now: datetime) -> str:
    """Return the next certificate of a host that joined. Raises Conflict."""
    if row.status != "joined" or row.address is None or wish.name != row.name:
        raise Conflict(f"Host {row.name} cannot be certified: it is {row.status}.")
    address, _ = split_address(row.address)
    made = certificates.sign_host(
        authority, wish, row.enrolment, address, now=now, lifetime_s=CERTIFICATE_LIFETIME_S
    )
    return made.decode("ascii")


def sign_moves(
    authority: Held, row: HostRow, wish: certificates.Wish, now: datetime
) -> MoveCertificates:
    """Return what a host's guests come and go with from now on. Raises Conflict."""
    if row.status != "joined" or row.address is None or wish.name != row.name:
        raise Conflict(f"Host {row.name} cannot be certified: it is {row.status}.")
    address, _ = split_address(row.address)
    lifetimes = {False: CERTIFICATE_LIFETIME_S, True: MOVES_LIFETIME_S}
    server, client = (
        certificates.sign_for_moves(
            authority, wish, row.enrolment, address, asks=asks, now=now, lifetime_s=lifetime_s
        ).decode("ascii")
        for asks, lifetime_s in lifetimes.items()
    )
    return MoveCertificates(authority.certificate.decode("ascii"), server, client)


def lacks_moves(
    authority: Held, row: HostRow, held: MoveCertificates | None, now: datetime
) -> bool:
    """Whether a host has no such certificates of this joining, or some that end soon.

    What it shows that is none of a host's, it lacks.
    """
    if held is None or held.authority != authority.certificate.decode("ascii"):
        return True
    try:
        name = certificates.enrolled_name(held.server.encode())
        left = certificates.expiry(held.client.encode()) - now
    except Invalid:
        return True
    if name != certificates.host_name(row.enrolment):
        return True
    return left < timedelta(seconds=MOVES_RENEW_S)


def note(tx: Session, seen: HostRow, wish: certificates.Wish, certificate: str) -> None:
    """Write down what a host, `seen` before it was asked, shows now; not when that joining is over.

    Nor when another one has renewed its certificate since, later than this one: a host takes none
    for a key that it had before, so of two the later one is what it shows.
    """
    row = find(tx, seen.name)
    if row is None or row.enrolment != seen.enrolment or row.certificate is None:
        return
    ends, until = (certificates.expiry(one.encode()) for one in (row.certificate, certificate))
    if row.certificate == seen.certificate or until > ends:
        row.key_digest, row.certificate = wish.key_digest, certificate
